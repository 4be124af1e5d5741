"""Annotations for GitHub, as the commands of its workflows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from foretold.report.campaign import group_text, replay_command
from foretold.search.failures.failure import Failure, Outcome
from foretold.story.signature import place_of
from foretold.trace import Place

_NOT_XML = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
"""What XML 1.0 cannot hold, not even escaped. To compile it takes five milliseconds."""


def plain(text: str) -> str:
    """A text without the characters that neither XML nor a log of GitHub's can hold."""
    return re.sub(_NOT_XML, "\ufffd", text)


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
    return f"::{kind} {said}::{_escaped(plain(text))}"


def _escaped(text: str, more: str = "") -> str:
    for char in f"%\r\n{more}":
        text = text.replace(char, f"%{ord(char):02X}")
    return text
