"""Builds preload.c, once per machine, with the C compiler that is there.

Without a compiler the server still works: its clock is then the real one. Whoever needs the virtual
clock is told why it is missing.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-shared", "-fPIC", "-O2", "-w")
_LIBRARIES = ("-ldl", "-lpthread")


class Missing(Exception):
    """The library cannot be built here; the message says why."""


def cache_directory() -> Path:
    """Where what is expensive to make is kept between processes."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base, "foretold")


def library() -> bytes:
    """The shared library, ready to be written where the server can read it."""
    source = resources.files(__package__).joinpath("preload.c").read_bytes()
    key = hashlib.sha256(source + "/".join(_FLAGS).encode()).hexdigest()[:16]
    name = f"preload-{platform.machine()}-{platform.libc_ver()[1]}-{key}.so"
    kept = cache_directory() / name
    try:
        return kept.read_bytes()
    except OSError:
        built = _build(source)
    keep(kept, built)
    return built


def _build(source: bytes) -> bytes:
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise Missing(f"there is no C compiler on PATH ({', '.join(_COMPILERS)})")
    with tempfile.TemporaryDirectory(prefix="foretold-") as folder:
        text, result = Path(folder, "preload.c"), Path(folder, "preload.so")
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
