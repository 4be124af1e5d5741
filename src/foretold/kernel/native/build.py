"""Builds the C sources of the package, once per machine, with the C compiler that is there.

What is built lies in the user's cache, under a name that says of which source, for which processor
and for which C library. Without a compiler there is `Missing`, which says why.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-shared", "-fPIC", "-O2", "-w")
_LIBRARIES = ("-ldl", "-lpthread", "-lrt")


class Missing(Exception):
    """The library cannot be built here; the message says why."""


def cache_directory() -> Path:
    """Where what is expensive to make is kept between processes."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base, "foretold")


def kept_path(name: str, source: bytes) -> Path:
    """Where the library that is built of a source is kept."""
    key = hashlib.sha256(source + "/".join(_FLAGS).encode()).hexdigest()[:16]
    return cache_directory() / f"{name}-{platform.machine()}-{platform.libc_ver()[1]}-{key}.so"


def library(name: str, source: bytes) -> bytes:
    """A shared library, built of this source now or earlier."""
    kept = kept_path(name, source)
    try:
        return kept.read_bytes()
    except OSError:
        built = _build(name, source)
    keep(kept, built)
    return built


def _build(name: str, source: bytes) -> bytes:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise Missing(f"there is no C compiler on PATH ({', '.join(COMPILERS)})")
    with tempfile.TemporaryDirectory(prefix="foretold-") as folder:
        text, result = Path(folder, f"{name}.c"), Path(folder, f"{name}.so")
        text.write_bytes(source)
        command = [compiler, *_FLAGS, "-o", str(result), str(text), *_LIBRARIES]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing(f"{compiler} could not build it: {done.stderr.strip()[-500:]}")
        return result.read_bytes()


def keep(path: Path, content: bytes) -> None:
    """Write a file of the cache. Whoever reads meanwhile sees all of it or none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(content)
        os.replace(file.name, path)
    except OSError:
        pass  # a home that cannot be written to: the next process builds it again
