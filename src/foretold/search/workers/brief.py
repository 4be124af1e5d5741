"""What a search keeps of a run: a `Brief`, which crosses the border between processes.

Four types have to do with the result of a run, and each is there for a reason:

- `Run` (`world/run.py`) is the run itself, with its trace and its value. A user holds it. It stays
  in the process that made it.
- `Brief` is all that a search needs. It is small, and can be sent from any worker: what may hold
  anything, the exception, stays behind (`ready_to_send`).
- `Failure` and `Outcome` (`failures/failure.py`) are what a search gives to its user.
- `Observation` (`checking/observe.py`) is what a fresh interpreter says of a replay. It travels as
  JSON, is read strictly, and is compared field by field.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from foretold.errors import Hang, LimitExceeded, TimeUp, UsageError, WorkerDied
from foretold.kernel.audit import Audit
from foretold.kernel.conflicts import Conflicts, conflicts_of
from foretold.kernel.reach import Feature
from foretold.kernel.schedulers.profile import Profile
from foretold.story.signature import Signature, signature_of, text_of
from foretold.tape import Tape
from foretold.trace.record import Trace
from foretold.world.run import Run
from foretold.world.tally import Tally


@dataclass(slots=True)
class Brief:
    signature: Signature | None = None
    """None if the run held."""
    digest: str = ""
    choices: int = 1
    virtual_s: float = 0.0
    reached: dict[str, int] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    path: str = ""
    """A digest without times (`Run.path`)."""
    discarded: str = ""
    broken_holds: int = 0
    recorded: Tape | None = None
    profile: Profile | None = None
    """What the search learns from, if it asked."""
    error: BaseException | None = None
    """The exception itself, if the run took place in this process."""
    in_real_time: bool = False
    """It failed by a limit of real time."""
    features: Collection[Feature] = ()
    """What it reached, if that was asked for. A worker leaves out what it has said several times
    before."""
    conflicts: Conflicts | None = None
    """What its statements show about their order, if that was asked for."""
    message: str = ""
    """What the exception said: its first line; all of it, if nobody makes the run again to see."""
    configuration: dict[str, str] = field(default_factory=dict)
    """What the run drew once for all of it, in words."""
    tally: Tally | None = None
    """What it counted; None if that is nothing."""
    first: Brief | None = None
    """The uncounted run of the same tape before it, if there was one that gave something else."""
    audit: Audit | None = None
    """When its steps were made, and what else there was, if that was asked for."""

    @property
    def how(self) -> str:
        """In words: it held, or how it failed."""
        if self.signature is None:
            return "held"
        lines = self.message.splitlines()
        said = f": {lines[0]}" if lines else ""
        return f"failed with {self.signature.kind.rpartition('.')[2]}{said}"

    def ready_to_send(self) -> Brief:
        """For another process: an exception may hold anything, and need not survive the way."""
        self.error = None
        if self.first is not None:
            self.first.error = None
        return self


def brief_of(done: Run) -> Brief:
    """A run, briefly."""
    error = done.error
    return Brief(
        signature=None if error is None else signature_of(error),
        digest=done.digest,
        choices=done.choices,
        virtual_s=done.virtual_s,
        reached=done.reached,
        missed=done.missed,
        notes=done.notes,
        path=done.path,
        discarded=done.discarded,
        broken_holds=done.broken_holds,
        recorded=done.tape.recorded() if done.tape.recording else None,
        profile=done.profile,
        error=error,
        in_real_time=isinstance(error, LimitExceeded) and error.in_real_time,
        features=done.features,
        conflicts=_conflicts(done.trace),
        message="" if error is None else _message(error),
        configuration=done.tape.configuration,
        tally=done.tally or None,
        audit=done.tape.audit,
    )


def died(how: str) -> Brief:
    """What is known of a run that ends its process: that, and no more."""
    found = WorkerDied(f"the run ends the process it is made in: {how}")
    signature = Signature(f"{WorkerDied.__module__}.{WorkerDied.__qualname__}", "")
    return Brief(signature, error=found, message=str(found))


def _conflicts(trace: Trace) -> Conflicts | None:
    """What the run shows, if it was looked at and touched a database."""
    return conflicts_of(trace.accesses, apart=not trace.in_turn) if trace.accesses else None


def _message(error: BaseException) -> str:
    """All of a mistake in a call, and of a run that stood still or was broken off: nobody makes it
    again to see."""
    return text_of(error) if isinstance(error, UsageError | Hang | TimeUp) else first_line(error)


def first_line(error: BaseException) -> str:
    """What an exception says, as far as it fits on a line."""
    return next(filter(None, map(str.strip, text_of(error).splitlines())), "")
