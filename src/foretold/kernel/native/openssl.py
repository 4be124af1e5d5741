"""The OpenSSL that is linked into `cryptography`: its random numbers come from the tape as well.

OpenSSL keeps a generator for the whole process. It is seeded once, and addresses are part of the
seed; so it is not enough that random bytes come from the tape. Python's own OpenSSL is given
another source by `RAND_set_rand_method` (tls_patches.py). The copy inside of `cryptography` does
not show that function, but the variable that it sets can be found in memory
(`foretold_random_variable` in hooks.c).

Where it is not found, keys and signatures of `cryptography` work, and may differ between processes.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, Final

from foretold.kernel.native import extensions
from foretold.kernel.tls_patches import METHOD

MODULE: Final = "cryptography.hazmat.bindings._rust"


class LinkedRandom:
    """The source of random numbers of an OpenSSL, ours by `apply`, its own again by `undo`."""

    def __init__(self, variable: int) -> None:
        self._word = ctypes.c_size_t.from_address(variable)
        self._before: int | None = None

    def apply(self) -> None:
        self._before, self._word.value = self._word.value, ctypes.addressof(METHOD)

    def undo(self) -> None:
        if self._before is not None:
            self._word.value, self._before = self._before, None


def is_imported() -> bool:
    """Whether there is something to change."""
    return hasattr(getattr(sys.modules.get(MODULE), "_openssl", None), "lib")


@functools.cache
def changes() -> tuple[LinkedRandom, ...]:
    """For the module, which is imported. It is looked at once in the life of the process."""
    binding: Any = vars(sys.modules[MODULE])["_openssl"]
    if not hasattr(binding.lib, "RAND_status"):
        return ()
    binding.lib.RAND_status()  # before its first use the variable is empty
    function = binding.ffi.addressof(binding.lib, "RAND_status")
    variable = extensions.random_variable(int(binding.ffi.cast("uintptr_t", function)))
    return () if variable is None else (LinkedRandom(variable),)
