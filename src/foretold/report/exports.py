"""What other programs read: JUnit XML for continuous integration, annotations for GitHub."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from foretold.report.campaign import group_text
from foretold.report.text import exception_text, failure_note, replay_arguments
from foretold.report.vacuity import hollow_lines
from foretold.search.failure import Failure, Outcome
from foretold.search.signature import place_of
from foretold.search.words import short_path

# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(outcome: Outcome, *, runs: int, target: str) -> str:
    """One test suite: the target as a test case, and one more for each further kind of failure."""
    failures = outcome.failures
    suite = ElementTree.Element(
        "testsuite",
        name="foretold",
        tests=str(max(1, len(failures))),
        failures=str(len(failures) or int(bool(outcome.hollow))),
        errors="0",
        skipped=str(int(outcome.vacuous)),
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
        elif outcome.hollow:
            said = "; ".join(map(str, outcome.hollow))
            told = ElementTree.SubElement(case, "failure", type="vacuous", message=_xml(said))
            told.text = _xml("\n".join(hollow_lines(outcome.hollow)))
        elif outcome.vacuous:
            ElementTree.SubElement(case, "skipped", message="nothing to explore")
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _case_name(target: str, failure: Failure | None, failures: list[Failure]) -> str:
    if failure is None or len(failures) == 1:
        return _xml(target)
    kind, place = failure.signature
    return _xml(f"{target} [{kind.rpartition('.')[2]} {short_path(place)}]")


def _add_failure(case: ElementTree.Element, failure: Failure, runs: int, target: str) -> None:
    command = f"foretold replay {replay_arguments(failure, target)}"
    said = str(failure.exception).split("\n")[0]
    told = ElementTree.SubElement(
        case, "failure", type=type(failure.exception).__name__, message=_xml(said)
    )
    note = failure_note(failure, runs=runs, command=command)
    told.text = _xml(f"{exception_text(failure.exception)}\n\n{note}")


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def in_github_actions() -> bool:
    """Whether annotations are wanted without being asked for."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def github_annotations(outcome: Outcome, target: str) -> Iterator[str]:
    """Lines that GitHub shows beside the code: each kind of failure, and what was never true."""
    for failure in outcome.failures:
        place = place_of(failure.exception)
        properties = {"title": f"foretold: {type(failure.exception).__name__}"}
        if place is not None:
            properties = {"file": _in_repository(place.file), "line": str(place.line), **properties}
        text = "\n".join(filter(None, [group_text(failure, target), failure.story]))
        yield _command("error", properties, text)
    for each in outcome.hollow:
        yield _command("error", {"title": "foretold: vacuous"}, f"{each}: {each.remedy}")
    if not outcome.failures and not outcome.hollow:
        for point in outcome.missed:
            yield _command("warning", {"title": "foretold"}, f"never true in any run: {point}")


def _in_repository(file: str) -> str:
    """GitHub wants paths from the root of the repository."""
    root = os.environ.get("GITHUB_WORKSPACE") or os.getcwd()
    relative = os.path.relpath(file, root)
    return file if relative.startswith("..") else Path(relative).as_posix()


def _command(kind: str, properties: dict[str, str], text: str) -> str:
    said = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in properties.items())
    return f"::{kind} {said}::{_escaped(text)}"


def _escaped(text: str, more: str = "") -> str:
    for char in f"%\r\n{more}":
        text = text.replace(char, f"%{ord(char):02X}")
    return text
