"""Queues of bytes: what was sent or has arrived, in the pieces in which it came."""

from __future__ import annotations

from collections import deque


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
