"""The shared libraries of this process, and the slots through which they call others.

A library calls `poll` of libc through a slot of its own table of imports, which the dynamic linker
fills with an address. Putting another address there changes what *this* library calls, and nothing
else: Python itself and all other libraries go on as before. The table is found in memory, by the
headers that the dynamic linker itself went by; nothing on disk is read.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
from collections.abc import Callable, Container, Iterator
from typing import Any, Final, NamedTuple

_LOAD_DYNAMIC, _LOAD_RELRO = 2, 0x6474E552
_PLT_BYTES, _STRINGS, _SYMBOLS, _RELOCATIONS, _RELOCATIONS_BYTES, _PLT = 2, 5, 6, 7, 8, 23
_IMPORT_KINDS: Final = {"x86_64": (6, 7), "aarch64": (1025, 1026)}
"""GLOB_DAT and JUMP_SLOT: relocations that mean "the address of this function"."""
_SYMBOL_BYTES = 24
_READ, _WRITE = 1, 2


class _Info(ctypes.Structure):
    """The beginning of `struct dl_phdr_info`."""

    _fields_ = (
        ("base", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.c_void_p),
        ("count", ctypes.c_uint16),
    )


class _Header(ctypes.Structure):
    """`Elf64_Phdr`."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("offset", ctypes.c_uint64),
        ("start", ctypes.c_uint64),
        ("physical", ctypes.c_uint64),
        ("file_bytes", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("alignment", ctypes.c_uint64),
    )


class Image(NamedTuple):
    """A library as it lies in memory."""

    path: str
    base: int
    headers: tuple[tuple[int, int, int], ...]
    """Kind, address and size of each part."""

    def imports(self, wanted: Container[str]) -> Iterator[tuple[str, int, bool]]:
        """Each import by one of these names: its name, its slot, and whether that is read-only."""
        tags = self._dynamic()
        kinds = _IMPORT_KINDS.get(platform.machine(), ())
        sealed = [range(at, at + size) for kind, at, size in self.headers if kind == _LOAD_RELRO]
        for table, size in ((_PLT, _PLT_BYTES), (_RELOCATIONS, _RELOCATIONS_BYTES)):
            if not tags.get(table) or not tags.get(size):
                continue
            content = ctypes.string_at(self._absolute(tags[table]), tags[size])
            for offset, info, _ in struct.iter_unpack("=QQq", content):
                if info & 0xFFFFFFFF in kinds:
                    name = self._name(tags, info >> 32)
                    if name in wanted:
                        slot = self.base + offset
                        yield name, slot, any(slot in part for part in sealed)

    def _dynamic(self) -> dict[int, int]:
        for kind, at, size in self.headers:
            if kind == _LOAD_DYNAMIC:
                return dict(struct.iter_unpack("=QQ", ctypes.string_at(at, size)))
        return {}

    def _absolute(self, address: int) -> int:
        """glibc has added the base to what it keeps here; others have not."""
        return address if address >= self.base else address + self.base

    def _name(self, tags: dict[int, int], index: int) -> str:
        symbol = self._absolute(tags[_SYMBOLS]) + index * _SYMBOL_BYTES
        (offset,) = struct.unpack("=I", ctypes.string_at(symbol, 4))
        return ctypes.string_at(self._absolute(tags[_STRINGS]) + offset).decode()


_libc: Final[Any] = ctypes.CDLL(None, use_errno=True)
_Visit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Info), ctypes.c_size_t, ctypes.c_void_p)
_libc.mprotect.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]


def loaded(is_wanted: Callable[[str], bool]) -> list[Image]:
    """The libraries of this process whose path is one that is wanted."""
    found: list[Image] = []

    def visit(info: Any, size: int, data: Any) -> int:
        given = info.contents
        path = (given.name or b"").decode(errors="replace")
        if is_wanted(path):
            array = (_Header * given.count).from_address(given.headers)
            parts = tuple((h.kind, given.base + h.start, h.bytes) for h in array)
            found.append(Image(path, given.base, parts))
        return 0

    _libc.dl_iterate_phdr(_Visit(visit), None)
    return found


class ImportSlot:
    """One import of one library, led elsewhere by `apply` and back by `undo`."""

    __slots__ = ("_before", "_page", "_word", "address")

    def __init__(self, slot: int, address: int, *, sealed: bool) -> None:
        self.address = address
        self._word = ctypes.c_size_t.from_address(slot)
        self._page = slot & -mmap.PAGESIZE if sealed else None
        self._before: int | None = None

    @property
    def applied(self) -> bool:
        return self._before is not None

    def _write(self, value: int) -> None:
        if self._page is not None:
            _protect(self._page, _READ | _WRITE)
        self._word.value = value
        if self._page is not None:
            _protect(self._page, _READ)

    def apply(self) -> None:
        self._before = self._word.value
        self._write(self.address)

    def undo(self) -> None:
        if self._before is not None:
            self._write(self._before)
            self._before = None


def _protect(page: int, rights: int) -> None:
    if _libc.mprotect(page, mmap.PAGESIZE, rights):
        raise OSError(ctypes.get_errno(), "mprotect")
