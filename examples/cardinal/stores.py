"""Where snapshots are kept: in memory, in files, behind HTTP.

A store keeps bytes under ascending numbers. `save` is whole or not at all as far as the place can
promise that; a world checks what it loads, and goes back to an older snapshot if it has to.
"""

import os
from contextlib import suppress
from typing import Any, Protocol

import httpx


class SnapshotStore(Protocol):
    """What a world asks of a store."""

    async def save(self, number: int, data: bytes) -> None: ...

    async def numbers(self) -> list[int]:
        """Those that are there, ascending."""

    async def load(self, number: int) -> Any:
        """The bytes. The buffer is the store's own: whoever keeps a part of it copies that."""

    async def delete(self, number: int) -> None: ...


class MemoryStore:
    """For tests, and for worlds that may forget."""

    def __init__(self) -> None:
        self.kept: dict[int, bytearray] = {}

    async def save(self, number: int, data: bytes) -> None:
        self.kept[number] = bytearray(data)

    async def numbers(self) -> list[int]:
        return sorted(self.kept)

    async def load(self, number: int) -> Any:
        return self.kept[number]

    async def delete(self, number: int) -> None:
        self.kept.pop(number, None)


class FileStore:
    """A file for each snapshot: written beside, synced, renamed, and the directory synced."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        os.makedirs(folder, exist_ok=True)

    def _path(self, number: int) -> str:
        return os.path.join(self._folder, f"{number:012}.snapshot")

    async def save(self, number: int, data: bytes) -> None:
        path = self._path(number)
        with open(path + ".new", "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)
        directory = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    async def numbers(self) -> list[int]:
        names = [name for name in os.listdir(self._folder) if name.endswith(".snapshot")]
        return sorted(int(name.split(".")[0]) for name in names)

    async def load(self, number: int) -> Any:
        with open(self._path(number), "rb") as file:
            return file.read()

    async def delete(self, number: int) -> None:
        with suppress(FileNotFoundError):  # a crash may have come before it was renamed
            os.remove(self._path(number))


class HttpStore:
    """Objects behind HTTP, as S3 has them: PUT, GET, DELETE, and a list under the prefix."""

    def __init__(self, url: str, client: httpx.AsyncClient | None = None) -> None:
        self._url = url.rstrip("/")
        self._client = client or httpx.AsyncClient(timeout=2)

    async def save(self, number: int, data: bytes) -> None:
        answer = await self._client.put(f"{self._url}/{number}", content=data)
        answer.raise_for_status()

    async def numbers(self) -> list[int]:
        answer = await self._client.get(self._url)
        answer.raise_for_status()
        return sorted(int(name) for name in answer.json())

    async def load(self, number: int) -> Any:
        answer = await self._client.get(f"{self._url}/{number}")
        answer.raise_for_status()
        return answer.content

    async def delete(self, number: int) -> None:
        answer = await self._client.delete(f"{self._url}/{number}")
        if answer.status_code != 404:
            answer.raise_for_status()

    async def close(self) -> None:
        await self._client.aclose()
