"""The table of system calls is closed: each builtin that can reach the machine has one row."""

from __future__ import annotations

import importlib
import os
import pathlib
import subprocess
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pytest

from foretold.kernel.patches import patches
from foretold.kernel.swap import is_swapped
from foretold.kernel.syscalls import dispatch
from foretold.kernel.syscalls.of_python import NOT_FOR_PROGRAMS, ONLY_AFTER, WHOLE
from foretold.kernel.syscalls.rows import Fate
from foretold.kernel.syscalls.table import ROWS, TABLE, is_known, row_of

ROOT = pathlib.Path(__file__).parents[2]
SEPARATE = """
import sys
from tests.kernel.test_syscalls import unlisted
found = unlisted()
print(*found, sep="\\n")
sys.exit(bool(found))
"""


def callables_of(module: Any) -> Iterator[str]:
    """The names of a module that can be called: functions and types, but no exceptions."""
    for name, value in vars(module).items():
        if not callable(value) or isinstance(value, FunctionType) or name == "__loader__":
            continue  # no call, or one that is written in Python
        if not (isinstance(value, type) and issubclass(value, BaseException)):
            yield name


def harmless_names() -> Iterator[tuple[str, str, str]]:
    """All that nothing happens to: the module, the name or "*" for all, and why."""
    for row in ROWS:
        if row.kind is Fate.HARMLESS:
            yield from ((row.module, name, row.why) for name in row.names)
    for module in ONLY_AFTER:
        found = row_of(module, "*")
        assert found is not None, "such modules have a reason"
        yield module, "*", found.why
    yield from ((module, "*", reason) for module, reason in WHOLE.items())


def modules_in_c() -> Iterator[str]:
    """Every module of this Python that is written in C."""
    yield from sys.builtin_module_names
    folder = pathlib.Path(sysconfig.get_path("platstdlib")) / "lib-dynload"
    yield from (path.name.split(".")[0] for path in folder.glob("*.so"))


def loaded(name: str) -> ModuleType | None:
    """The module, if this system has what it needs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are about to go
        try:
            return importlib.import_module(name)
        except ImportError:
            return None


def unlisted() -> list[str]:
    """What stands in no row: modules, and names of modules that are listed name by name."""
    found = [name for name in modules_in_c() if not is_known(name)]
    for name in TABLE:
        module = loaded(name)
        names = () if module is None else callables_of(module)
        found += [f"{name}.{each}" for each in names if row_of(name, each) is None]
    return found


def test_each_name_of_this_python_has_a_row() -> None:
    """A new Python cannot open a hole: a name that nobody has judged fails here. In a process of
    its own, because to import all modules in C changes this one (readline, curses)."""
    done = subprocess.run(
        [sys.executable, "-c", SEPARATE], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.stdout.split(), done.returncode) == ([], 0), done.stderr


def test_the_check_sees_a_new_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: a function that a later Python might add is reported."""
    monkeypatch.setattr(loaded("resource"), "set_cpu_quota", len, raising=False)
    assert "resource.set_cpu_quota" in unlisted_of("resource")


def unlisted_of(name: str) -> list[str]:
    """What stands in no row, of one module."""
    module = loaded(name)
    assert module is not None
    return [f"{name}.{each}" for each in callables_of(module) if row_of(name, each) is None]


def test_no_name_is_in_two_rows() -> None:
    """Exactly one of the three; and no module is listed both name by name and as a whole."""
    names = [(row.module, name) for row in ROWS for name in row.names]
    assert len(names) == len(set(names))
    assert not set(TABLE) & set(WHOLE)
    assert not [name for name in (*TABLE, *WHOLE) if name.startswith(NOT_FOR_PROGRAMS)]


def test_each_row_says_why_and_what_instead() -> None:
    """A reason for each, and a remedy for each that is refused."""
    assert [row for row in ROWS if len(row.why) < 10] == []
    assert [row for row in ROWS if row.kind is Fate.REFUSED and not row.instead] == []


def listed_functions() -> Iterator[tuple[str, Any, Fate]]:
    """The functions of the table that this Python has."""
    for name, rows in TABLE.items():
        module = sys.modules.get(name) if name in dispatch.LATE else loaded(name)
        for each, row in rows.items():
            builtin = getattr(module, each, None)
            if type(builtin) is BuiltinFunctionType:
                yield f"{name}.{each}", builtin, row.kind


LED_OTHERWISE = {
    "_thread.allocate_lock": "it makes a lock, whose methods are replaced",
    "_thread.allocate": "it makes a lock, whose methods are replaced",
    "_thread._make_thread_handle": "it makes a handle, whose methods are replaced",
    "_sqlite3.connect": "it makes a connection, which uses a file system of ours",
    "builtins.__import__": "it calls a function of importlib, which is replaced",
}
"""Answered, but not as functions."""


def test_the_rows_are_true() -> None:
    """What is answered or refused leads to us while a session lasts, under whatever name; what is
    harmless is CPython's own."""
    functions = [each for each in listed_functions() if each[0] not in LED_OTHERWISE]
    with patches.installed():
        swapped = {name for name, builtin, _ in functions if is_swapped(builtin)}
    assert {name for name, _, kind in functions if kind is Fate.HARMLESS} & swapped == set()
    assert {name for name, _, kind in functions if kind is not Fate.HARMLESS} - swapped == set()
    assert [name for name, builtin, _ in functions if is_swapped(builtin)] == []


DOCUMENT = ROOT / "docs" / "harmless.md"
HEAD = """# Builtins that a run leaves alone

Inside a run each builtin that can reach the machine is *answered* by the host, *refused* with
`EscapedWorld`, or *harmless*. These are the harmless ones, with the reason. `*` stands for all
names of a module. The table is `src/foretold/kernel/syscalls/`; `tests/kernel/test_syscalls.py`
writes this page and keeps it true.

"""


def document() -> str:
    """The page as the table has it."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for module, name, why in harmless_names():
        reasons.setdefault(why, {}).setdefault(module, []).append(name)
    lines = []
    for why, modules in reasons.items():
        lines.append(f"- {why}\n")
        for module, names in modules.items():
            lines.append(f"  - `{module}`: {', '.join(f'`{name}`' for name in names)}\n")
    return HEAD + "".join(lines)


def test_the_list_of_harmless_ones_is_in_the_docs() -> None:
    """The page is what the table says. `FORETOLD_REWRITE=1 pytest` on this test writes it."""
    if os.environ.get("FORETOLD_REWRITE"):
        DOCUMENT.write_text(document())
    assert DOCUMENT.read_text() == document()
