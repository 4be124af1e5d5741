"""L0: the tape. Choices, streams, origins, the file format; and later the shrink passes.

Nothing in here knows what a choice is for.
"""

from foretold.tape.about import (
    DecidedNote,
    FailureNote,
    StockNote,
    TapeFile,
    environment_differences,
    hash_seed_here,
)
from foretold.tape.file import dumps, load, loads, save
from foretold.tape.schedule import CALLBACKS, ENDED, Hold, Schedule, Slow
from foretold.tape.streams import Choice, Stream
from foretold.tape.tape import WORKLOAD, Setting, Tape, enumerate_tapes

__all__ = [
    "CALLBACKS",
    "ENDED",
    "WORKLOAD",
    "Choice",
    "DecidedNote",
    "FailureNote",
    "Hold",
    "Schedule",
    "Setting",
    "Slow",
    "StockNote",
    "Stream",
    "Tape",
    "TapeFile",
    "dumps",
    "enumerate_tapes",
    "environment_differences",
    "hash_seed_here",
    "load",
    "loads",
    "save",
]
