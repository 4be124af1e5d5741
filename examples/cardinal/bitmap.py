"""A set of small numbers as bits: which components an archetype has."""

from collections.abc import Iterable, Iterator
from typing import Any

from examples.cardinal.bugs import planted

WORD = 8
"""Bytes. Snapshots hold whole words."""


class Bitmap:
    """Grows as needed. Two bitmaps are equal if they hold the same numbers, whatever their size."""

    __slots__ = ("_bytes",)

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._bytes: Any = bytearray()
        for number in numbers:
            self.add(number)

    def add(self, number: int) -> None:
        place, bit = divmod(number, 8)
        if place >= len(self._bytes):
            self._bytes.extend(bytes(place + 1 - len(self._bytes)))
        self._bytes[place] |= 1 << bit

    def discard(self, number: int) -> None:
        if number in self:
            self._bytes[number // 8] &= ~(1 << number % 8) & 0xFF

    def clear(self) -> None:
        """Empty it in place: its memory is used again."""
        for place in range(len(self._bytes)):
            self._bytes[place] = 0

    def copy(self) -> "Bitmap":
        made = Bitmap()
        made._bytes = bytearray(self._bytes)
        return made

    def __contains__(self, number: int) -> bool:
        place, bit = divmod(number, 8)
        return place < len(self._bytes) and bool(self._bytes[place] >> bit & 1)

    def __iter__(self) -> Iterator[int]:
        """The numbers, ascending."""
        for place, byte in enumerate(self._bytes):
            for bit in range(8):
                if byte >> bit & 1:
                    yield place * 8 + bit

    def __len__(self) -> int:
        return self.as_int().bit_count()

    def as_int(self) -> int:
        """The same set as one integer: equal sets give equal integers."""
        return int.from_bytes(self._bytes, "little")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bitmap) and self.as_int() == other.as_int()

    def __hash__(self) -> int:
        return hash(self.as_int())

    def __repr__(self) -> str:
        return f"Bitmap({list(self)})"

    # --- in snapshots ----------------------------------------------------------------------------

    def to_words(self) -> bytes:
        """A copy in whole words."""
        padding = 0 if planted("bitmap_words") else -len(self._bytes) % WORD
        return bytes(self._bytes) + bytes(padding)

    @classmethod
    def from_words(cls, data: Any) -> "Bitmap":
        """What `to_words` gave. The buffer belongs to the caller, so the bitmap copies it."""
        whole = len(data) // WORD * WORD
        made = cls()
        aliased = planted("bitmap_aliasing")
        made._bytes = data[:whole] if aliased else bytearray(data[:whole])
        return made
