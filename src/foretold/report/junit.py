"""JUnit XML, which continuous integration reads."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from foretold.report.campaign import replay_command
from foretold.report.exports import plain
from foretold.report.text import exception_text, failure_note
from foretold.report.vacuity import hollow_lines
from foretold.search.failures.failure import Failure, Outcome
from foretold.story.signature import text_of
from foretold.story.words import short_path


def junit_xml(outcome: Outcome, *, runs: int, target: str) -> str:
    """One test suite: the target as a test case, and one more for each further kind of failure."""
    failures = outcome.failures
    is_hollow = bool(outcome.hollow) and not outcome.forgiven
    is_skipped = outcome.vacuous and not outcome.is_empty
    suite = ElementTree.Element(
        "testsuite",
        name="foretold",
        tests=str(max(1, len(failures))),
        failures=str(len(failures) or int(is_hollow or outcome.is_empty)),
        errors=str(int(_ended_early(outcome))),
        skipped=str(int(is_skipped)),
        time=f"{outcome.elapsed_s:.3f}",
    )
    properties = ElementTree.SubElement(suite, "properties")
    figures = {"seed": outcome.seed, "runs": outcome.runs, "reached": outcome.coverage.reached}
    for name, value in figures.items():
        ElementTree.SubElement(properties, "property", name=name, value=str(value))
    shown: Sequence[Failure | None] = failures or [None]
    for failure in shown:
        case = ElementTree.SubElement(
            suite, "testcase", classname="foretold", name=_case_name(target, failure, failures)
        )
        case.set("time", f"{outcome.elapsed_s:.3f}")
        if failure is not None:
            _add_failure(case, failure, runs, target)
        elif is_hollow:
            said = "; ".join(map(str, outcome.hollow))
            told = ElementTree.SubElement(case, "failure", type="vacuous", message=plain(said))
            told.text = plain("\n".join(hollow_lines(outcome.hollow)))
        elif _ended_early(outcome):
            said = f"interrupted after {outcome.runs:,} runs: nothing has failed so far"
            ElementTree.SubElement(case, "error", message=said)
        elif outcome.is_empty:
            said = f"nothing was explored: {outcome.why_vacuous}"
            ElementTree.SubElement(case, "failure", type="vacuous", message=said)
        elif is_skipped:
            ElementTree.SubElement(
                case, "skipped", message=f"nothing to explore: {outcome.why_vacuous}"
            )
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _ended_early(outcome: Outcome) -> bool:
    return outcome.interrupted and not outcome.failures


def _case_name(target: str, failure: Failure | None, failures: list[Failure]) -> str:
    if failure is None or len(failures) == 1:
        return plain(target)
    kind, place = failure.signature
    return plain(f"{target} [{kind.rpartition('.')[2]} {short_path(place)}]")


def _add_failure(case: ElementTree.Element, failure: Failure, runs: int, target: str) -> None:
    command = replay_command(failure, target)
    said = text_of(failure.exception).split("\n")[0]
    told = ElementTree.SubElement(
        case, "failure", type=type(failure.exception).__name__, message=plain(said)
    )
    note = failure_note(failure, runs=runs, command=command)
    told.text = plain(f"{exception_text(failure.exception)}\n\n{note}")
