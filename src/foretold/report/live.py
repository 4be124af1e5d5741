"""What runs against a running server gave, as text and as JSON."""

from __future__ import annotations

import json
import shlex

from foretold.report.text import exception_text
from foretold.report.vacuity import tally_lines
from foretold.search.checking.live import Smoke
from foretold.search.failures.failure import Outcome
from foretold.story.words import count


def smoke_text(smoke: Smoke, *, target: str) -> str:
    """What `foretold explore --url` prints at the end."""
    table = Outcome(smoke.runs, smoke.seed)
    table.tally = smoke.tally
    lines = tally_lines(table)
    if smoke.error is None:
        took = f"{count(smoke.runs, 'run')} against {smoke.url}, {smoke.elapsed_s:,.1f} s"
        lines = [f"{target} held in {took}. Seed {smoke.seed}.", *lines]
        if smoke.idle:
            lines.append(f"Never succeeded: {', '.join(smoke.idle)}.")
        return "\n".join(lines)
    again = f"foretold explore {shlex.quote(target)} --url {smoke.url} --seed {smoke.failed_seed}"
    return "\n".join(
        [
            exception_text(smoke.error),
            "",
            smoke.program,
            *lines,
            f"Found in run {smoke.runs} against {smoke.url}, in real time: nothing is recorded, "
            "and the server may have changed since.",
            f"The same requests once more:  {again} --runs 1",
        ]
    )


def smoke_json(smoke: Smoke, *, target: str, exit_code: int) -> str:
    """One JSON object."""
    error = smoke.error
    data = {
        "target": target,
        "url": smoke.url,
        "exit_code": exit_code,
        "runs": smoke.runs,
        "seed": smoke.seed,
        "elapsed_s": round(smoke.elapsed_s, 3),
        "failure": None
        if error is None
        else {
            "kind": type(error).__name__,
            "message": str(error),
            "program": smoke.program,
            "seed": smoke.failed_seed,
        },
        "never_succeeded": smoke.idle,
        "tally": smoke.tally.as_data(),
    }
    return json.dumps(data, indent=2)
