"""Keeps Hypothesis off the disk, and tells it that a draw outside of every test notes nothing.

`hypothesis_adapter.py` loads this before its first draw.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from hypothesis.control import _current_build_context, should_note
from hypothesis.internal import charmap
from hypothesis.internal.intervalsets import IntervalSet
from hypothesis.strategies._internal import functions as st_functions
from hypothesis.strategies._internal import random as st_random

ENCODABLE = {
    "ascii": [(0, 127)],
    "iso8859-1": [(0, 255)],
    "utf-8": [(0, 0xD7FF), (0xE000, sys.maxunicode)],
}
"""What Hypothesis finds out in half a second each by trying every character, and then stores."""

_tried_out = charmap.intervals_from_codec


def _intervals_from_codec(codec_name: str) -> tuple[IntervalSet, IntervalSet]:
    known = ENCODABLE.get(codec_name)
    return (IntervalSet(known), IntervalSet()) if known else _tried_out(codec_name)


def _no_file(*args: object, **kwargs: object) -> NoReturn:
    raise OSError("Unicode tables are kept in memory")


def _no_storage(*names: str, **kwargs: object) -> Any:
    return SimpleNamespace(path=Path(*names), create_if_missing=_no_file)


def _should_note() -> bool:
    """A drawn function or Random may be used outside of every context: nothing to note there."""
    return _current_build_context.value is not None and should_note()


def stand_in() -> None:
    """Put the functions above where Hypothesis looks them up.

    Inside a run every access to the disk is an escape, and a strategy may be defined there, not
    only drawn. For Hypothesis tests in the same process it means that Unicode tables are computed
    (a tenth of a second) instead of read from `.hypothesis`.
    """
    vars(charmap).update(
        gzip=SimpleNamespace(GzipFile=_no_file),
        storage_directory=_no_storage,
        intervals_from_codec=_intervals_from_codec,
    )
    vars(st_functions).update(should_note=_should_note)
    vars(st_random).update(should_note=_should_note)
