"""A class name means one thing in all of foretold, and so does `tell`.

A reader who meets `Step` in a traceback or an annotation must not have to find out which of five is
meant. Names with an underscore belong to one file and are free.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.style.sources import tree_of

SRC = Path(__file__).parents[2] / "src"
HANDLES = "foretold/handles.py"
HANDLES_OF = {"Disk", "Host", "HostTask", "Network", "Web", "World"}
"""The handle of an engine's class has its name: for users both are one (`foretold.World`)."""
TELL = {
    "foretold/story/story.py",
    "foretold/search/failures/workout.py",  # asks for the story
    "foretold/world/disk/fileio.py",  # a method of Python's files
}


def defined_twice(src: Path) -> dict[str, list[str]]:
    """Of each class name that several classes have, the files in which they stand."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(src.rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path.relative_to(src).as_posix())
    return {name: files for name, files in places.items() if len(files) > 1}


def test_no_class_name_means_two_things() -> None:
    """But for the handles, each of which is the face of one class of the engine."""
    twice = defined_twice(SRC)
    handles = {name for name, files in twice.items() if len(files) == 2 and HANDLES in files}
    assert handles == HANDLES_OF
    assert {name: files for name, files in twice.items() if name not in handles} == {}


def tellers(src: Path) -> set[str]:
    """The files with a function whose name begins with `tell`."""
    return {
        path.relative_to(src).as_posix()
        for path in src.rglob("*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.lstrip("_").split("_")[0] == "tell"
    }


def test_tell_means_to_make_a_story() -> None:
    """What wakes, notes, sends or shows is called so."""
    assert tellers(SRC) == TELL


def test_another_teller_would_be_found(tmp_path: Path) -> None:
    """Planted: a private method; another word that begins alike is free."""
    (tmp_path / "a.py").write_text("class A:\n    def _tell_all(self): ...\n")
    (tmp_path / "b.py").write_text("def telling(): ...\n")
    assert tellers(tmp_path) == {"a.py"}


def test_a_second_class_of_a_name_would_be_found(tmp_path: Path) -> None:
    """Planted: in another file, and inside of a function; a private name is free."""
    (tmp_path / "a.py").write_text("class Step: ...\nclass _Own: ...\nclass Other: ...\n")
    (tmp_path / "b.py").write_text("def f():\n    class Step: ...\nclass _Own: ...\n")
    assert defined_twice(tmp_path) == {"Step": ["a.py", "b.py"]}
