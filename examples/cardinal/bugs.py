"""Mistakes that can be switched on one at a time, each of a kind that real engines have had.

A product would not have this file. Here it shows that the kit (`testing.py`) notices each of them:

    foretold explore examples.cardinal.simulation:Adventure --plant
"""

import foretold

BUGS = {
    "odd_tick_deadlock": "a reset rebuilds one buffer of the scheduler, which may use the other",
    "event_queue_blocks": "an event that finds the channel full waits for room; nobody makes any",
    "bitmap_aliasing": "a restored bitmap is a view of the snapshot in the store, not a copy",
    "bitmap_words": "a bitmap is written byte by byte and read in whole words of eight bytes",
    "free_list_too_early": "the id of a destroyed entity is used again in the same tick",
    "has_unregistered": "`has` says yes for a component that nobody has registered",
    "restore_forgets_free_list": "a snapshot is restored without its list of free ids",
    "commands_lost_by_crash": "the backlog is trimmed when commands are drained, not when stored",
    "commands_doubled_by_crash": "a restore takes the whole backlog, not what came after it",
    "events_twice_after_restore": "a snapshot holds the events of its tick, which were sent before",
    "system_race": "the scheduler lets a system write what an earlier one still reads",
    "backlog_trimmed_to_newest": "the backlog keeps nothing for a restore of an older snapshot",
    "torn_snapshot_accepted": "the checksum of a snapshot is not compared",
    "moved_row_forgotten": "the entity that fills a hole keeps its old row number",
}


def planted(bug: str) -> bool:
    """Whether the engine has this bug in this run."""
    assert bug in BUGS, bug
    return foretold.mutant(bug)
