"""Wrong calls of the command: one clear message each, exit code 2, and never a traceback."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from foretold._version import VERSION
from foretold.cli.group import MODULES
from foretold.cli.verbs import app
from foretold.tape import Tape, TapeFile
from foretold.tape.file import save
from tests.cli.command import foretold
from tests.report import programs


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder to call it in; what is imported from there is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORETOLD_SEED", raising=False)
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(tmp_path) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


def call(*arguments: str, env: dict[str, str] | None = None) -> Result:
    """The command within this process: enough for what is wrong before anything runs."""
    return CliRunner().invoke(app, list(arguments), env=env, prog_name="foretold")


def message_of(*arguments: str, env: dict[str, str] | None = None) -> str:
    """What a wrong call is told."""
    result = call(*arguments, env=env)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


def test_the_version() -> None:
    """Printed as other commands print it."""
    assert call("--version").stdout == f"foretold, version {VERSION}\n"


def test_a_verb_loads_what_it_needs_alone() -> None:
    """Each verb is listed with its file, and the version is told without any of them: a command
    that does little takes little time."""
    assert {name: each.callback.__module__ for name, each in app.commands.items()} == {
        name: f"foretold.cli.{file}" for name, file in MODULES.items()
    }
    program = (
        "import sys\nfrom foretold.cli import main\n"
        "try: main()\nexcept SystemExit: print([n for n in sys.modules if 'foretold.search' in n])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"foretold, version {VERSION}\n[]\n"


def test_the_help_names_commands_and_exit_codes() -> None:
    """What one needs to begin."""
    shown = call("--help").stdout
    for word in ("explore", "replay", "show", "check", "4 vacuous"):
        assert word in shown
    assert "--no-confirm" in call("explore", "-h").stdout


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere:main", "there is no module 'nowhere'"),
        ("nowhere.py:main", "there is no file 'nowhere.py'"),
        ("app:nothing", "app has no 'nothing'"),
        ("app:number", "app:number is not a function: its type is int"),
        ("app:needy", "this one wants (a, b)"),
        ("app", "'app' does not name a function"),
        ("app:", "'app:' does not name a function"),
        (":main", "':main' does not name a function"),
        ("broken:main", "importing broken failed: ModuleNotFoundError: No module named 'brok'"),
        ("wrong.py:main", "importing wrong.py failed: SyntaxError: "),
        ("script:main", "importing script failed: SystemExit: I am a script"),
        ("json.py:main", "another module has the name 'json'"),
    ],
)
@pytest.mark.parametrize("command", ["explore", "check"])
def test_targets_that_cannot_be_run(command: str, target: str, message: str) -> None:
    """Each kind of wrong target says what is wrong with it; for every command alike."""
    here = Path.cwd()
    programs.write(here, "number = 5\nasync def needy(a, b): pass\n", "app.py")
    programs.write(here, "import brok\n", "broken.py")
    programs.write(here, "def main(:\n", "wrong.py")
    programs.write(here, 'raise SystemExit("I am a script")\n', "script.py")
    programs.write(here, "async def main(): pass\n", "json.py")
    assert message in message_of(command, target)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "x"], "'x' is not a whole number"),
        (["--seed", "1.5"], "'1.5' is not a whole number"),
        (["--runs", "-3"], "-3 is not in the range x>=1"),
        (["--runs", "0"], "0 is not in the range x>=1"),
        (["--runs", "many"], "'many' is not a valid integer"),
        (["--time", "soon"], "'soon' is not a duration; write 30s, 10m or 1h"),
        (["--time", "0s"], "'0s' is not a duration"),
        (["--order", "lifo"], "'lifo' is not one of"),
        (["--strategy", "luck"], "'luck' is not one of"),
        (["--isolation", "thread"], "'thread' is not "),
        (["--faults", "partiton"], "there is no fault 'partiton'"),
        (["--faults", "network,partiton"], "Did you mean 'partition'?"),
        (["more"], "unexpected extra argument"),
    ],
)
def test_options_that_make_no_sense(arguments: list[str], message: str) -> None:
    """Checked before anything is run."""
    assert message in message_of("explore", "app:main", *arguments)


def test_a_wrong_seed_in_the_environment() -> None:
    """The message names the variable, since nothing on the command line is wrong."""
    said = message_of("explore", "app:main", env={"FORETOLD_SEED": "abc"})
    assert "FORETOLD_SEED" in said
    assert "'abc' is not a whole number" in said


def test_an_unknown_command() -> None:
    """click's own message."""
    assert "No such command 'expolre'" in message_of("expolre", "app:main")


# Tapes


def write_tape(name: str, target: str = "app:main") -> None:
    """A tape without anything on it."""
    save(name, TapeFile(Tape.calm({"order": "any"}), target=target))


@pytest.mark.parametrize("command", ["replay", "show"])
def test_tapes_that_cannot_be_read(command: str) -> None:
    """Missing, foreign, damaged, newer: each names the file and what is wrong with it."""
    write_tape("good.tape")
    text = Path("good.tape").read_text("utf-8")
    programs.write(Path.cwd(), "hello\n", "foreign.tape")
    programs.write(Path.cwd(), text.replace("app:main", "app:mean"), "damaged.tape")
    programs.write(Path.cwd(), text.replace("tape 1", "tape 99"), "newer.tape")
    assert "missing.tape: the tape cannot be read" in message_of(command, "missing.tape")
    assert "foreign.tape:1: not a foretold tape" in message_of(command, "foreign.tape")
    assert "the checksum does not fit" in message_of(command, "damaged.tape")
    assert "written by a newer foretold" in message_of(command, "newer.tape")


def test_what_replay_needs() -> None:
    """A target without a seed, a tape with an order, a tape without a target, a seed of a tape."""
    write_tape("good.tape")
    write_tape("nameless.tape", target="")
    assert "`foretold replay app:main --seed N`" in message_of("replay", "app:main")
    ordered = message_of("replay", "good.tape", "--order", "any")
    assert "a tape stores its order, strategy, faults" in ordered
    assert "foretold.replay(main, 'nameless.tape')" in message_of("replay", "nameless.tape")
    assert "does not name a function" in message_of("replay", "good.tape", "--seed", "7")
    assert "there is no module 'app'" in message_of("replay", "good.tape")


def test_no_traceback_from_a_real_process(tmp_path: Path) -> None:
    """The same through the entry point, which starts the interpreter anew."""
    done = foretold(tmp_path, "explore", "nowhere:main")
    assert done.code == 2
    assert re.fullmatch(r"Error: there is no module 'nowhere' .*\n", done.err)


def test_any_message_can_be_printed(tmp_path: Path) -> None:
    """On a terminal that knows ASCII alone, and with text that no encoding knows."""
    text = '"""Odd."""\n\n\nasync def main():\n    raise ValueError("caf\\xe9 \\ud800")\n'
    programs.write(tmp_path, text)
    done = foretold(tmp_path, "explore", "bank:main", "--no-confirm", PYTHONIOENCODING="ascii")
    assert done.code == 1, done.err
    assert "\nValueError: caf" in done.out
    assert done.out.splitlines()[-1].startswith("Replay it: ")


@pytest.mark.parametrize("command", ["explore", "replay", "check"])
@pytest.mark.parametrize("target", ["", "  "])
def test_an_empty_target_is_not_all_tests(command: str, target: str) -> None:
    """To pytest it would be the whole folder: a variable that is not set must not start that."""
    assert "the target is empty. Name it as module:function" in message_of(command, target)


MISTAKEN = """
import foretold


class ShopModel:
    def buy(self, amount): ...


class Shop(foretold.Machine):
    model = ShopModel

    @foretold.rule()
    async def buy(self): ...


class Nameless(foretold.Machine):
    @foretold.rule()
    async def buy(self):
        foretold.mutant("")
"""


@pytest.mark.parametrize("more", [[], ["--workers=2"]])
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("Shop", "ShopModel.buy must take the arguments of the rule"),
        ("Nameless", "mutant needs a name, such as mutant('no check of the balance'); got ''\n"),
    ],
)
def test_a_mistake_that_only_a_run_meets(
    target: str, message: str, more: list[str], tmp_path: Path
) -> None:
    """A wrong call of foretold's in the test is no failure of the program: the search ends with
    the message, and nothing is shrunk, saved or told as a story."""
    (tmp_path / "shop.py").write_text(MISTAKEN, "utf-8")
    said = message_of("explore", f"shop.py:{target}", "--runs=20", *more)
    assert said.startswith(f"Error: {message}")
    assert ("at shop.py:19" in said) == (target == "Nameless")
    assert not list(tmp_path.glob(".foretold/**/*.tape"))
