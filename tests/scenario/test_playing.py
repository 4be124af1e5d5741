"""Scenario files as people play them: by the command, and by pytest."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.command import foretold
from tests.report.programs import PYTHON, environment

APPLICATION = """\
import asyncio
import foretold
from foretold.harness import Harness, Wiring, intent, query

class Account:
    def __init__(self, world):
        self.balance = 0

    @intent
    async def deposit(self, amount):
        known = self.balance
        await asyncio.sleep(0.001)
        self.balance = known + amount
        foretold.event("Deposited", amount=amount)

    @query
    def total(self):
        return self.balance

bank = Harness(Account, {"memory": Wiring({})})
"""
RACE = """\
name: two deposits
harness: bank:bank
actors: [ann, bob]
seed: [1, 2]
load: [1, 2]
runs: 50
steps:
  - kind: parallel
    branches:
      - [{kind: act, actor: ann, intent: deposit, payload: {amount: 1}}]
      - - {kind: wait, ms: {$choose: [5, 0]}}
        - {kind: act, actor: bob, intent: deposit, payload: {amount: 1}}
  - {kind: assert, query: total, expect: 2}
"""
CALM = """\
name: one deposit
harness: bank:bank
golden: one.jsonl
actors: [ann]
steps:
  - {kind: act, actor: ann, intent: deposit, payload: {amount: 1}}
  - {kind: assert, query: total, expect: 1}
"""


@pytest.fixture
def project(tmp_path):
    """A folder with an application and two scenarios."""
    (tmp_path / "bank.py").write_text(APPLICATION, "utf-8")
    (tmp_path / "race.scenario.yaml").write_text(RACE, "utf-8")
    (tmp_path / "calm.scenario.yaml").write_text(CALM, "utf-8")
    return tmp_path


def test_a_race_is_found_shrunk_replayed_and_written_out(project):
    """One file through all verbs: play fails, replay fails alike, and so does what show writes."""
    done = foretold(project, "play", "race.scenario.yaml", "--load", "1", "--seed", "1")
    assert done.code == 1, done
    assert "total(): it is 1, expected 2" in done.out
    assert "The scenario 'two deposits':" in done.out
    assert "Replayed in a fresh process: yes." in done.out
    tape = done.out.rpartition("foretold replay ")[2].split()[0]
    again = foretold(project, "replay", tape)
    assert (again.code, "it is 1, expected 2" in again.out) == (1, True)
    shown = foretold(project, "show", tape, "--as-scenario")
    assert shown.code == 0, shown
    (project / "kept.scenario.yaml").write_text(shown.out, "utf-8")
    kept = foretold(project, "play", "kept.scenario.yaml")
    assert (kept.code, "it is 1, expected 2" in kept.out) == (1, True), kept
    mended = APPLICATION.replace("self.balance = known + amount", "self.balance += amount")
    (project / "bank.py").write_text(mended, "utf-8")
    assert foretold(project, "play", "kept.scenario.yaml").code == 0
    assert foretold(project, "replay", tape).code == 0


def test_golden_files_by_the_command(project):
    """Missing: it fails and nothing is written. `--update` writes it. Another log fails again."""
    first = foretold(project, "play", "calm.scenario.yaml")
    assert (first.code, "one.jsonl is missing" in first.out) == (1, True)
    assert not (project / "one.jsonl").exists()
    assert foretold(project, "play", "calm.scenario.yaml", "--update").code == 0
    assert foretold(project, "play", "calm.scenario.yaml").out.startswith("one deposit: held, ")
    changed = APPLICATION.replace("amount=amount)", "amount=amount, by='x')")
    (project / "bank.py").write_text(changed, "utf-8")
    last = foretold(project, "play", "calm.scenario.yaml")
    assert (last.code, '"by": "x"' in last.out) == (1, True)


def test_what_is_no_scenario_is_a_usage_error(project):
    """A wrong suffix, a missing file, a wiring that is not there, a load of zero."""
    for arguments, said in (
        (["bank.py"], "is not a scenario file"),
        (["no.scenario.yaml"], "there is no file 'no.scenario.yaml'"),
        (["calm.scenario.yaml", "--wiring", "real"], "there is no wiring 'real'"),
        (["calm.scenario.yaml", "--load", "0"], "--load"),
    ):
        done = foretold(project, "play", *arguments)
        assert done.code == 2, done
        assert said in done.err


def pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest, in a process of its own."""
    return subprocess.run(
        [PYTHON, "-m", "pytest", "-p", "no:cacheprovider", "-q", *arguments],
        cwd=folder,
        env=environment(PYTHONPATH=str(folder)),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_pytest_collects_scenarios(project):
    """Each play is a test with a name; `-k` picks some; a failure tells its story."""
    listed = pytest_in(project, "--collect-only")
    names = [line for line in listed.stdout.splitlines() if "::" in line]
    assert names == [
        "calm.scenario.yaml::one deposit",
        *(
            f"race.scenario.yaml::two deposits[load{load}-seed{seed}]"
            for load in (1, 2)
            for seed in (1, 2)
        ),
    ]
    done = pytest_in(project, "-k", "load1-seed1")
    assert done.returncode == 1
    assert "1 failed, 4 deselected" in done.stdout
    assert "total(): it is 1, expected 2" in done.stdout
    assert "foretold replay .foretold/failures/" in done.stdout


def test_pytest_refuses_a_malformed_scenario(project):
    """At collection, with the same sentence, and nothing is run."""
    (project / "bad.scenario.json").write_text('{"name": "x", "stesp": []}', "utf-8")
    done = pytest_in(project)
    assert done.returncode == 2
    assert "bad.scenario.json:1:15: the scenario has no key 'stesp'" in done.stdout
    assert "1 error" in done.stdout


def test_a_misspelt_mutant_is_not_a_scenario_that_holds(tmp_path):
    """As `foretold explore` says it. One that some run has passed may well be noticed by nobody."""
    told = APPLICATION.replace(
        "known = self.balance", 'foretold.mutant("lost") and 1\n        known = 0'
    )
    (tmp_path / "bank.py").write_text(told, "utf-8")
    (tmp_path / "one.scenario.yaml").write_text(CALM.replace("golden: one.jsonl\n", ""), "utf-8")
    done = foretold(tmp_path, "play", "one.scenario.yaml", "--runs", "2", "--mutant", "lsot")
    assert done.code == 2
    assert "no run passed a mutant named 'lsot'" in done.err
    assert "those passed were: lost" in done.err
    known = foretold(tmp_path, "play", "one.scenario.yaml", "--runs", "2", "--mutant", "lost")
    assert known.code == 0
