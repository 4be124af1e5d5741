"""Pages and error texts are plain technical English: an engineer reads them once.

The words here are those by which this project's prose went wrong: "Who is disturbed there lets the
system choose", "this is no tape file", "whoever writes to one gets a copy". A sentence names its
subject, and says that something is not so rather than that it is no such thing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.style.sources import tree_of

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "tests/README.md", "docs", "examples")

RIDDLES = {
    r"(?<!there )(?<!there's )\b(?:is|are|was|were) no\b(?! (?:longer|more)\b)": "write: is not a",
    r"(?:^|[.:;,] )who\b(?! (?:is|are) you)": "name the task, the host or the person",
    r"\bwhoever\b": "name the task, the host or the person",
    r"(?<!')\b(?:nobody|somebody)\b": "name the task, the program or the caller",
    r"\bfor ever\b": "write: forever",
}


def riddles(text: str) -> list[str]:
    """The words of a text that make a reader stop, each with what to write instead."""
    plain = re.sub(r"\s+", " ", text)
    return [
        f"{found[0].strip(' .:;,')!r}: {instead}"
        for pattern, instead in RIDDLES.items()
        for found in re.finditer(pattern, plain, re.IGNORECASE)
    ]


def prose_of(page: str) -> str:
    """The text of a page without its programs and their output."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", page, flags=re.DOTALL)


def said_by(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts of exceptions that are raised in a module, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            parts = [each.value for each in ast.walk(node.exc) if isinstance(each, ast.Constant)]
            yield node.lineno, " ".join(part for part in parts if isinstance(part, str))


def test_pages_are_plain() -> None:
    """README, changelog, the pages of docs, the READMEs of the tests and of the examples."""
    paths = [ROOT / name for name in PAGES]
    pages = [each for path in paths for each in (path.rglob("*.md") if path.is_dir() else [path])]
    assert len(pages) > 10
    found = {
        page.relative_to(ROOT).as_posix(): wrong
        for page in pages
        if (wrong := riddles(prose_of(page.read_text("utf-8"))))
    }
    assert found == {}


def test_errors_are_plain() -> None:
    """Whatever foretold raises, in whichever layer."""
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{line}: {wrong}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for line, text in said_by(tree_of(path))
        for wrong in riddles(text)
    ]
    assert found == []


def test_riddles_are_caught() -> None:
    """Planted: each of them is found; plain sentences with the same words are not."""
    assert (
        len(riddles("Who waits is held for ever. This is no file: whoever asks, nobody knows")) == 5
    )
    assert riddles("There is no file. It is no longer there. The person who runs it knows.") == []
    assert prose_of("a `b is no c` d\n```\nis no\n```\n") == "a  d\n\n"
    planted = ast.parse("raise ValueError(f'{x} is no ' 'file')\nraise other\n")
    assert [(line, riddles(text) != []) for line, text in said_by(planted)] == [(1, True)]
