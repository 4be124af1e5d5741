"""L0: the tape. Choices, streams, origins, the file format; and later the shrink passes.

Nothing in here knows what a choice is for.
"""

from foretold.tape.file import (
    FailureNote,
    TapeFile,
    dumps,
    environment_differences,
    load,
    loads,
    save,
)
from foretold.tape.schedule import CALLBACKS, ENDED, Hold, Schedule, Slow
from foretold.tape.streams import Choice, Stream
from foretold.tape.tape import WORKLOAD, Setting, Tape, enumerate_tapes

__all__ = [
    "CALLBACKS",
    "ENDED",
    "WORKLOAD",
    "Choice",
    "FailureNote",
    "Hold",
    "Schedule",
    "Setting",
    "Slow",
    "Stream",
    "Tape",
    "TapeFile",
    "dumps",
    "enumerate_tapes",
    "environment_differences",
    "load",
    "loads",
    "save",
]
