"""Errors as the kernel gives them: a number and its text. Who was called adds the path."""

from __future__ import annotations

import os


def os_error(number: int) -> OSError:
    """The exception that Python makes of an error number, of the class that belongs to it."""
    return OSError(number, os.strerror(number))
