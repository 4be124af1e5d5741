"""What one run looked like from outside, small enough to be sent between processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from foretold.errors import ForetoldError
from foretold.search.signature import Signature, signature_of, text_of
from foretold.tape import Tape
from foretold.world.run import execute
from foretold.world.settings import Settings


@dataclass(frozen=True, slots=True)
class Observation:
    """Digest and verdict of a run."""

    digest: str
    kind: str = ""
    """The exception's qualified name, or empty if the run held."""
    place: str = ""
    message: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.kind)

    @property
    def signature(self) -> Signature:
        return Signature(self.kind, self.place)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Observation:
        """Read strictly: what comes from another process is data, nothing else."""
        try:
            data = json.loads(text)
            fields = {name: data[name] for name in ("digest", "kind", "place", "message")}
        except (ValueError, KeyError, TypeError) as error:
            raise ForetoldError(f"a child process sent no readable observation: {error}") from None
        return cls(**{name: str(value) for name, value in fields.items()})


def observe(
    main: Callable[[Any], Any],
    tape: Tape,
    *,
    sink: Callable[[str], object] | None = None,
) -> Observation:
    """Run `main` on `tape` and say what was seen. `sink` gets every entry of the trace."""
    done = execute(main, tape, Settings.from_tape(tape.settings), sink=sink)
    if done.error is None:
        return Observation(done.digest)
    found = signature_of(done.error)
    return Observation(done.digest, found.kind, found.place, text_of(done.error))
