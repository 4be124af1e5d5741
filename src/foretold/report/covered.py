"""What `foretold covers` prints: the operations of an API, and what of them was not reached."""

from __future__ import annotations

from foretold.report.vacuity import gap_lines, operation_lines
from foretold.search.gate import Gate
from foretold.story.words import count


def covered_text(found: Gate, target: str) -> str:
    """The table, the gaps with what to do about them, and a line that says it all."""
    names = {each.name for each in found.gaps}
    lines = operation_lines(found.tally.operations, names)
    if found.failure is not None:
        said = f"{type(found.failure.exception).__name__}: {found.failure.exception}"
        lines.append(f"A run failed, so coverage says nothing: {said.splitlines()[0]}")
        lines.append(f"  foretold explore {target} --seed {found.failure.seed}")
        return "\n".join(lines)
    if found.gaps:
        lines += gap_lines("These gaps are left:", found.gaps)
    operations = count(len(found.tally.operations), "operation")
    compared = "1 strategy" if found.compared == 1 else f"{found.compared} strategies"
    verdict = f"{count(len(found.gaps), 'gap')}" if found.gaps else "All is covered"
    told = f"{operations}, {compared} compared with models, {count(found.runs, 'run')}"
    return "\n".join([*lines, f"{verdict}: {told}, seed {found.seed}."])
