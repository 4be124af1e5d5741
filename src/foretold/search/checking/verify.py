"""Is a failure real? Run its tape elsewhere and compare; name the first event that differs."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from foretold.errors import ForetoldError, TimeUp
from foretold.search.checking.observe import Observation, look_closely
from foretold.search.checking.replayers import Replayer
from foretold.search.failures.failure import Failure
from foretold.search.planning.deadline import CONFIRMED_S, Deadline
from foretold.search.workers.isolation import in_fork
from foretold.tape import Tape


class Difference(NamedTuple):
    """The first place at which two runs of one tape part."""

    number: int
    left: str | None
    right: str | None

    def __str__(self) -> str:
        left = self.left if self.left is not None else "(the run had ended)"
        right = self.right if self.right is not None else "(the run had ended)"
        return f"event {self.number}: here {left!r}, there {right!r}"


def first_difference(left: Path, right: Path) -> Difference | None:
    """Compare two files of trace entries, line by line."""
    with (
        left.open(encoding="utf-8", errors="surrogatepass") as a,
        right.open(encoding="utf-8", errors="surrogatepass") as b,
    ):
        for number, (x, y) in enumerate(zip_longest(a, b), 1):
            if x != y:
                return Difference(number, x and x.rstrip("\n"), y and y.rstrip("\n"))
    return None


def confirm(
    found: Failure, main: Callable[[Any], Any], replayer: Replayer, deadline: Deadline
) -> None:
    """Fill in whether a fresh process fails in the same way, and if not, how it differs. Nothing is
    filled in if there is no time for it.

    The process runs the tape twice. That the second run alone fails is worth saying: it may be a
    bug that shows only in a process that has worked for a while, or a test that disturbs itself.
    """
    if deadline.left_s(CONFIRMED_S) <= 0:
        return
    try:
        seen = replayer(found.tape)
    except TimeUp:
        return
    except ForetoldError as error:
        found.reproduced, found.doubt = False, str(error)
        return
    found.reproduced = seen.signature == found.signature
    first = seen.first
    found.leans_on_earlier = (
        found.reproduced and first is not None and first.signature != seen.signature
    )
    if found.reproduced and seen.digest == found.digest:
        if found.leans_on_earlier:
            found.doubt = (
                f"only when it was run there for the second time; the first run {_first(seen)}"
            )
        return
    if deadline.left_s(CONFIRMED_S) == math.inf and not found.first_only:  # not first any more
        found.doubt = _what_differs(found, main, seen, replayer)
    else:
        found.doubt = _what(found, seen)


def _what_differs(
    found: Failure, main: Callable[[Any], Any], seen: Observation, replayer: Replayer
) -> str:
    difference = difference_elsewhere(found.tape, main, replayer)
    return (
        f"{_what(found, seen)}; {difference or 'when both were run once more, no event differed'}"
    )


def _what(found: Failure, seen: Observation) -> str:
    if not found.reproduced:
        return f"there it {seen.how}"
    said = "the run there is not the same one, though it fails in the same way"
    return (
        f"{said}; the first run of that process {_first(seen)}" if found.leans_on_earlier else said
    )


def _first(seen: Observation) -> str:
    assert seen.first is not None, "it differs from the one that counts"
    return seen.first.how


def difference_elsewhere(
    tape: Tape, main: Callable[[Any], Any], replayer: Replayer
) -> Difference | None:
    """The first event in which a run elsewhere differs from one here."""
    with tempfile.TemporaryDirectory(prefix="foretold-") as folder:
        here, there = Path(folder, "here"), Path(folder, "there")
        if tape.settings.get("cold"):
            in_fork(lambda: look_closely(main, tape, here))
        else:
            look_closely(main, tape, here)
        replayer(tape, entries=there)
        return first_difference(here, there)
