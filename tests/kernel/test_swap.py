"""Builtins can be made to do something else for all who hold them, and be restored exactly."""

from __future__ import annotations

import _asyncio
import asyncio
import ctypes
import datetime
import functools
import gc
import math
import os
import pickle
import re
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import pytest

from foretold.errors import ForetoldError
from foretold.kernel import swap as swap_module
from foretold.kernel.swap import Changes, Setting, Swap, copy_of, init_slot, is_swapped
from foretold.platforms import refusal

WARM = 10_000  # enough for the interpreter to specialise a call site

METH_CLASS, METH_STATIC = 0x10, 0x20


def fields(function: Callable[..., Any]) -> tuple[Any, ...]:
    """Every field of the C structure except its reference count."""
    view = swap_module._view(function)
    names = [name for name, _ in swap_module._Function._fields_ if name != "ob_refcnt"]
    return tuple(getattr(view, name) for name in names)


def flags(function: Callable[..., Any]) -> int:
    """How C is to call it, whatever it is bound to."""
    return int(swap_module._definition(function).ml_flags) & ~(METH_CLASS | METH_STATIC)


# One builtin for each way in which CPython passes arguments, bound here once and for all.
UTC = datetime.timezone.utc  # noqa: UP017  # an argument like any other here
CONVENTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any]] = {
    "NOARGS": (copy_of(sys.getrecursionlimit), (), {}, sys.getrecursionlimit()),
    "O": (copy_of(len), ("abc",), {}, 3),
    "FASTCALL": (copy_of(divmod), (7, 2), {}, (3, 1)),
    "FASTCALL|KEYWORDS": (copy_of(sorted), ([1, 2],), {"reverse": True}, [2, 1]),
    "VARARGS": (copy_of(time.gmtime), (0,), {}, time.gmtime(0)),
    "VARARGS|KEYWORDS": (
        datetime.datetime.fromtimestamp,
        (0,),
        {"tz": UTC},
        datetime.datetime(1970, 1, 1, tzinfo=UTC),
    ),
}


def test_the_six_calling_conventions_are_six() -> None:
    """The table above must not test one convention twice, or the tests below prove less."""
    assert len({flags(case[0]) for case in CONVENTIONS.values()}) == 6


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_a_warm_call_site_sees_the_swap_and_its_undo(convention: str) -> None:
    """Specialised bytecode has looked at the builtin before: it must notice both changes."""
    function, args, names, original = CONVENTIONS[convention]

    def call_often() -> set[str]:
        return {repr(function(*args, **names)) for _ in range(WARM)}

    def call_plainly() -> set[str]:  # without unpacking, the form that is specialised most
        match convention:
            case "NOARGS":
                return {repr(function()) for _ in range(WARM)}
            case "FASTCALL":
                return {repr(function(7, 2)) for _ in range(WARM)}
            case "FASTCALL|KEYWORDS":
                return {repr(function([1, 2], reverse=True)) for _ in range(WARM)}
            case "VARARGS|KEYWORDS":
                return {repr(function(0, tz=UTC)) for _ in range(WARM)}
        return {repr(function(args[0])) for _ in range(WARM)}

    swap = Swap(function, lambda *a, **k: (a, k))
    for expected in (original, (args, names), original, (args, names), original):
        assert call_often() == call_plainly() == {repr(expected)}
        swap.undo() if is_swapped(function) else swap.apply()
    swap.undo()


def test_every_alias_is_caught() -> None:
    """The point of it: whoever holds the function object, under whatever name, gets the new one."""
    victim: Callable[..., Any] = copy_of(math.sqrt)
    kept, bound = [victim], functools.partial(victim, 9.0)
    swap = Swap(victim, lambda x: f"swapped {x}")
    swap.apply()
    try:
        assert kept[0](4.0) == bound.func(4.0) == next(map(victim, [4.0])) == "swapped 4.0"
        assert bound() == "swapped 9.0"
    finally:
        swap.undo()
    assert kept[0](4.0) == 2.0
    assert bound() == 3.0


@pytest.mark.parametrize("error", [ValueError("planted"), KeyboardInterrupt(), SystemExit(3)])
def test_exceptions_pass_through(error: BaseException) -> None:
    """A fence must be able to raise, and Ctrl-C to arrive: a ctypes callback would lose both."""

    def replacement(x: float) -> float:
        raise error

    victim = copy_of(math.sqrt)
    swap = Swap(victim, replacement)
    swap.apply()
    try:
        with pytest.raises(type(error)) as caught:
            victim(4.0)
    finally:
        swap.undo()
    assert caught.value is error
    assert victim(4.0) == 2.0


def test_undo_restores_each_field_and_each_reference() -> None:
    """Exactly as before: fields of the structure, and reference counts of all that take part."""

    def replacement() -> int:
        return 1

    function = copy_of(os.getppid)
    swap = Swap(function, replacement)
    counted = (function, os, sys.modules["posix"], replacement, swap._stand_in)
    before, counts = fields(function), [sys.getrefcount(thing) for thing in counted]
    for _ in range(100):
        swap.apply()
        assert fields(function) != before
        assert function() == 1
        swap.undo()
    assert fields(function) == before
    assert [sys.getrefcount(thing) for thing in counted] == counts


def test_the_collector_sees_a_sound_heap() -> None:
    """gc follows m_self and counts references; a borrowed one would be freed under our feet."""
    victim: Callable[..., Any] = copy_of(math.sqrt)
    swap = Swap(victim, lambda x: x)
    swap.apply()
    try:
        stand_in = swap._stand_in
        before = sys.getrefcount(stand_in)
        followed = any(thing is stand_in for thing in gc.get_referents(victim))
        for _ in range(3):
            gc.collect()
        after = sys.getrefcount(stand_in)
        assert followed
        assert victim("still there") == "still there"
        assert after == before
    finally:
        swap.undo()


def test_a_swapped_builtin_looks_like_itself() -> None:
    """Its repr must show no address (traces would differ), and pickling must find it by name."""

    def looks(function: Callable[..., Any]) -> tuple[object, ...]:
        return (
            repr(function),
            function.__name__,
            function.__qualname__,
            function.__module__,
            function.__doc__,
            function.__text_signature__,  # type: ignore[attr-defined]  # builtins have one
            pickle.loads(pickle.dumps(function)) is function,
        )

    swap = Swap(math.sqrt, lambda x: x)
    before = looks(math.sqrt)
    swap.apply()
    try:
        assert looks(math.sqrt) == before
        assert is_swapped(math.sqrt)
    finally:
        swap.undo()
    assert not is_swapped(math.sqrt)


def test_a_swapped_builtin_is_found_where_it_was_put() -> None:
    """CPython hashes a builtin by the fields that a swap changes; `os.supports_fd` is a set."""
    victim, other = copy_of(math.sqrt), copy_of(math.cos)
    type_before = (types.BuiltinFunctionType.__hash__, hash(victim), hash(len), hash(other))
    table = {victim: "before", len: "len", other: "other"}
    lower, upper = Swap(victim, lambda x: x), Swap(victim, lambda x: x)
    beside = Swap(other, lambda x: x)
    for change in (lower.apply, beside.apply, upper.apply, upper.undo, lower.undo, beside.undo):
        change()
        assert (table[victim], table[len], table[other]) == ("before", "len", "other")
        assert {len, victim} & {victim} == {victim}
    assert (types.BuiltinFunctionType.__hash__, hash(victim), hash(len), hash(other)) == type_before
    assert swap_module._hashes == {}


def test_a_copy_stays_as_it_was() -> None:
    """The framework's own functions are copies made beforehand: no swap may reach them."""
    victim = copy_of(math.sqrt)
    copy = copy_of(victim)
    swap = Swap(victim, lambda x: "swapped")
    swap.apply()
    try:
        assert victim(4.0) == "swapped"  # type: ignore[comparison-overlap]  # no longer sqrt
        assert copy(4.0) == 2.0
        with pytest.raises(ForetoldError, match="is swapped"):
            copy_of(victim)
    finally:
        swap.undo()


def test_swaps_stack_and_unwind_in_reverse() -> None:
    """A later layer may swap what the fence swapped; undoing the lower one first is refused."""
    victim: Callable[..., Any] = copy_of(math.sqrt)
    lower, upper = Swap(victim, lambda x: "lower"), Swap(victim, lambda x: "upper")
    lower.apply()
    upper.apply()
    assert victim(4.0) == "upper"
    with pytest.raises(ForetoldError, match="undo that first"):
        lower.undo()
    upper.undo()
    assert victim(4.0) == "lower"
    lower.undo()
    assert victim(4.0) == 2.0


def test_what_cannot_be_swapped_is_refused() -> None:
    """Writing C fields into anything else than a plain builtin would corrupt memory: say no."""
    for wrong in (test_every_alias_is_caught, math, str.join, re.compile("x").match):
        with pytest.raises(ForetoldError, match="only builtin functions"):
            Swap(wrong, print)  # type: ignore[arg-type]  # the mistake
    swap = Swap(copy_of(math.sqrt), lambda x: x)
    swap.apply()
    with pytest.raises(ForetoldError, match="already swapped"):
        swap.apply()
    swap.undo()
    swap.undo()  # a second undo has nothing to do


def test_another_thread_never_meets_a_half_swapped_function() -> None:
    """Three fields change together: a thread that calls all the while sees one or the other."""
    victim: Callable[..., Any] = copy_of(sys.getrecursionlimit)
    seen: set[object] = set()
    stop = threading.Event()

    def hammer() -> None:
        while not stop.is_set():
            seen.update(victim() for _ in range(100))

    thread = threading.Thread(target=hammer)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    swap = Swap(victim, lambda: "swapped")
    try:
        for _ in range(3_000):
            swap.apply()
            swap.undo()
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert seen <= {sys.getrecursionlimit(), "swapped"}
    assert seen


# --- attributes of classes -------------------------------------------------------------------


class Older(datetime.datetime):
    """A subclass that was there before the change."""


def test_a_method_of_a_static_type_is_replaced_and_restored() -> None:
    """datetime's own dict entry, for the class, for subclasses, for call sites that are warm."""
    entry, names = datetime.datetime.__dict__["now"], list(datetime.datetime.__dict__)

    def call_often() -> set[type]:
        return {type(datetime.datetime.now()) for _ in range(WARM)}

    setting = Setting(datetime.datetime, "now", classmethod(lambda cls, tz=None: (cls, tz)))
    assert call_often() == {datetime.datetime}
    setting.apply()
    try:
        assert call_often() == {tuple}
        assert Older.now() == (Older, None)
        assert Older.now(tz=UTC) == (Older, UTC)
    finally:
        setting.undo()
    assert call_often() == {datetime.datetime}
    assert type(Older.now()) is Older
    assert datetime.datetime.__dict__["now"] is entry
    assert list(datetime.datetime.__dict__) == names


def test_a_slot_of_a_c_type_is_what_c_calls() -> None:
    """`__hash__` and `__init__` set on a C type count for C code, in older subclasses too."""

    class Plain(asyncio.Future):  # type: ignore[type-arg]  # the parameter plays no part
        pass

    class WithOwnHash(asyncio.Future):  # type: ignore[type-arg]  # as above
        def __hash__(self) -> int:
            return 5

    loop = asyncio.new_event_loop()
    made: list[object] = []
    original = _asyncio.Future.__init__
    hash_before = vars(_asyncio.Future).get("__hash__")  # runs may have left theirs: `hashes.py`
    kinds = (_asyncio.Future, _asyncio.Task, Plain, WithOwnHash)
    slots, immutable = [init_slot(kind) for kind in kinds], _asyncio.Future.__flags__ & 1 << 8

    def noting_init(self: Any, *args: Any, **names: Any) -> None:
        made.append(self)
        original(self, *args, **names)

    changes = Changes()
    changes.apply(
        Setting(_asyncio.Future, "__hash__", lambda self: 77),
        Setting(_asyncio.Future, "__init__", noting_init),
    )
    try:
        futures: list[Any] = [kind(loop=loop) for kind in (_asyncio.Future, Plain, WithOwnHash)]
        assert [hash(future) for future in futures] == [77, 77, 5]
        assert futures[1] in {futures[1]: None}
        assert made == futures
    finally:
        changes.undo()
        loop.close()
    assert all(hash(future) == object.__hash__(future) for future in futures[:2])
    assert vars(_asyncio.Future).get("__hash__") is hash_before
    assert _asyncio.Future.__init__ is original
    assert [init_slot(kind) for kind in kinds] == slots
    assert _asyncio.Future.__flags__ & 1 << 8 == immutable != 0
    with pytest.raises(TypeError):
        _asyncio.Future.planted = 1  # type: ignore[attr-defined]  # locked again


def test_a_python_class_gets_its_attribute_back() -> None:
    """Set over an own attribute, and set where there was only an inherited one."""

    class Base:
        def own(self) -> str:
            return "own"

    own = vars(Base)["own"]
    changes = Changes()
    changes.apply(
        Setting(Base, "own", lambda self: "set"), Setting(Base, "__str__", lambda self: "planted")
    )
    assert (Base().own(), str(Base())) == ("set", "planted")
    changes.undo()
    assert vars(Base)["own"] is own
    assert "__str__" not in vars(Base)


def test_a_setting_that_was_overwritten_is_undone() -> None:
    """A program patched on top of us: its change may lead to ours, so it goes when ours does. An
    error would leave everything else of ours in place."""

    class Victim:
        x = 0

    setting = Setting(Victim, "x", 1)
    assert setting.before("default") == "default"
    setting.apply()
    assert setting.before("default") == 0
    with pytest.raises(ForetoldError, match="already set"):
        setting.apply()
    Victim.x = 2
    setting.undo()
    assert Victim.x == 0


@pytest.mark.skipif(sys.version_info < (3, 12), reason="3.11 has no such types")
def test_slots_of_interpreter_owned_types_are_refused() -> None:
    """Their slots cannot be recomputed from outside; half a change would be worse than none."""
    with pytest.raises(ForetoldError, match="slot of a static type"):
        Setting(int, "__hash__", lambda self: 0).apply()
    assert hash(3) == 3


def test_changes_are_all_or_none() -> None:
    """The second of two fails: the first is taken back."""
    victim: Callable[..., Any] = copy_of(math.sqrt)
    failing = Swap(copy_of(math.sqrt), lambda x: x)
    failing.apply()
    changes = Changes()
    with pytest.raises(ForetoldError, match="already swapped"):
        changes.apply(Swap(victim, lambda x: "swapped"), failing)
    assert victim(4.0) == 2.0
    assert not changes
    failing.undo()


# --- the platform ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "said"),
    [
        ({"implementation": "pypy"}, "this is pypy"),
        ({"version": (3, 10, 9)}, "this is 3.10.9"),
        ({"version": (3, 15, 0)}, "this is 3.15.0"),
        ({"free_threaded": True}, "free-threaded"),
        ({"debug_heap": True}, "Py_TRACE_REFS"),
        ({"pointer_bytes": 4}, "32-bit"),
        ({"system": "win32"}, "this is win32"),
    ],
)
def test_an_untested_platform_is_refused_in_words(platform: dict[str, Any], said: str) -> None:
    """Guessing at structures would crash the process: the message names what was found."""
    message = refusal(**platform)
    assert message is not None
    assert said in message
    assert "3.11, 3.12, 3.13, 3.14" in message
    assert refusal() is None


def test_another_layout_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a build with one more field in its objects must be refused before any write."""

    class Shifted(ctypes.Structure):
        _fields_ = (("extra", ctypes.c_void_p), *swap_module._Function._fields_)

    assert swap_module._layout_error() is None
    monkeypatch.setattr(swap_module, "_Function", Shifted)
    monkeypatch.setattr(swap_module, "_definition", lambda function: DEFINITION)
    assert swap_module._layout_error() == "ob_type"
    with pytest.raises(ForetoldError, match="lays out its objects in another way"):
        swap_module._check_platform()


DEFINITION = types.SimpleNamespace(ml_name=b"sorted", ml_flags=0x82)
