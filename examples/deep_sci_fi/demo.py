"""What `make demo` explores: the platform with five of its mistakes switched on at once.

foretold explore examples/deep_sci_fi/demo.py:Demo --keep-going
"""

from examples.deep_sci_fi.machine import DeepSciFi


class Demo(DeepSciFi):
    """Two races, a forgotten flush, a key that is not one's own, and a dweller with two souls."""

    planted = frozenset(
        {
            "release_claim_race",
            "escalate_unlocked",
            "world_id_before_flush",
            "idempotency_key_unscoped",
            "claim_without_lock",
        }
    )
