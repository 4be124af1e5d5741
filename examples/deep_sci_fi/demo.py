"""What `make demo` explores: the platform with five of its mistakes switched on at once.

    foretold explore examples.deep_sci_fi.demo:Demo --keep-going

What the mistakes are is in `app/bugs.py`; a replay of what was found has them on, too.
"""

from examples.deep_sci_fi.machine import DeepSciFi


class Demo(DeepSciFi):
    """Two races, a forgotten flush, a key that is not one's own, and a hand-over in two halves."""

    planted = frozenset(
        {
            "escalate_unlocked",
            "upvote_read_modify_write",
            "world_id_before_flush",
            "idempotency_key_unscoped",
            "release_claim_race",
        }
    )
