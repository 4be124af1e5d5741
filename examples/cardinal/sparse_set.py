"""A map from entity ids to small numbers, as an array: one look, no hashing."""

from collections.abc import Iterable, Iterator

TOMBSTONE = -1
INITIAL = 128


class SparseSet:
    """Absent keys hold a tombstone. The array doubles until the largest key has a place."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values = [TOMBSTONE] * INITIAL

    def get(self, key: int) -> int | None:
        if not 0 <= key < len(self._values):
            return None
        value = self._values[key]
        return None if value == TOMBSTONE else value

    def many(self, keys: Iterable[int]) -> list[int]:
        """For each key its value, or the tombstone."""
        values, size = self._values, len(self._values)
        return [values[key] if 0 <= key < size else TOMBSTONE for key in keys]

    def set(self, key: int, value: int) -> None:
        assert key >= 0, f"a key is not negative; got {key}"
        assert value >= 0, f"a value is not negative; got {value}"
        while key >= len(self._values):
            self._values.extend([TOMBSTONE] * len(self._values))
        self._values[key] = value

    def remove(self, key: int) -> bool:
        """Whether it was there."""
        if self.get(key) is None:
            return False
        self._values[key] = TOMBSTONE
        return True

    def clear(self) -> None:
        self._values = [TOMBSTONE] * INITIAL

    def items(self) -> Iterator[tuple[int, int]]:
        return ((key, value) for key, value in enumerate(self._values) if value != TOMBSTONE)

    def __len__(self) -> int:
        return len(self._values) - self._values.count(TOMBSTONE)
