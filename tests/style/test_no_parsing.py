"""Facts are data: no regular expression takes them out of prose or SQL again.

A sentence that a lower layer has made may be worded in another way tomorrow; who parses it is wrong
then, and nobody notices. So the parts that tell stories use no regular expressions, but for a few
files whose input is no prose of ours. SQL is read by one file.
"""

from __future__ import annotations

import ast
from pathlib import Path

from tests.style.sources import tree_of

FORETOLD = Path(__file__).parents[2] / "src" / "foretold"
TELLING = ("search", "story", "report", "trace", "services/postgres", "spec/machine")
ALLOWED = {
    "report/checked.py": "entries of the digest, whose format is fixed",
    "report/exports.py": "characters that XML does not have",
    "report/terminal.py": "characters that control a terminal",
    "search/failures/as_scenario.py": "the place at the beginning of a scenario's error",
    "search/checking/causes.py": "dates, ids and numbers in the values of a program",
    "search/failures/store.py": "the name of a test, which becomes the name of a folder",
    "story/wording.py": "ids of a program, which are replaced by their names",
    "services/postgres/binaries.py": "the version in the name of a folder",
    "services/postgres/scrub.py": "process numbers in messages of the server",
    "services/postgres/sqltext.py": "the tokenizer of SQL",
    "services/postgres/state.py": "which names need no quotes",
    "trace/content.py": "addresses in the repr of a value, and in the arguments of an exception",
    "trace/record.py": "the instant in an entry of the digest",
}
"""Files that may, and what they look at."""


def users_of_re(root: Path) -> set[str]:
    """The files of the parts that tell stories which import `re`, under any name."""
    found = set()
    for part in TELLING:
        for path in (root / part).rglob("*.py"):
            for node in ast.walk(tree_of(path)):
                names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                if "re" in names:
                    found.add(path.relative_to(root).as_posix())
    return found


def test_no_other_file_takes_facts_out_of_prose() -> None:
    """The list is closed: what is on it no more is taken off, and nothing is added in passing."""
    assert users_of_re(FORETOLD) == set(ALLOWED)


def test_such_a_file_would_be_found(tmp_path: Path) -> None:
    """Whatever way it imports the module."""
    (tmp_path / "search").mkdir()
    for name, source in {"a": "import re", "b": "from re import match", "c": "import os"}.items():
        (tmp_path / "search" / f"{name}.py").write_text(source)
    assert users_of_re(tmp_path) == {"search/a.py", "search/b.py"}
