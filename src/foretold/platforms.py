"""Where foretold can simulate: on Linux, 64-bit CPython with the GIL, in versions it was tried on;
and in processes whose strings have the right hashes.

`import foretold` works everywhere, because applications keep `foretold.always(...)` in production
code. Only the engine is particular, and asks here before it loads.

The hashes of strings are fixed when an interpreter starts, by a variable in its environment. The
program under test must not see what foretold set there, nor must the processes that it starts. So a
process that was started with a hash seed also gets what the variable was before, and puts that back
as soon as it runs. `_foretold_pytest`, which imports nothing of foretold, does the same.

A process of foretold's own is often a short one: a command, or the replay of one tape. It also
starts and ends without collections of garbage, which took a fifth of its time.
"""

from __future__ import annotations

import contextlib
import gc
import os
import struct
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from typing import Any, Final

from foretold.errors import ForetoldError

HASH_SEED: Final = "PYTHONHASHSEED"
HASH_SEED_WAS: Final = "FORETOLD_HASHSEED_WAS"
"""What the variable was before foretold set it; empty if it was not set."""
TESTED: Final = ((3, 11), (3, 12), (3, 13), (3, 14))


def refusal(
    implementation: str = sys.implementation.name,
    version: tuple[int, ...] = sys.version_info[:3],
    free_threaded: bool | None = None,
    debug_heap: bool = hasattr(sys, "getobjects"),
    pointer_bytes: int = struct.calcsize("P"),
    system: str = sys.platform,
) -> str | None:
    """Why foretold cannot simulate on such a Python, or None if it can."""
    tested = ", ".join(f"{major}.{minor}" for major, minor in TESTED)
    if implementation != "cpython":
        found = f"this is {implementation}"
    elif sysconfig.get_config_var("Py_GIL_DISABLED") if free_threaded is None else free_threaded:
        found = "this is a free-threaded build"
    elif debug_heap:
        found = "this is a build with Py_TRACE_REFS"
    elif tuple(version[:2]) not in TESTED:
        found = f"this is {'.'.join(map(str, version))}"
    elif system != "linux":
        found = f"this is {system}"
    elif pointer_bytes != 8:
        found = f"this is a {8 * pointer_bytes}-bit build"
    else:
        return None
    return (
        f"foretold replaces the clock inside CPython's own structures, which was tried on 64-bit"
        f" CPython {tested} with the GIL, on Linux; {found}. Run it with one of those."
    )


def refuse_elsewhere() -> None:
    """Raise on a Python on which builtins cannot be replaced, in one sentence."""
    reason = refusal()
    if reason is not None:
        raise ForetoldError(reason)


def environment_with(hash_seed: str) -> dict[str, str]:
    """The environment for a process that is to have this hash seed, and to show nothing of it."""
    was = os.environ.get(HASH_SEED_WAS, os.environ.get(HASH_SEED, ""))
    return {**os.environ, HASH_SEED: hash_seed, HASH_SEED_WAS: was}


def environment_of_child(hash_seed: str) -> dict[str, str]:
    """The same for a process that has to find foretold itself, even if it is not installed."""
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.pathsep.join(filter(None, (ours, os.environ.get("PYTHONPATH"))))
    return {**environment_with(hash_seed), "PYTHONPATH": path}


def restore_environment() -> None:
    """In such a process: the environment is as it was before."""
    was = os.environ.pop(HASH_SEED_WAS, None)
    if was:
        os.environ[HASH_SEED] = was
    elif was is not None:
        os.environ.pop(HASH_SEED, None)


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Around imports of ours: what they make stays, so looking for garbage in it is in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def fork() -> int:
    """As `os.fork`. Threads of this process are not in the child, which touches nothing of them."""
    with unwarned(DeprecationWarning, __name__):
        return os.fork()


@contextlib.contextmanager
def unwarned(category: type[Warning], module: str | None = None) -> Iterator[None]:
    """Inside, nobody is warned of this by `module`, or by any. The filters are changed only if
    that is needed: Python then shows once more what the program has warned of before."""
    if _is_ignored(category, module):
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category)
        yield


def _is_ignored(category: type[Warning], module: str | None) -> bool:
    """It is so by default, except in the main module."""
    for action, message, kind, where, line in warnings.filters:
        if issubclass(category, kind) and (module is None or _is_in(module, where)):
            return (action, message, where, line) == ("ignore", None, None, 0)
    return False


def _is_in(module: str, where: Any) -> bool:
    """`where`: any module, or a pattern; those that Python begins with are plain names."""
    if where is None or isinstance(where, str):
        return where in (None, module)
    return where.match(module) is not None
