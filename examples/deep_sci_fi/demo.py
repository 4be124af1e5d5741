"""What `make demo` explores: the platform with five of its mistakes switched on at once.

    foretold explore examples.deep_sci_fi.demo:Demo --keep-going > demo.txt
    python -m examples.deep_sci_fi.demo demo.txt

What the mistakes are is in `app/bugs.py`; a replay of what was found has them on, too. The second
line says which of them each failure belongs to: its tape is run again with one of them off, and it
belongs to the one without which it does not fail like that.
"""

import logging
import re
import shlex
import sys
from pathlib import Path

import foretold
from examples.deep_sci_fi.machine import DeepSciFi

_REPLAY = re.compile(r"^Replay it: \S*foretold replay (.+\.tape\S*)$", re.MULTILINE)


class Demo(DeepSciFi):
    """Two races, a forgotten flush, a key that is not one's own, and a hand-over in two halves."""

    planted = frozenset(
        {
            "escalate_unlocked",
            "upvote_read_modify_write",
            "world_id_before_flush",
            "idempotency_key_unscoped",
            "release_claim_race",
        }
    )


def without(switch: str) -> type[Demo]:
    """The same with one mistake less."""
    return type("Demo", (Demo,), {"planted": Demo.planted - {switch}, "__module__": __name__})


def belongs_to(tape: str) -> str:
    """The switch without which this failure is gone; empty if there is none."""
    failure = _failure(Demo, tape)
    return next(
        (each for each in sorted(Demo.planted) if _failure(without(each), tape) != failure), ""
    )


def _failure(machine: type[Demo], tape: str) -> str:
    """What is said first of how a replay fails: without one mistake it may go on to another."""
    try:
        foretold.replay(machine, tape, fixed=True)
    except foretold.DidNotReproduce:
        return ""  # it holds, in a process with random hashes
    except Exception as error:
        return str(error).partition("\n")[0]
    return ""


def found(said: str) -> dict[str, list[str]]:
    """For each switch the tapes that belong to it, of all that a search says it has found."""
    tapes = [shlex.split(path)[0] for path in dict.fromkeys(_REPLAY.findall(said))]
    owners = {tape: belongs_to(tape) for tape in tapes}
    return {
        switch: [tape for tape, owner in owners.items() if owner == switch]
        for switch in sorted(Demo.planted)
    }


def main(path: str) -> None:
    """Print which of the mistakes were found, and by which failures."""
    # What the application says in a replay is told above.
    logging.getLogger("examples.deep_sci_fi").addHandler(logging.NullHandler())
    by_switch = found(Path(path).read_text("utf-8"))
    total = sum(map(bool, by_switch.values()))
    print(f"Of the {len(by_switch)} mistakes, {total} found (without it the failure is gone):")
    width = max(map(len, by_switch))
    for switch, tapes in by_switch.items():
        names = ", ".join(Path(tape).name for tape in tapes)
        print(f"  {switch.ljust(width)}  {names or 'not found in these runs'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
