"""docs/reference.md names everything that the program has, and nothing that it has not.

An entry of the page is a heading, or the first cell of a row of a table. Each test takes one list
of names from the program itself and compares it with the entries of one part of the page.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import click
import pytest

import _foretold_pytest
import foretold
from foretold import handles, keywords
from foretold.cli import group, main  # noqa: F401  # the verbs add themselves to the group
from foretold.cli.verbs import app
from foretold.kernel.kernel import Order
from foretold.search.planning.portfolio import STRATEGIES
from tests.style.sources import tree_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference.md").read_text("utf-8")

OF_THE_ENGINE: dict[type, set[str]] = {
    foretold.Run: {"calls", "features", "names", "opening", "path", "profile"},
    foretold.Outcome: {"expect_a_look"},
    foretold.Failure: {"has_to_do_with_order", "note_stock"},
    foretold.Machine: {
        "foretold_about",
        "foretold_acts_twice",
        "foretold_after_storm",
        "foretold_allows",
        "foretold_eagerness",
        "foretold_forbids",
        "foretold_keeps_state",
        "foretold_meet",
        "foretold_keeps_values",
        "foretold_reads",
        "foretold_rehearses",
        "foretold_settings",
        "foretold_target",
    },
}
"""Members that users have no use for, though their names begin without an underscore."""

CLASSES: dict[str, type] = {
    **{
        f"foretold.{cls.__name__}": cls
        for cls in (
            foretold.Actor,
            foretold.Delay,
            foretold.Failure,
            foretold.Machine,
            foretold.Operation,
            foretold.Outcome,
            foretold.Postgres,
            foretold.Progress,
            foretold.Run,
            foretold.StepModel,
            foretold.Tape,
            foretold.Verdict,
        )
    },
    "foretold.World": handles.World,
    "foretold.Host": handles.Host,
    "foretold.Web": handles.Web,
    "HostTask": handles.HostTask,
    "HostClock": handles.HostClock,
    "Network": handles.Network,
    "Disk": handles.Disk,
}


def sections(page: str) -> dict[str, list[list[str]]]:
    """The tables below each heading, as lists of their entries: `await stop(grace_s=60.0)` is the
    entry `stop`. The name of a section is the code in its heading, or all of the heading."""
    found: dict[str, list[list[str]]] = {}
    tables: list[list[str]] = []
    row = ""
    for line in re.sub(r"```.*?```", "", page, flags=re.DOTALL).splitlines():
        before, row = row, line
        if heading := re.match(r"#+ (.*)", line):
            code = re.search(r"`([^`]+)`", heading[1])
            tables = found.setdefault(code[1] if code else heading[1], [])
        elif line.startswith("|---"):
            tables.append([])
        elif line.startswith("| `") and before.startswith("|"):
            name = re.match(r"\| `(?:await )?([^`(\s]+)", line)
            assert name, line
            tables[-1].append(name[1])
    return found


def entries(section: str, table: int = 0, page: str = PAGE) -> list[str]:
    """The entries of one table."""
    return sections(page)[section][table]


def listed(pattern: str) -> set[str]:
    """What a pattern finds among headings and entries."""
    found = sections(PAGE)
    rows = (row for tables in found.values() for table in tables for row in table)
    return {match[1] for each in (*found, *rows) if (match := re.fullmatch(pattern, each))}


def mentioned(pattern: str) -> set[str]:
    """What a pattern finds in all code of headings, tables and text."""
    return set(re.findall(rf"`(?:await )?@?{pattern}(?=[`(])", PAGE))


def differences(told: Iterable[str], there: Iterable[str]) -> list[str]:
    """What is missing on either side, and what is told twice."""
    told, there = list(told), set(there)
    return [
        *(f"{name} is not on the page" for name in sorted(there - set(told))),
        *(f"{name} is on the page, and does not exist" for name in sorted(set(told) - there)),
        *(
            f"{name} is on the page twice"
            for name in sorted({n for n in told if told.count(n) > 1})
        ),
    ]


def members_of(cls: type) -> set[str]:
    """The members of a class that are for users."""
    own = set(vars(cls)) | set(getattr(cls, "__annotations__", {}))
    if dataclasses.is_dataclass(cls):
        own |= {each.name for each in dataclasses.fields(cls)}
    if not dataclasses.is_dataclass(cls) and "__init__" in vars(cls):
        own |= set(
            re.findall(
                r"self\.([a-z]\w*)(?:: [\w.]+)? = ", inspect.getsource(vars(cls)["__init__"])
            )
        )
    return {name for name in own if not name.startswith("_")} - OF_THE_ENGINE.get(cls, set())


def by_name(function: Any) -> set[str]:
    """The parameters that are given by name."""
    parameters = inspect.signature(function).parameters.values()
    return {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}


def keys(settings: Any) -> set[str]:
    """The keys of a TypedDict."""
    return set(settings.__optional_keys__)


def test_every_public_name_is_there() -> None:
    """`foretold.__all__`, and no name that it has not."""
    assert differences(listed(r"foretold\.(\w+)"), foretold.__all__) == []
    assert mentioned(r"foretold\.(\w+)") <= {*foretold.__all__, "handles"}


@pytest.mark.parametrize("section", CLASSES)
def test_every_member_is_there(section: str) -> None:
    """What a user may ask an object for."""
    cls = CLASSES[section]
    if cls is foretold.Tape:  # what its run keeps there is the run's
        there = {n for n in vars(cls) if not n.startswith("_")}
    else:
        there = members_of(cls)
    assert differences(entries(section), there) == []


def test_every_setting_is_there() -> None:
    """What run, explore and simulate take by name, and services and schemas."""
    of_run = by_name(foretold.run) | keys(keywords.Own)
    assert differences(entries("Settings of a run"), of_run) == []
    of_search = by_name(foretold.explore) | keys(keywords.SearchSettings)
    assert differences(entries("Settings of a search"), of_search - of_run) == []
    postgres, web = entries("foretold.World", 1), entries("foretold.World", 2)
    assert differences(postgres, {"schema", *keys(keywords.PostgresSettings)}) == []
    assert differences(web, {"app", *keys(keywords.WebSettings)}) == []
    assert differences(entries("foretold.Machine", 2), keys(keywords.ApiSettings)) == []


def test_the_settings_of_a_test_are_marked() -> None:
    """The column `simulate` of the searches' settings says which of them a test takes."""
    told = set(re.findall(r"^\| `(\w+)` \| ✓ \|", PAGE, re.MULTILINE))
    there = keys(keywords.SearchSettings) & set(entries("Settings of a search"))
    assert differences(told, there) == []


def test_every_order_and_strategy_is_there() -> None:
    """The words that `order=` and `strategy=` take."""
    assert differences(entries("Orders"), get_args(Order)) == []
    assert differences(entries("Strategies"), STRATEGIES) == []


def test_every_fault_is_there() -> None:
    """Every set, and in each set every kind."""
    sets = {
        n: s for n, s in vars(foretold.faults).items() if isinstance(s, foretold.faults.FaultSet)
    }
    assert differences(listed(r"foretold\.faults\.(\w+)"), sets) == []
    assert mentioned(r"foretold\.faults\.(\w+)") <= sets.keys()
    for name in sets.keys() - {"disk_errors"}:
        assert differences(entries(f"foretold.faults.{name}"), sets[name]) == []
    assert list(sets["disk_errors"]) == entries("foretold.faults.disk")[:-3]


def test_every_exception_is_there_with_its_base() -> None:
    """Exceptions and warnings of `foretold.__all__`, and which class each of them derives from."""
    rows = re.findall(r"^\| `foretold\.(\w+)` \| `(\w+)` \|", PAGE, re.MULTILINE)
    classes = [getattr(foretold, name) for name in foretold.__all__]
    errors = [
        each for each in classes if isinstance(each, type) and issubclass(each, BaseException)
    ]
    assert dict(rows) == {each.__name__: each.__mro__[1].__name__ for each in errors}


def test_every_pytest_option_is_there(pytestconfig: pytest.Config) -> None:
    """Options, ini keys and fixtures of the plugin."""
    group = pytestconfig._parser.getgroup("foretold")
    options = [name for option in group.options for name in option.names()]
    assert differences(entries("pytest options"), options) == []
    ini = [name for name in pytestconfig._parser._inidict if name.startswith("foretold")]
    assert differences(entries("ini keys"), ini) == []
    fixtures = [n for n in vars(_foretold_pytest) if n.startswith("foretold_")]
    assert differences(entries("pytest fixtures"), fixtures) == []


def test_every_verb_and_option_is_there() -> None:
    """What `foretold --help` and the help of each verb show."""
    verbs = [name.removeprefix("foretold ") for name in sections(PAGE) if "foretold " in name]
    assert differences(verbs, app.commands) == []
    for name, command in app.commands.items():
        options = [
            option
            for parameter in command.params
            if isinstance(parameter, click.Option)
            for option in parameter.opts
        ]
        tables = sections(PAGE)[f"foretold {name}"]
        assert differences(tables[0] if tables else [], options) == []


def test_every_exit_code_is_there() -> None:
    """The codes that the command ends with, by the names they have in the program."""
    rows = re.findall(r"^\| `(\d+)` \| (\w+) \|", PAGE, re.MULTILINE)
    words = ("held", "violated", "usage", "nondeterminism", "vacuous", "interrupted")
    assert rows == [(str(getattr(group, word.upper())), word) for word in words]
    assert app.epilog is not None
    for code, word in rows[:5]:
        assert f"{code} {word}" in app.epilog


def test_every_variable_is_there() -> None:
    """Whatever the sources read from the environment under a name of ours."""
    there = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                there |= set(re.findall(r"^FORETOLD_\w+$", node.value))
    assert differences(mentioned(r"(FORETOLD_\w+)"), there) == []


def test_the_programs_of_the_page_run(tmp_path: Path) -> None:
    """Each block of Python ends without an exception: what it asserts is true."""
    programs = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(programs) > 4
    for number, program in enumerate(programs):
        (tmp_path / f"program_{number}.py").write_text(program, "utf-8")
    everything = "".join(f"import program_{number}\n" for number in range(len(programs)))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", everything],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_differences_are_caught() -> None:
    """Planted: a page that lacks a member, has one too many, and names one twice."""
    page = (
        "## `foretold.Thing`\n\n| member | meaning |\n|---|---|\n| `await a(x=1)` | |\n| `b` | |\n"
    )
    page += "| `b` | |\n```\n| `no entry` |\n```\n"
    assert entries("foretold.Thing", page=page) == ["a", "b", "b"]
    assert differences(entries("foretold.Thing", page=page), {"a", "c"}) == [
        "c is not on the page",
        "b is on the page, and does not exist",
        "b is on the page twice",
    ]
