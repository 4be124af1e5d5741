"""numpy's generators, if the program uses numpy: as `generators.py` does with those of `random`.

The global one behind `np.random.random()` begins anew in each run, from the tape, as the global
`random` does. A `default_rng()` at module level is seeded from the tape under its owner's name; a
`default_rng(7)` begins where it stands. All are put back when the run ends. What a run makes itself
gets its seed from `secrets`, that is from the tape, without our help.

numpy keeps the seed that it was given, and draws 128 bits if there was none. So a seed of more than
64 bits counts as none: one that somebody wrote out at such length is replaced by the tape's, which
is repeatable all the same.

numpy is never imported for this; where it is, a run costs a tenth of a millisecond more, most of it
for the global one. Its objects cannot be held weakly: one that nobody else holds is let go when the
next run ends.
"""

from __future__ import annotations

import gc
import hashlib
import sys
from _thread import get_ident
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from foretold.kernel import real
from foretold.kernel.owners import names_of
from foretold.kernel.threads.baton import strand_of

_GIVEN_SEED_BITS_MAX = 64


class _Known:
    """One bit generator: the engine of a `Generator` or a `RandomState`."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.name: str | None = None
        """If the machine has seeded it: whom it belongs to."""
        self.before: Any = None
        self.ours: Any = None
        """The state that the tape gave it."""

    def begin(self, entropy: bytes) -> None:
        self.before = self.engine.state
        if self.name is not None:
            self.engine.state = type(self.engine)(_seed(entropy, self.name)).state
            self.ours = self.engine.state

    def end(self) -> None:
        if self.before is not None:
            self.engine.state, self.before, self.ours = self.before, None, None


_known: Final[dict[int, _Known]] = {}
_entropy = b""
"""Of the run in progress."""
_global_before: Any = None
_global_ours: Any = None


def _is_same(one: Any, other: Any) -> bool:
    """Whether two states are one. They are dictionaries of numbers, texts and arrays."""
    if isinstance(one, dict):
        return all(_is_same(one[key], other[key]) for key in one)
    return bool(one.tobytes() == other.tobytes()) if hasattr(one, "tobytes") else one == other


def _seed(entropy: bytes, name: str) -> int:
    text = name.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, key=entropy, digest_size=16).digest(), "big")


def _random_module() -> Any:
    """`numpy.random`, once it has been imported completely."""
    module = sys.modules.get("numpy.random")
    return module if hasattr(module, "get_state") and hasattr(module, "BitGenerator") else None


def kinds() -> set[type]:
    """The classes whose instances are looked for."""
    module = _random_module()
    return set() if module is None else set(module.BitGenerator.__subclasses__())


def learn(found: list[Any]) -> None:
    """Get to know engines that were found on the heap."""
    get = getattr(_random_module(), "get_bit_generator", None)
    behind_global = None if get is None else get()
    new = [e for e in found if id(e) not in _known and e is not behind_global]
    for engine in new:
        _known[id(engine)] = _Known(engine)
    unseeded = [engine for engine in new if not _is_given_seed(engine)]
    found.clear()
    new.clear()
    if unseeded:
        for engine, name in zip(unseeded, names_of(unseeded), strict=True):
            _known[id(engine)].name = name


def _is_given_seed(engine: Any) -> bool:
    entropy = getattr(getattr(engine, "seed_seq", None), "entropy", None)
    if isinstance(entropy, int):
        return entropy.bit_length() <= _GIVEN_SEED_BITS_MAX
    return entropy is not None  # several numbers: somebody wrote them


def begin_run(entropy: bytes) -> None:
    """Put all of them into a state that depends on the tape and the program alone."""
    global _entropy
    _entropy = entropy
    if _random_module() is not None:
        _begin_global()
        for known in _known.values():
            known.begin(entropy)


def _begin_global() -> None:
    global _global_before, _global_ours
    module = _random_module()
    _global_before = module.get_state(legacy=False)
    seed = _seed(_entropy, "numpy.random")
    module.seed([seed >> shift & 0xFFFF_FFFF for shift in (0, 32, 64, 96)])
    _global_ours = module.get_state(legacy=False)


@contextmanager
def _unnoticed() -> Iterator[None]:
    """Who looks at a state takes its lock, which is one of the program's kind. That we do is no
    point for other threads to go on: there is none in a process that has not imported numpy."""
    strand = strand_of(get_ident())
    if strand is None:
        yield
        return
    strand.quiet += 1
    try:
        yield
    finally:
        strand.quiet -= 1


def there_are() -> list[Any]:
    """Before an import inside a run: the engines that the run has made so far."""
    wanted = kinds()
    return [each for each in gc.get_objects() if type(each) in wanted] if wanted else []


@_unnoticed()
def adopt_imported(before: list[Any]) -> None:
    """A module was imported inside the run, numpy itself perhaps: the engines that it has made,
    those that are not among `before`, are as if they had been there when the run began."""
    if _random_module() is None:
        return
    if _global_before is None:
        # What numpy drew for it hangs on the module's name. The machine seeds it, as before a run.
        _random_module().seed([*memoryview(real.urandom(16)).cast("I")])
        _begin_global()
    older = {*map(id, before), *_known}
    before.clear()  # or it would be one more that refers to them
    learn([each for each in there_are() if id(each) not in older])
    for key, known in _known.items():
        if key not in older:
            if known.name is not None:  # as above
                seed = int.from_bytes(real.urandom(16), "big")
                known.engine.state = type(known.engine)(seed).state
            known.begin(_entropy)


@_unnoticed()
def were_used() -> bool:
    """Whether the run drew from one whose state comes from the tape."""
    if _global_before is None:
        return False
    if not _is_same(_global_ours, _random_module().get_state(legacy=False)):
        return True
    drawn_from = (each for each in _known.values() if each.ours is not None)
    return any(not _is_same(each.ours, each.engine.state) for each in drawn_from)


def end_run() -> None:
    """Put all of them back."""
    global _global_before, _global_ours
    if _global_before is not None:
        _random_module().set_state(_global_before)
        _global_before = _global_ours = None
        for key, known in list(_known.items()):
            known.end()
            if sys.getrefcount(known.engine) <= 2:  # ours, and that of the call
                del _known[key]
