"""A process of its own beside a worker of a cluster, which makes the runs for it.

A worker of a cluster has threads and an event loop of its own; a run replaces builtins and
asyncio's tables for its whole process. So the two are kept apart: the worker starts an interpreter,
once, with hash seed 0, and passes batches on. The helper ends when its worker does: nobody writes
any more.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any, BinaryIO

from foretold.errors import WorkerDied
from foretold.kernel.session import session
from foretold.platforms import environment_of_child, restore_environment
from foretold.search.workers.batch import Errand, Recipe, work
from foretold.search.workers.brief import Brief

_SIZE = struct.Struct("!Q")
_PROGRAM = "from foretold.search.workers.helper import serve; serve()"

_helper: subprocess.Popen[bytes] | None = None
_one_at_a_time = threading.Lock()


def work_by_helper(
    recipe: Recipe, errands: Sequence[Errand]
) -> tuple[float, list[Brief]] | BaseException:
    """In a worker of a cluster: have these runs made by its helper."""
    global _helper
    with _one_at_a_time:
        if _helper is None or _helper.poll() is not None:
            _helper = _start()
        assert _helper.stdin is not None
        assert _helper.stdout is not None
        try:
            _send(_helper.stdin, (recipe, errands))
            answer: tuple[float, list[Brief]] | BaseException = _receive(_helper.stdout)
        except (OSError, EOFError):
            code, _helper = _helper.wait(), None
            raise WorkerDied(f"its helper ended with {code}") from None
    return answer


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment_of_child("0"),
    )


def serve() -> None:
    """What a helper does until its worker is gone."""
    restore_environment()
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # what the program prints must not get into the answers
        os.dup2(nowhere, descriptor)
    with session():
        while True:
            try:
                recipe, errands = _receive(asked)
            except EOFError:
                return
            _send(answers, work(recipe, errands))


def _send(pipe: BinaryIO | Any, message: object) -> None:
    data = pickle.dumps(message)
    pipe.write(_SIZE.pack(len(data)) + data)
    pipe.flush()


def _receive(pipe: BinaryIO | Any) -> Any:
    head = pipe.read(_SIZE.size)
    if len(head) < _SIZE.size:
        raise EOFError
    data = pipe.read(_SIZE.unpack(head)[0])
    return pickle.loads(data)
