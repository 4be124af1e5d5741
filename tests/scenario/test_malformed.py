"""A file that cannot be played is refused in one sentence, with its place, before anything is run.

The sentences are stored, so that a person has read each of them; `FORETOLD_REWRITE=1` writes them.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from foretold.cli.verbs import app
from foretold.errors import ScenarioError
from foretold.harness.program import load_program
from foretold.scenario.schema import KNOWN, SAID_ONLY, published
from foretold.search.workers.targets import found_inside
from tests.cli.command import foretold
from tests.scenario.malformed import ALL

STORED = Path(__file__).with_name("malformed.json")
PLACE = re.compile(r"x\.scenario\.(yaml|toml|json):[1-9]\d*:[1-9]\d*: \S")
ROOT = Path(__file__).parents[2]


def sentence(name: str, folder: Path) -> str:
    """What is said about a file of `malformed.py`."""
    text, kind = ALL[name]
    file = folder / f"x.scenario.{kind}"
    file.write_text(text, "utf-8")
    with pytest.raises(ScenarioError) as raised:
        load_program(str(file), found_inside(ROOT))
    return str(raised.value).replace(f"{folder}/", "").replace(str(ROOT), "PROJECT")


def test_each_mistake_has_its_sentence(tmp_path):
    """Word for word, for all of them; each has file, line and column, and is a single line."""
    said = {name: sentence(name, tmp_path) for name in ALL}
    if os.environ.get("FORETOLD_REWRITE"):
        STORED.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n", "utf-8")
    assert len(said) >= 60
    assert [text for text in said.values() if not PLACE.match(text) or "\n" in text] == []
    assert said == json.loads(STORED.read_text("utf-8"))


def test_each_mistake_is_exit_code_2():
    """The command, in this process: one line that begins with the place, and nothing is played."""
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        for name, (text, kind) in ALL.items():
            file = Path(folder, f"x.scenario.{kind}")
            file.write_text(text, "utf-8")
            done = CliRunner().invoke(app, ["play", str(file)])
            assert done.exit_code == 2, name
            assert done.stdout == "", name
            assert PLACE.search(done.stderr), name


def test_the_command_runs_nothing(tmp_path):
    """Two files, the second of which is wrong: exit code 2, one sentence, and the first was not
    played either: its application would have written a file."""
    (tmp_path / "shop.py").write_text(
        "from foretold.harness import Harness, Wiring, intent\n"
        "class Shop:\n"
        "    def __init__(self, world): ...\n"
        "    @intent\n"
        "    def buy(self): raise RuntimeError('played')\n"
        "shop = Harness(Shop, {'memory': Wiring({})})\n",
        "utf-8",
    )
    good = "name: good\nharness: shop:shop\nactors: [a]\nsteps:\n  - {kind: act, actor: a, intent: "
    (tmp_path / "good.scenario.yaml").write_text(f"{good}buy}}\n", "utf-8")
    (tmp_path / "bad.scenario.yaml").write_text(f"{good}sell}}\n", "utf-8")
    done = foretold(tmp_path, "play", "good.scenario.yaml", "bad.scenario.yaml")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Error: bad.scenario.yaml:5:35: Shop has no intent 'sell'")
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("{kind: wait, ms: {$draw: dish}}", "7:5: a wait is a number of 0 or more, got '"),
        ("{kind: repeat, times: {$draw: dish}, steps: []}", "7:5: times is a whole number, got"),
    ],
)
def test_what_a_strategy_gives_is_judged_in_the_run(step, said):
    """It is not known before. The sentence has the place all the same, and no failure is told."""
    head = "name: x\nharness: examples.kitchen.harness:kitchen\nwiring: memory\nruns: 3\n"
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        file = Path(folder, "x.scenario.yaml")
        file.write_text(f"{head}actors: [waiter]\nsteps:\n  - {step}\n", "utf-8")
        done = CliRunner().invoke(app, ["play", str(file)])
    assert done.exit_code == 2
    assert said in done.stderr


def words_in(schema):
    """All keywords of JSON Schema that a schema uses."""
    if isinstance(schema, list):
        return set().union(*map(words_in, schema)) if schema else set()
    if not isinstance(schema, dict):
        return set()
    found = set(schema)
    for key, value in schema.items():
        named = key in ("properties", "$defs")
        found |= set().union(*map(words_in, value.values())) if named else words_in(value)
    return found - {"propertyName"}


def test_the_published_schema_says_nothing_that_is_not_checked():
    """Editors read the same file: a keyword that our reader ignored would be a rule on paper."""
    assert words_in(published()) <= KNOWN | SAID_ONLY
