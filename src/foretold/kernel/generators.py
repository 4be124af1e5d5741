"""Generators that were there before the run: each run finds them in a state that it can repeat.

Libraries keep `random.Random()` objects that were made when they were imported, and seeded by the
machine: aiohttp masks the frames of all websockets with one. A run that draws from it would differ
from process to process. Others were seeded by the program, and would go on in the second run where
the first one left off. So when a run begins, and until it ends,

* a generator that the machine has seeded is seeded from the tape, each in a way of its own, by the
  name of whom it belongs to (`owners.py`): no order decides anything;
* a generator that the program has seeded (`mersenne.py` tells them apart) begins where it stands;
* a generator that an earlier run made, and that survived it, begins as it did there.

When the run ends, all are put back as they were before it. So nobody outside sees anything of this:
not the loop that draws its seeds from a generator, not Hypothesis. And if somebody outside seeds
one, that counts.

They are found on the heap when a session begins, by the scan that is made there anyway; those made
in a run are seen when they are seeded. What is known is held weakly. Our own are of a class of
their own, `TapeRandom`, and left alone, as are `SystemRandom` and the global generator, which
`entropy_patches.py` takes care of.
"""

from __future__ import annotations

import _random
import ctypes
import hashlib
import random
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from foretold.kernel.mersenne import is_given_seed
from foretold.kernel.owners import names_of
from foretold.tape.streams import TapeRandom

_real_seed: Final = _random.Random.__dict__["seed"]
_global: Final[Any] = random._inst  # the object behind random.random()
_FOREIGN: Final = (random.SystemRandom, TapeRandom)
_OF_HYPOTHESIS = "hypothesis."
_GAUSS = "gauss_next"

# The whole C part of a generator, 2.5 KB without any pointer. Copying it takes a twentieth of the
# time of getstate() and setstate(), and calls nothing that a subclass may have overridden.
_Memory: Final = ctypes.c_char * (_random.Random.__basicsize__ - object.__basicsize__)


def memory_of(generator: _random.Random) -> Any:
    """The state of a generator, to be read and written as `.raw`. The generator must stay alive."""
    return _Memory.from_address(id(generator) + object.__basicsize__)


class _Known:
    """One generator that outlives runs."""

    __slots__ = ("before", "gauss", "memory", "name", "ours", "reference", "seed", "seen")

    def __init__(self, generator: random.Random, name: str | None, seed: Any = None) -> None:
        self.reference = weakref.ref(generator)
        self.memory = memory_of(generator)
        self.seen = self.memory.raw
        self.name = name
        """If the machine has seeded it: whom it belongs to."""
        self.seed = seed
        """If a run has made it: what it was seeded with there."""
        self.before: bytes | None = None
        self.ours = b""
        self.gauss: Any = None

    def begin(self, generator: random.Random, entropy: bytes) -> None:
        now = self.memory.raw
        if now != self.seen:  # somebody outside drew from it, or has seeded it
            self.name = None if is_given_seed(now) else self.name or ""
            self.seed, self.seen = None, now
        self.before, self.gauss = now, vars(generator).get(_GAUSS)
        self.make_new(generator, entropy)
        if self.name is not None:
            self.ours = self.memory.raw

    def make_new(self, generator: random.Random, entropy: bytes) -> None:
        """As at the beginning of a run, unless the program has given it its seed before."""
        if self.name is not None:
            text = self.name.encode("utf-8", "surrogatepass")
            digest = hashlib.blake2b(text, key=entropy, digest_size=16).digest()
            _real_seed(generator, int.from_bytes(digest, "big"))
        elif self.seed is not None:
            _real_seed(generator, self.seed)
        else:
            return
        vars(generator)[_GAUSS] = None

    def end(self, generator: random.Random) -> None:
        if self.before is not None:
            self.memory.raw = self.before
            vars(generator)[_GAUSS] = self.gauss
            self.before = None


_known: Final[dict[int, _Known]] = {}
_engines: Final[weakref.WeakValueDictionary[int, random.Random]] = weakref.WeakValueDictionary()
"""Hypothesis' own, by their ids. What a run draws with its help comes from the tape."""


def _alive() -> Iterator[tuple[_Known, random.Random]]:
    """Each one that is still there, held while its memory is looked at."""
    dead = []
    for key, known in _known.items():
        generator = known.reference()
        if generator is None:
            dead.append(key)
        else:
            yield known, generator
    for key in dead:
        del _known[key]


def _is_known(generator: random.Random) -> bool:
    known = _known.get(id(generator))
    return known is not None and known.reference() is generator


# --- those made before the run ---------------------------------------------------------------


def kinds() -> set[type]:
    """The classes whose instances are looked for."""

    found: list[type] = [random.Random]
    for kind in found:
        subclasses: list[type] = kind.__subclasses__()
        for each in subclasses:
            if each not in _FOREIGN and not each.__module__.startswith(_OF_HYPOTHESIS):
                found.append(each)
    return {*found}


def learn(found: Iterable[random.Random]) -> None:
    """Get to know generators that were found on the heap."""
    _adopt_births()
    _learn(found)


def _learn(found: Iterable[random.Random]) -> None:
    unseeded = []
    for generator in found:
        if generator is _global or _is_known(generator) or id(generator) in _engines:
            continue
        known = _known[id(generator)] = _Known(generator, None)
        if not is_given_seed(known.seen):
            unseeded.append(generator)
    if unseeded:
        for generator, name in zip(unseeded, names_of(unseeded), strict=True):
            if name.startswith(_OF_HYPOTHESIS):
                del _known[id(generator)]
                _engines[id(generator)] = generator
            else:
                _known[id(generator)].name = name


# --- those made in a run ---------------------------------------------------------------------


class _Birth(weakref.ref):  # type: ignore[type-arg]  # of a generator, always
    """A generator that the present run has made, and what it was seeded with."""

    __slots__ = ("key", "seed")
    key: int
    seed: Any


_born: Final[dict[int, _Birth]] = {}
_unseeded_births = 0


def _forget_birth(birth: _Birth) -> None:
    if _born.get(birth.key) is birth:
        del _born[birth.key]


def note_seeding(generator: Any, seed: Any) -> None:
    """A run seeds a generator. If it made it, too, the next run may find it, and use it further."""
    if isinstance(generator, random.Random) and not isinstance(generator, _FOREIGN):
        if generator is _global or _is_known(generator):
            return  # it is put back anyway
        birth = _Birth(generator, _forget_birth)
        birth.key, birth.seed = id(generator), seed
        _born[birth.key] = birth


def _adopt_births() -> None:
    global _unseeded_births
    for birth in list(_born.values()):
        generator = birth()
        if generator is None:
            continue
        name = None
        if birth.seed is None:
            _unseeded_births += 1
            name = f"made in a run, {_unseeded_births}"
        _known[birth.key] = _Known(generator, name, birth.seed)
    _born.clear()


# --- per run ---------------------------------------------------------------------------------


_entropy = b""
"""Of the run in progress."""


def births() -> int:
    """How many generators the run has made so far, and not dropped."""
    return len(_born)


def adopt_imported(since: int) -> None:
    """A module was imported inside the run: the generators that it has made, those after the first
    `since`, are as if they had been there before."""
    made = {}
    for key in list(_born)[since:]:
        birth = _born.pop(key)
        generator = birth()
        if generator is not None:
            made[key] = generator
            if birth.seed is None:
                # By the machine itself, as it would have been before the run: a seed that hangs on
                # the module's name is short, and would be taken for one that the program gave.
                _real_seed(generator, None)
    if made:
        _learn(made.values())
        for known, generator in _alive():
            if id(generator) in made:
                known.begin(generator, _entropy)


def begin_run(entropy: bytes) -> None:
    """Put all of them into a state that depends on the tape and the program alone."""
    global _entropy
    _entropy = entropy
    if _known:
        for known, generator in _alive():
            known.begin(generator, entropy)


@contextmanager
def made_new(entropy: bytes) -> Iterator[None]:
    """Inside, all of them are as in a run that begins so; afterwards they are as they were."""
    kept = []
    for known, generator in _alive():
        kept.append((known, generator, known.memory.raw, vars(generator).get(_GAUSS)))
        if known.before is not None:
            known.memory.raw = known.before  # where it stood when the run began
        known.make_new(generator, entropy)
    try:
        yield
    finally:
        for known, generator, state, gauss in kept:
            known.memory.raw = state
            vars(generator)[_GAUSS] = gauss


def were_used() -> bool:
    """Whether the run drew from one whose state comes from the tape."""
    return any(
        known.name is not None and known.before is not None and known.memory.raw != known.ours
        for known, _ in _alive()
    )


def end_run() -> None:
    """Put all of them back, and remember those that the run has made."""
    if _known:
        for known, generator in _alive():
            known.end(generator)
    if _born:
        _adopt_births()
