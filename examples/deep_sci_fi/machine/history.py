"""What may become of what: looked at after every commit, against what was there before."""

from typing import Any

import foretold
from examples.deep_sci_fi.machine.platform import Platform

DECIDED: tuple[str, ...] = ()
PROPOSED = {
    "draft": ("validating",),
    "validating": ("approved", "rejected"),
    "approved": DECIDED,
    "rejected": DECIDED,
}
NEXT: dict[str, dict[str, tuple[str, ...]]] = {
    "proposals": PROPOSED,
    "aspects": PROPOSED,
    "dweller_proposals": PROPOSED,
    "stories": {"published": ("acclaimed",), "acclaimed": DECIDED},
    "feedback": {
        "new": ("acknowledged", "in_progress", "resolved", "wont_fix"),
        "acknowledged": ("in_progress", "resolved", "wont_fix"),
        "in_progress": ("resolved", "wont_fix"),
        "resolved": DECIDED,
        "wont_fix": DECIDED,
    },
    "revision_suggestions": {
        "pending": ("accepted", "rejected", "withdrawn"),
        "accepted": DECIDED,
        "rejected": DECIDED,
        "withdrawn": DECIDED,
    },
    "world_events": {"pending": ("approved", "rejected"), "approved": DECIDED, "rejected": DECIDED},
}
"""For each table, what may follow a status."""
BORN = {"stories": "published", "feedback": "new", "revision_suggestions": "pending"}
BORN |= {"world_events": "pending"}
STATES = " union all ".join(f"select '{table}', id::text, status from {table}" for table in NEXT)


class History(Platform):
    """No status is skipped, and what is decided stays so."""

    def watch(self) -> None:
        self.states = self._read()
        self.wrong: list[str] = []
        self.passages = 0
        self.pg.on_commit(self._committed)

    def _read(self) -> dict[tuple[str, str], str]:
        return {(table, key): status for table, key, status in self.pg.sql(STATES)}

    def _committed(self, commit: Any) -> None:
        if not any(f" {table} " in sql for sql in commit.statements for table in NEXT):
            return
        before, self.states = self.states, self._read()
        for (table, key), status in self.states.items():
            was = before.get((table, key))
            if was == status:
                continue
            self.passages += 1
            born = was is None and status == BORN.get(table, "draft")
            if not born and (was is None or status not in NEXT[table][was]):
                self.wrong.append(f"{table} {key}: {was or 'nothing'} -> {status}")

    @foretold.invariant()
    def no_status_is_skipped(self) -> int:
        """Everything goes through its life in order, and what is decided stays decided."""
        assert not self.wrong, "; ".join(self.wrong)
        return self.passages
