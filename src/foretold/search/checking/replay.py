"""`foretold.replay`: run a tape again, and say so if it does not give what was recorded.

The file of a failing tape says how the run failed. If the run holds now, that is the good case (the
bug is fixed), or the replay shows nothing: the order of a set of strings depends on the hash seed
of the process, and another Python may be the one that fails. What can be found out is found out; a
run that holds is never handed over without a word.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from foretold.errors import DidNotReproduce, ForetoldError, ForetoldWarning
from foretold.search.checking.observe import Observation, observation_of
from foretold.search.checking.replayers import FreshReplayer
from foretold.search.failures.retry import (
    is_same,
    misfit_in_words,
    noted_in_words,
    recorded_elsewhere,
)
from foretold.search.workers.targets import importable_name
from foretold.search.workers.warming import run_warm
from foretold.tape import FailureNote, Tape, TapeFile, hash_seed_here, load
from foretold.world.run import Main, Run, bind_main, tape_given
from foretold.world.settings import Settings

if TYPE_CHECKING:
    from foretold.spec.machine.machine import Machine

T = TypeVar("T")


@overload
def replay(
    main: type[Machine], tape: Tape | str | os.PathLike[str], *, fixed: bool = False
) -> Run[None]: ...
@overload
def replay(
    main: Callable[..., Coroutine[Any, Any, T]],
    tape: Tape | str | os.PathLike[str],
    *,
    fixed: bool = False,
) -> Run[T]: ...
@overload
def replay(
    main: Callable[..., T], tape: Tape | str | os.PathLike[str], *, fixed: bool = False
) -> Run[T]: ...
def replay(main: Main, tape: Tape | str | os.PathLike[str], *, fixed: bool = False) -> Run:
    """Run `main` on a tape again, exactly, and raise what it raises. `tape` is a `Tape` or the path
    of a tape file.

    `main` is run twice, and the second run counts: the first run of a process fills caches. The
    file of a tape knows how the run failed. If it holds now, a `ForetoldWarning` says so; with
    `fixed=True` that is expected, as in a regression test. If it holds in a process with another
    hash seed, it is tried in a fresh process with the right one, and what fails there, or cannot be
    tried there, raises `DidNotReproduce`.
    """
    read = tape_given(tape, "foretold.replay(main, tape)")
    done = run_warm(bind_main(main), read, Settings.from_tape(read.settings))
    file = None if isinstance(tape, Tape) else load(tape)
    if file is None or file.failure is None:
        if done.error is not None:
            raise done.error
        return done
    name = os.fspath(tape) if not isinstance(tape, Tape) else ""
    if done.error is not None:
        if not is_same(file.failure, observation_of(done)):
            done.error.add_note(
                f"{name} fails differently now. Recorded was {noted_in_words(file.failure)}"
            )
        raise done.error
    _need_right_hash_seed(main, file, file.failure, name)
    if not fixed:
        warnings.warn(_holds_text(file, file.failure, done, name), ForetoldWarning, stacklevel=2)
    return done


def _need_right_hash_seed(main: Main, file: TapeFile, noted: FailureNote, name: str) -> None:
    """That a run holds says something only with the hash seed that the tape was made for."""
    wanted, here = file.hash_seed or 0, hash_seed_here()
    if wanted == here:
        return
    seen = _with_hash_seed(main, file.tape, wanted)
    if isinstance(seen, Observation) and not seen.failed:
        return
    told = f"could not be run there ({seen})" if isinstance(seen, str) else seen.how
    again = "" if isinstance(seen, str) else ", as recorded" * is_same(noted, seen)
    raise DidNotReproduce(
        f"{name} was not reproduced in this process.\n"
        f"  recorded: {noted_in_words(noted)}\n"
        f"  here, with {'a random hash seed' if here is None else f'hash seed {here}'}: held\n"
        f"  in a fresh process with hash seed {wanted}: {told}{again}\n"
        "The hash seed determines the order in which a set of strings is iterated. Start this "
        f"process with it: PYTHONHASHSEED={wanted} {_this_program()}\n"
        f"or let the command do it: foretold replay {name}"
    )


def _with_hash_seed(main: Main, tape: Tape, hash_seed: int) -> Observation | str:
    """What a fresh process sees, or why there is none."""
    target = importable_name(main)
    if target is None:
        return "main has no name by which it can be imported: define it at the top of a module"
    try:
        return FreshReplayer(target, str(hash_seed))(tape)
    except ForetoldError as error:
        return str(error)


def _this_program() -> str:
    program = Path(sys.argv[0] if sys.argv else "").name
    return f"python {program} …" if program.endswith(".py") else "python …"


def _holds_text(file: TapeFile, noted: FailureNote, done: Run, name: str) -> str:
    seen = [*recorded_elsewhere(file)]
    seen += ["recorded with a random hash seed"] if file.hash_seed is None else []
    if file.tape.settings.get("cold"):
        seen.append(
            "it was recorded as the first run of a process, and here others may come before"
        )
    if misfit := misfit_in_words(done):
        seen.append(f"the tape does not fit this run: {misfit}")
    seen += [f"the run was discarded: {done.discarded}"] if done.discarded else []
    but = f" ({'; '.join(seen)})" if seen else ""
    return (
        f"the run of {name} holds{but}. Recorded was {noted_in_words(noted)}. The bug is fixed, or "
        "this tape does not lead to it any more; a replay cannot tell which. Where it is known to "
        f"be fixed, write foretold.replay(main, {name!r}, fixed=True)"
    )
