"""What `--plant` prints: each mutant, whether it was caught, and the score of the tests."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict

from foretold.report.text import wrapped
from foretold.search.checking.plant import Planting
from foretold.story.words import count

NAME_CHARS_MAX = 48
BY_CHARS_MAX = 70


def planting_text(planting: Planting, *, target: str) -> str:
    """A line for each mutant, and last the score."""
    rows = [
        (
            textwrap.shorten(each.name, NAME_CHARS_MAX, placeholder="…"),
            f"caught in run {each.run:,}" if each.caught else f"SURVIVED {each.run:,} runs",
            textwrap.shorten(each.by, BY_CHARS_MAX, placeholder="…"),
        )
        for each in planting.mutants
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"  {a.ljust(widths[0])}  {b.ljust(widths[1])}  {c}" for a, b, c in rows]
    caught = len(rows) - len(planting.survivors)
    lines.append(
        f"{caught} of {count(len(rows), 'mutant')} of {target} caught: "
        f"a mutation score of {planting.score:.0%}"
    )
    if planting.survivors:
        lines.append(
            wrapped(
                "A mutant that survives is a bug that nobody would notice: state what it breaks "
                "(an invariant, a model), or let a rule lead there, with arguments that matter."
            )
        )
    return "\n".join(lines)


def planting_json(planting: Planting, *, target: str, exit_code: int) -> str:
    """The same for programs."""
    data = {
        "target": target,
        "verdict": "survived" if planting.survivors else "caught",
        "exit_code": exit_code,
        "seed": planting.outcome.seed,
        "runs": planting.outcome.runs,
        "score": planting.score,
        "mutants": [asdict(each) for each in planting.mutants],
    }
    return json.dumps(data, indent=2)
