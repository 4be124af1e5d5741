"""Queues of bytes: what was sent or has arrived, in the pieces in which it came."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any


def take(chunks: deque[bytes | memoryview], size: int) -> bytes:
    """The first bytes of a queue that is not empty, at most `size`. What is left of a chunk stays
    as a view: copying it each time would make small reads of much data slow."""
    first = chunks.popleft()
    left = size - len(first)
    if left < 0:
        view = memoryview(first)
        chunks.appendleft(view[size:])
        return bytes(view[:size])
    if not left or not chunks:
        return bytes(first)
    parts = [first]
    while left and chunks:
        chunk = chunks.popleft()
        if len(chunk) > left:
            view = memoryview(chunk)
            chunks.appendleft(view[left:])
            chunk = view[:left]
        parts.append(chunk)
        left -= len(chunk)
    return b"".join(parts)


# An error keeps the frames it went through. A view in one of them would forbid its catcher to
# change the buffer (asyncio clears its own then), so no view outlives the line that needs it, as
# none of a C function does.


def first_bytes(buffers: Iterable[Any], size: int) -> bytes:
    """The first bytes of several buffers, at most `size`. The rest is not touched: asyncio offers
    all that is left of a large write, again and again."""
    parts: list[memoryview] = []
    for buffer in buffers:
        view = memoryview(buffer).cast("B")[:size]
        parts.append(view)
        size -= len(view)
        if not size:
            break
    return b"".join(parts)


def spread(data: bytes, buffers: Iterable[Any]) -> None:
    """Fill several buffers, one after the other."""
    left = memoryview(data)
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        part, left = left[: len(view)], left[len(view) :]
        view[: len(part)] = part


def size_to_fill(buffer: Any, nbytes: int = 0) -> int:
    """How much `recv_into` may receive; it complains as the real one does."""
    size = memoryview(buffer).nbytes
    if nbytes < 0:
        raise ValueError("negative buffersize in recv_into")
    if nbytes > size:
        raise ValueError("buffer too small for requested bytes")
    return nbytes or size
