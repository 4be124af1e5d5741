"""Is a failure real? Run its tape elsewhere and compare; name the first event that differs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from foretold.errors import ForetoldError
from foretold.search.failure import Failure
from foretold.search.observe import Observation, observe
from foretold.search.replayers import Replayer
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


def confirm(found: Failure, main: Callable[[Any], Any], replayer: Replayer) -> None:
    """Fill in whether a fresh process fails in the same way, and if not, how it differs."""
    try:
        seen = replayer(found.tape)
    except ForetoldError as error:
        found.reproduced, found.doubt = False, str(error)
        return
    found.reproduced = seen.signature == found.signature
    if found.reproduced and seen.digest == found.digest:
        return
    found.doubt = _what_differs(found, main, seen, replayer)


def _what_differs(
    found: Failure, main: Callable[[Any], Any], seen: Observation, replayer: Replayer
) -> str:
    if not found.reproduced:
        said = seen.message.splitlines()[0] if seen.message else ""
        what = f"there it failed with {seen.kind}: {said}" if seen.failed else "there it held"
    else:
        what = "it fails in the same way there, but not by the same steps"
    difference = difference_elsewhere(found.tape, main, replayer)
    return f"{what}; {difference or 'no single event differs'}"


def difference_elsewhere(
    tape: Tape, main: Callable[[Any], Any], replayer: Replayer
) -> Difference | None:
    """The first event in which a run elsewhere differs from one here."""
    with tempfile.TemporaryDirectory(prefix="foretold-") as folder:
        here, there = Path(folder, "here"), Path(folder, "there")
        with here.open("w", encoding="utf-8", errors="surrogatepass") as file:
            observe(main, tape, sink=lambda e: file.write(e.replace("\n", "\\n") + "\n"))
        replayer(tape, entries=there)
        return first_difference(here, there)
