"""Exceptions on their way from a process that makes runs to the one that searches.

What the program under test raises is part of a run's result and travels as such. Any other
exception in such a process is a mistake of foretold, or a call that cannot work as written: it is
raised as itself in the process that searches. It must never look like a failure of the program.
"""

from __future__ import annotations

import pickle
import traceback

from foretold.errors import ForetoldError
from foretold.story.signature import text_of


def portable(error: BaseException) -> BaseException:
    """The exception itself if it can be pickled, else one that says the same.

    A traceback stays behind, so one of foretold's own mistakes carries it as a note.
    """
    if not isinstance(error, ForetoldError):
        told = "".join(traceback.format_exception(error))
        error.add_note(f"foretold: raised in another process:\n{told}")
    try:
        pickle.loads(pickle.dumps(error))  # some can be written and not read
    except Exception:
        plain = RuntimeError(f"{type(error).__name__}: {text_of(error)}")
        for note in getattr(error, "__notes__", ()):
            plain.add_note(note)
        return plain
    return error
