"""Types that are changed and changed back, again and again, without using up their version tags.

CPython gives a type a number, its *version tag*, and caches what is found in it under that number.
A change takes the number away, and the next look-up gives it another one. Python 3.12 has no more
than 65,535 numbers for the types that call themselves immutable (locks, sockets, `datetime`). When
they are used up nothing is cached any more, and 3.12.0 and 3.12.1 mistake one such type for another
(CPython's issue 89811): an RLock would be taken by a method of Lock. A search of some ten thousand
runs gets there.

So a type that has its former contents again is given its former number again, which is true: all
that was cached under it holds. And while it is changed, it gets its numbers from the other supply,
that of ordinary classes, which lasts for four thousand million. Other versions of Python have a
limit for each type, or none, and need nothing of this.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

IMMUTABLE: Final = 1 << 8
_HAS_VALID_TAG: Final = 1 << 19
LIMITED: Final = sys.version_info[:2] == (3, 12)

_SLOTS_BEFORE_FLAGS = (
    "getattr setattr as_async repr as_number as_sequence as_mapping"
    " hash call str getattro setattro as_buffer"
)
_SLOTS_AFTER_FLAGS = (
    "doc traverse clear richcompare weaklistoffset iter iternext methods members getset"
    " base dict descr_get descr_set dictoffset init alloc new"
    " free is_gc bases mro cache subclasses weaklist del"
)


class TypeView(ctypes.Structure):
    """CPython's PyTypeObject, as far as its version tag."""

    _fields_ = (
        ("ob_refcnt", ctypes.c_ssize_t),
        ("ob_type", ctypes.c_void_p),
        ("ob_size", ctypes.c_ssize_t),
        ("tp_name", ctypes.c_void_p),
        ("tp_basicsize", ctypes.c_ssize_t),
        ("tp_itemsize", ctypes.c_ssize_t),
        ("tp_dealloc", ctypes.c_void_p),
        ("tp_vectorcall_offset", ctypes.c_ssize_t),
        *((f"tp_{slot}", ctypes.c_void_p) for slot in _SLOTS_BEFORE_FLAGS.split()),
        ("tp_flags", ctypes.c_ulong),
        *((f"tp_{slot}", ctypes.c_void_p) for slot in _SLOTS_AFTER_FLAGS.split()),
        ("tp_version_tag", ctypes.c_uint),
    )


def _view(kind: type) -> TypeView:
    return TypeView.from_address(id(kind))


def _immutable_among(kinds: Iterable[type]) -> Iterator[type]:
    """These and their subclasses, which lose their tags too, as far as their tags are few."""
    for kind in kinds:
        if kind.__flags__ & IMMUTABLE:
            yield kind
            yield from _immutable_among(type.__subclasses__(kind))


class Tags:
    """The tags that types had before they were changed. Who changes a type that others have changed
    must be done with it before they are."""

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before: dict[type, int] = {}

    def __bool__(self) -> bool:
        """Whether any are kept."""
        return bool(self._before)

    @contextmanager
    def kept(self, kinds: Iterable[type]) -> Iterator[None]:
        """While `kinds`, or those of an earlier call, are changed inside."""
        if not LIMITED:
            yield
            return
        for kind in _immutable_among(kinds):
            self._before.setdefault(kind, _view(kind).tp_version_tag)
        locked = [kind for kind in self._before if _view(kind).tp_flags & IMMUTABLE]
        for kind in locked:
            _view(kind).tp_flags &= ~IMMUTABLE
        try:
            yield
        finally:
            for kind in locked:
                getattr(kind, "_no_such", None)  # a look-up: it has a number again
                _view(kind).tp_flags |= IMMUTABLE

    def give_back(self) -> None:
        """The types are as they were: so are their tags."""
        for kind, tag in self._before.items():
            if tag:
                view = _view(kind)
                view.tp_version_tag = tag
                view.tp_flags |= _HAS_VALID_TAG
        self._before = {}
