"""Deep Sci-Fi: how soon each of its mistakes is found, by foretold and in the usual way; and speed.

    python benchmarks/deep_sci_fi.py [--switches a,b] [--hard] [--runs 500] [--seconds-each 90]
                                     [--output build/deep_sci_fi.json] [--stories build/stories]

For each switch of `app/bugs.py`: the runs and seconds until it is found, and how many calls its
program has when it is shrunk. "Usual" is `deep_sci_fi_usual.py`: Hypothesis' state machine, httpx,
`asyncio.gather`, real time, the same application, scenery and PostgreSQL. Both have one process,
the same seconds, and eight of them for shrinking. A call of the usual machine may be several
requests at once; one of foretold is one. A dash means: not found. "flaky" means that it showed, and
did not show again when Hypothesis repeated the same program, so there is nothing to shrink.

`--hard` compares the two by mistakes that show after a lost answer, an hour, a restart or a third
request: three of the switches, and three that are planted from outside.

Then speed: 200 runs of 30 calls in all by 4 actors, with faults and invariants, by two workers; and
the same with 30 calls apiece.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pytest

import foretold
from benchmarks import deep_sci_fi_usual as usual
from examples.deep_sci_fi.app import bugs
from examples.deep_sci_fi.machine import DeepSciFi
from foretold.kernel import real
from foretold.search.failures import workout
from tests.examples.deep_sci_fi_mutants import HARD

SHRINK_S = 8.0
SPEED_RUNS, ACTORS, STEPS = 200, 4, 30
SPEED_BAR_S = 40.0
RUNS_BAR = 500
_PROGRAM = re.compile(r"The program, (\d+) call")
_SCENERY = re.compile(r"\.there_(are|is)_\w+\(\)")
"""Names what is there when a run begins: no call of anybody's."""


def by_foretold(bug: str, runs: int, seconds: float, stories: Path | None) -> dict[str, Any]:
    """What one machine does about one bug; what it says about it goes into a file."""
    switch = {"mutant": bug} if bug in bugs.KNOWN else {}
    outcome = foretold.explore(
        DeepSciFi, runs=runs, seed=0, time_s=seconds, confirm=False, **switch
    )
    failure = outcome.failure
    if failure is None:
        return {"runs": None, "tried": outcome.runs}
    if stories is not None:
        stories.mkdir(parents=True, exist_ok=True)
        (stories / f"{bug}.txt").write_text(f"{failure.exception}\n\n{failure.story}\n")
    program = _PROGRAM.search(failure.story)
    named = len(_SCENERY.findall(failure.story))
    return {
        "runs": failure.run,
        "seconds": round(outcome.elapsed_s, 1),
        "calls": int(program[1]) - named if program else None,
        "said": str(failure.exception).partition("\n")[0][:100],
    }


def cell(found: dict[str, Any]) -> str:
    """Three columns of the table."""
    if found["runs"] is None:
        return f"{'–':>5}{'':>9}{'':>8}  ({found['tried']} runs)"
    calls = found["calls"] if found["calls"] is not None else "flaky"
    return f"{found['runs']:>5}{found['seconds']:>7.1f} s{calls:>8}"


def check_silence(runs: int, seconds: float) -> None:
    """Without any mistake the usual way finds nothing: else a row would tell nothing about it. That
    foretold's machine is silent is a test, of 2,000 runs."""
    found = usual.search("", runs, seconds)
    if found["runs"] is not None:
        raise SystemExit(f"the usual machine fails where there is no mistake: {found['said']}")


def table(names: list[str], runs: int, seconds: float, stories: Path | None) -> dict[str, Any]:
    """One row for each switch, printed as it comes."""
    print(f"{'':28}{'foretold':^26}{'usual':^26}")
    print(f"{'switch':28}" + f"{'runs':>5}{'time':>9}{'calls':>8}    " * 2)
    check_silence(runs, seconds)
    rows: dict[str, Any] = {}
    for name in names:
        with pytest.MonkeyPatch.context() as patch:
            if name in PLANTED:
                PLANTED[name](patch)
            ours = by_foretold(name, runs, seconds, stories)
            print(f"{name:28}{cell(ours):26}", end="", flush=True)
            theirs = usual.search(name if name in bugs.KNOWN else "", runs, seconds)
        print(cell(theirs), flush=True)
        rows[name] = {"foretold": ours, "usual": theirs}
    return rows


def summary(rows: dict[str, Any]) -> dict[str, Any]:
    """How many each has found, and the medians of those."""
    said: dict[str, Any] = {}
    for who in ("foretold", "usual"):
        found = [row[who] for row in rows.values() if row[who]["runs"] is not None]
        shrunk = [each["calls"] for each in found if each["calls"] is not None]
        said[who] = {
            "found": len(found),
            "of": len(rows),
            "flaky": sum(each["calls"] is None for each in found),
            "median_runs": statistics.median(each["runs"] for each in found) if found else None,
            "median_calls": statistics.median(shrunk) if shrunk else None,
        }
        print(f"{who:10}{said[who]}")
    ours = [row["foretold"]["runs"] for row in rows.values()]
    said["met"] = all(runs is not None and runs <= RUNS_BAR for runs in ours)
    return said


def speed() -> dict[str, Any]:
    """Seconds for 200 runs, by two workers."""
    figures: dict[str, Any] = {}
    for what, steps in (("30 calls in all", STEPS), ("30 calls apiece", STEPS * ACTORS)):
        began = real.perf_counter()
        outcome = foretold.explore(
            DeepSciFi,
            runs=SPEED_RUNS,
            seed=50_000,
            workers=2,
            keep_going=True,
            shrink=False,
            confirm=False,
            steps=steps,
            actors=ACTORS,
        )
        taken_s = real.perf_counter() - began
        calls = sum(rule.tried for rule in outcome.tally.rules.values())
        figures[what] = {"seconds": round(taken_s, 1), "runs": outcome.runs, "calls": calls}
        print(f"{SPEED_RUNS} runs, {what}: {taken_s:.1f} s, {calls} calls", flush=True)
    first = figures["30 calls in all"]
    first |= {"bar": SPEED_BAR_S, "met": first["seconds"] < SPEED_BAR_S}
    return figures


PLANTED = {plant.__name__: plant for plant in HARD}
HARD_ONES = [*PLANTED, "callback_sent_once", "lease_not_released", "third_registration_fails"]


def switches(text: str) -> list[str]:
    """The names, with commas between."""
    names = text.split(",")
    bugs.check_known([name for name in names if name not in PLANTED])
    return names


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--switches", type=switches, default=list(bugs.KNOWN))
    parser.add_argument(
        "--hard", action="store_const", const=HARD_ONES, dest="switches", help="see above"
    )
    parser.add_argument("--runs", type=int, default=RUNS_BAR)
    parser.add_argument("--seconds-each", type=float, default=90.0)
    parser.add_argument("--no-speed", action="store_true", help="the table alone")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--stories", type=Path, help="a folder for what foretold says of each")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    workout.SHRINK_CPU_S = usual.SHRINK_S = SHRINK_S
    figures: dict[str, Any] = {}
    if not options.no_speed:
        figures["speed"] = speed()
    rows = table(options.switches, options.runs, options.seconds_each, options.stories)
    figures |= {"switches": rows, "summary": summary(rows)}
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
