"""What may become of what, and of the canon: looked at after every commit, against what was there
before."""

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
ADOPTED = """select v.id::text, v.updated_canon_summary, w.canon_summary
    from aspect_validations v join aspects a on a.id = v.aspect_id
    join worlds w on w.id = a.world_id where v.verdict = 'approve'
    union all
    select e.id::text, e.canon_update, w.canon_summary
    from world_events e join worlds w on w.id = e.world_id where e.status = 'approved'"""
"""For each approval, what is to be the canon from then on, and what the canon is now."""
APPROVING = ("aspect_validations", "world_events")
STATES = " union all ".join(f"select '{table}', id::text, status from {table}" for table in NEXT)


class History(Platform):
    """No status is skipped, and what is decided stays so."""

    def watch(self) -> None:
        self.states = self._read()
        self.wrong: list[str] = []
        self.passages = 0
        self.adopted = {key for key, _, _ in self.pg.sql(ADOPTED)}
        self.canons = 0
        self.unchanged: list[str] = []
        self.pg.on_commit(self._committed)

    def _read(self) -> dict[tuple[str, str], str]:
        return {(table, key): status for table, key, status in self.pg.sql(STATES)}

    def _adopt(self) -> None:
        """Whoever has approved something in this transaction has said what the canon is now."""
        for key, text, canon in self.pg.sql(ADOPTED):
            if key not in self.adopted and text is not None:
                self.canons += 1
                if text != canon:
                    self.unchanged.append(f"{key} is approved, and the canon stays {canon!r}")
            self.adopted.add(key)

    def _committed(self, commit: Any) -> None:
        if not any(f" {table} " in sql for sql in commit.statements for table in NEXT):
            return
        if any(table in sql for sql in commit.statements for table in APPROVING):
            self._adopt()
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
    def an_approval_changes_the_canon(self) -> int:
        """What an approval says is true in the world is what the world says from then on."""
        assert not self.unchanged, "; ".join(self.unchanged)
        return self.canons

    @foretold.invariant()
    def no_status_is_skipped(self) -> int:
        """Everything goes through its life in order, and what is decided stays decided."""
        assert not self.wrong, "; ".join(self.wrong)
        return self.passages
