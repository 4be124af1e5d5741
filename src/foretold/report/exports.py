"""What other programs read: JUnit XML for continuous integration, annotations for GitHub."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypedDict
from xml.etree import ElementTree

from foretold.report.campaign import group_text, replay_command
from foretold.report.text import exception_text, failure_note
from foretold.report.vacuity import hollow_lines
from foretold.search.failures.failure import Failure, Outcome
from foretold.story.signature import place_of, text_of
from foretold.story.words import short_path
from foretold.trace import Place

# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
            told = ElementTree.SubElement(case, "failure", type="vacuous", message=_xml(said))
            told.text = _xml("\n".join(hollow_lines(outcome.hollow)))
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
        return _xml(target)
    kind, place = failure.signature
    return _xml(f"{target} [{kind.rpartition('.')[2]} {short_path(place)}]")


def _add_failure(case: ElementTree.Element, failure: Failure, runs: int, target: str) -> None:
    command = replay_command(failure, target)
    said = text_of(failure.exception).split("\n")[0]
    told = ElementTree.SubElement(
        case, "failure", type=type(failure.exception).__name__, message=_xml(said)
    )
    note = failure_note(failure, runs=runs, command=command)
    told.text = _xml(f"{exception_text(failure.exception)}\n\n{note}")


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


class Annotation(TypedDict):
    """A failure as GitHub is told of it. Plain data: it travels between processes."""

    title: str
    file: str
    """Empty if no line is to blame."""
    line: int
    text: str


def annotation_of(failure: Failure, command: str, otherwise: Place | None = None) -> Annotation:
    """One kind of failure, and the command that replays it. `otherwise` is the place of a failure
    that no line of the user's raised."""
    place = place_of(failure.exception) or otherwise
    return Annotation(
        title=f"foretold: {type(failure.exception).__name__}",
        file=place.file if place else "",
        line=place.line if place else 0,
        text="\n".join(filter(None, [group_text(failure, command), failure.story])),
    )


def github_annotations(outcome: Outcome, target: str) -> Iterator[str]:
    """Lines that GitHub shows beside the code: each kind of failure, and what was never true."""
    for failure in outcome.failures:
        yield error_line(annotation_of(failure, replay_command(failure, target)))
    if outcome.is_empty:
        said = f"{target}: nothing was explored: {outcome.why_vacuous}"
        yield _command("error", {"title": "foretold: vacuous"}, said)
    kind = "warning" if outcome.forgiven else "error"
    for each in outcome.hollow:
        yield _command(kind, {"title": "foretold: vacuous"}, f"{each}: {each.remedy}")
    for each in outcome.hints:
        yield _command("warning", {"title": "foretold: few runs"}, f"{each}: {each.remedy}")
    if not outcome.failures and not outcome.hollow:
        yield from map(warning_line, (f"never true in any run: {p}" for p in outcome.missed))


def error_line(annotation: Annotation) -> str:
    """The line for a failure."""
    properties = {"title": annotation["title"]}
    if annotation["file"]:
        where = {"file": _in_repository(annotation["file"]), "line": str(annotation["line"])}
        properties = where | properties
    return _command("error", properties, annotation["text"])


def warning_line(text: str) -> str:
    """The line for what deserves a look."""
    return _command("warning", {"title": "foretold"}, text)


def _in_repository(file: str) -> str:
    """GitHub wants paths from the root of the repository."""
    root = os.environ.get("GITHUB_WORKSPACE") or os.getcwd()
    relative = os.path.relpath(file, root)
    return file if relative.startswith("..") else Path(relative).as_posix()


def _command(kind: str, properties: dict[str, str], text: str) -> str:
    said = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in properties.items())
    return f"::{kind} {said}::{_escaped(_xml(text))}"


def _escaped(text: str, more: str = "") -> str:
    for char in f"%\r\n{more}":
        text = text.replace(char, f"%{ord(char):02X}")
    return text
