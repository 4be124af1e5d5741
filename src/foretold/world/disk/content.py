"""The bytes of one file: what programs see, and what of it is not yet on the platter.

Programs see the page cache: `pages`, sparse, zeros where nothing was written. The platter is known
by what differs from that: for each sector written since the last sync its former versions, the
oldest of which is the durable one. A sync forgets them; a crash chooses among them.
"""

from __future__ import annotations

from typing import Final

SECTOR: Final = 512
"""What a disk writes whole or not at all."""
PAGE: Final = 4_096
VERSIONS_MAX: Final = 4
"""How many former versions of a sector are kept: the durable one and the latest."""
_ZEROS: Final = bytes(PAGE)

Version = bytes | None
"""What a sector held; None where the file had a hole."""


class Space:
    """How much room a disk has, in pages. None: no end of it."""

    __slots__ = ("limit", "used")

    def __init__(self) -> None:
        self.limit: int | None = None
        self.used = 0

    def take(self) -> bool:
        """One more page, if there is one."""
        if self.limit is not None and self.used >= self.limit:
            return False
        self.used += 1
        return True


class Content:
    """One file's bytes."""

    __slots__ = ("dirty", "pages", "size", "sizes", "space", "stale", "stale_size")

    def __init__(self, space: Space) -> None:
        self.space = space
        self.size = 0
        self.pages: dict[int, bytearray] = {}
        self.dirty: dict[int, list[Version]] = {}
        """Sectors written since the last sync, with their former versions, oldest first."""
        self.sizes: list[int] = []
        """Sizes that the file has had since the last sync, the durable one first."""
        self.stale: dict[int, Version] = {}
        """Sectors that a failed sync gave up: clean in the cache, old on the platter."""
        self.stale_size: int | None = None

    @property
    def unsynced(self) -> bool:
        """Whether a crash could take something."""
        return bool(self.dirty or self.sizes or self.stale or self.stale_size is not None)

    def read(self, offset: int, n: int) -> bytes:
        """At most `n` bytes from `offset` on."""
        end = min(offset + n, self.size)
        if end <= offset:
            return b""
        first, last = offset // PAGE, (end - 1) // PAGE
        pages = self.pages
        if first == last:
            page, low = pages.get(first, _ZEROS), offset - first * PAGE
            return bytes(page[low : low + end - offset])
        low = offset - first * PAGE
        whole = b"".join([pages.get(number, _ZEROS) for number in range(first, last + 1)])
        return whole[low : low + end - offset]

    def write(self, offset: int, data: bytes | memoryview) -> int:
        """Write what there is room for; how many bytes that were."""
        if not len(data):
            return 0
        end = self._make_room(offset, offset + len(data))
        if end <= offset:
            return 0
        self._remember(offset // SECTOR, (end - 1) // SECTOR)
        at = offset
        while at < end:
            number, low = divmod(at, PAGE)
            n = min(PAGE - low, end - at)
            self.pages[number][low : low + n] = data[at - offset : at - offset + n]
            at += n
        if end > self.size:
            self._set_size(end)
        return end - offset

    def truncate(self, size: int) -> None:
        """Cut the file, or let it grow by a hole."""
        if size < self.size:
            for number in sorted(n for n in self.pages if n >= size // PAGE):
                first = max(size, number * PAGE)
                self._remember(first // SECTOR, ((number + 1) * PAGE - 1) // SECTOR)
            self._cut_pages(size)
        if size != self.size:
            self._set_size(size)

    def commit(self) -> None:
        """All of it reaches the platter. Sectors that an earlier sync gave up do not: the kernel
        believes that they are there."""
        self.dirty.clear()
        self.sizes.clear()
        self.stale_size = None

    def give_up(self) -> None:
        """A sync has failed: as Linux does, the pages count as clean and are not tried again."""
        for sector, versions in self.dirty.items():
            self.stale.setdefault(sector, versions[0])
        self.dirty.clear()
        if self.sizes:
            if self.stale_size is None:
                self.stale_size = self.sizes[0]
            self.sizes.clear()

    def sector(self, number: int) -> Version:
        """What a sector holds now."""
        page = self.pages.get(number * SECTOR // PAGE)
        if page is None:
            return None
        low = number * SECTOR % PAGE
        return bytes(page[low : low + SECTOR])

    def put_sector(self, number: int, version: Version) -> None:
        """Change a sector behind everybody's back."""
        at = number * SECTOR
        page = self.pages.get(at // PAGE)
        if page is None:
            if version is None:
                return
            page = self.pages[at // PAGE] = bytearray(PAGE)
            self.space.used += 1
        low = at % PAGE
        page[low : low + SECTOR] = version or bytes(SECTOR)

    def put_size(self, size: int) -> None:
        """Change the size behind everybody's back."""
        self._cut_pages(size)
        self.size = size

    def free(self) -> None:
        """The file is gone: its room is free again. Its bytes are kept, since a crash may undo
        what took its last name away."""
        self.space.used -= len(self.pages)

    def allocate(self, offset: int, n: int) -> bool:
        """Give the range room of its own; False if there is not enough."""
        end = offset + n
        if self._make_room(offset, end) < end:
            return False
        if end > self.size:
            self._set_size(end)
        return True

    def next_data(self, offset: int, *, hole: bool) -> int | None:
        """Where data, or a hole, is found from `offset` on (SEEK_DATA, SEEK_HOLE)."""
        if offset >= self.size:
            return None
        number = offset // PAGE
        while number * PAGE < self.size:
            if (number not in self.pages) is hole:
                return max(offset, number * PAGE)
            number += 1
        return self.size if hole else None

    def _make_room(self, offset: int, end: int) -> int:
        for number in range(offset // PAGE, (end - 1) // PAGE + 1):
            if number not in self.pages:
                if not self.space.take():
                    return min(end, number * PAGE)
                self.pages[number] = bytearray(PAGE)
        return end

    def _remember(self, first: int, last: int) -> None:
        durable_size = self.sizes[0] if self.sizes else self.size
        for number in range(first, last + 1):
            versions = self.dirty.get(number)
            if versions is None:
                if number in self.stale:
                    self.dirty[number] = [self.stale.pop(number), self.sector(number)]
                else:  # what lies beyond the durable end was never written
                    beyond = number * SECTOR >= durable_size
                    self.dirty[number] = [None if beyond else self.sector(number)]
            elif (now := self.sector(number)) != versions[-1]:
                if len(versions) < VERSIONS_MAX:
                    versions.append(now)
                else:
                    versions[-1] = now

    def _set_size(self, size: int) -> None:
        if not self.sizes and self.stale_size is not None:
            self.sizes.append(self.stale_size)
        if len(self.sizes) < VERSIONS_MAX:
            self.sizes.append(self.size)
        else:
            self.sizes[-1] = self.size
        self.size = size

    def _cut_pages(self, size: int) -> None:
        """No bytes behind the end: they would come back when the file grows again."""
        keep = -(-size // PAGE)
        for number in [n for n in self.pages if n >= keep]:
            del self.pages[number]
            self.space.used -= 1
        low = size % PAGE
        if low and keep - 1 in self.pages:
            self.pages[keep - 1][low:] = bytes(PAGE - low)
