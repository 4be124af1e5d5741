"""Whole tapes: four origins, and the promise that what was recorded can be read back."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretold.errors import UsageError
from foretold.tape import ENDED, WORKLOAD, Choice, Hold, Schedule, Slow, Tape, enumerate_tapes

SEEDED = settings(derandomize=True, database=None, deadline=None)

Step = Callable[[Tape], object]
LABELS = st.sampled_from([None, "", "dice", "größe"])
NAMES = st.sampled_from([WORKLOAD, "net", "net/api", "fault"])


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """One step of a program: a verb with arguments, on some stream."""
    name, label = draw(NAMES), draw(LABELS)
    n = draw(st.integers(1, 9) | st.integers(1, 2**70))
    low, p = draw(st.integers()), draw(st.floats(0, 1))
    size = draw(st.integers(1, 5))
    verbs: list[Step] = [
        lambda tape: tape.stream(name).choose(n, label),
        lambda tape: tape.stream(name).chance(p, label),
        lambda tape: tape.stream(name).between(low, low + n, label),
        lambda tape: tape.stream(name).boolean(label),
        lambda tape: tape.stream(name).pick(range(size), label),
        lambda tape: tape.stream(name).shuffle(range(size), label),
        lambda tape: tape.stream(name).bytes(size, label),
        # How much is drawn next depends on what was drawn: real programs do that all the time.
        lambda tape: [tape.stream(name).boolean() for _ in range(tape.choose(size, "burst"))],
    ]
    return draw(st.sampled_from(verbs))


def enumerated(number: int) -> Tape:
    """An enumerated tape that is not the first one of its loop."""

    def body(tape: Tape) -> Tape:
        tape.choose(4)
        return tape

    return next(itertools.islice(map(body, enumerate_tapes()), number, None))


ORIGINS = st.one_of(
    st.builds(Tape.seeded, st.integers()),
    st.builds(Tape.calm),
    st.just(Tape("recorded", choices={WORKLOAD: [Choice(1, 2, "")] * 3, "net": []})),
)


@SEEDED
@given(tape=ORIGINS, program=st.lists(steps(), max_size=20))
def test_what_is_recorded_replays(tape: Tape, program: list[Step]) -> None:
    """The core promise: the recording of any program, from any tape, gives the same values again.

    The recording fits without a misfit, and recording the replay gives the same recording.
    """
    first = tape.fresh(recording=True)
    values = [step(first) for step in program]
    replay = first.recorded().fresh(recording=True)
    assert [step(replay) for step in program] == values
    assert replay.misfit is None
    assert replay.recorded().choices == first.recorded().choices
    assert replay.draws == first.draws


def test_an_enumerated_case_replays() -> None:
    """A failing case of an enumeration is kept as a recording, whatever verbs it used."""

    def body(tape: Tape) -> list[object]:
        key = tape.bytes(4)
        return [key, tape.choose(3), tape.stream("net").chance(0.1), tape.shuffle("abc")]

    cases = []
    for tape in enumerate_tapes(streams=None):
        running = tape.fresh(recording=True)
        cases.append((body(running), running.recorded()))
    assert len(cases) == 3 * 2 * 6
    for values, recorded in cases:
        replay = recorded.fresh()
        assert body(replay) == values
        assert replay.misfit is None


def test_recording_changes_no_choice() -> None:
    """Searching runs do not record and reporting runs do: both must be the same run."""
    plain, recording = Tape.seeded(3), Tape.seeded(3).fresh(recording=True)
    assert [plain.chance(0.5) for _ in range(99)] == [recording.chance(0.5) for _ in range(99)]
    assert plain.bytes(9) == recording.bytes(9)


def test_fresh_is_rewound() -> None:
    """Reading a tape uses it up; a fresh one begins again and leaves the first where it is."""
    tape = Tape.seeded(3)
    first = [tape.choose(1000) for _ in range(5)]
    fresh = tape.fresh()
    assert fresh.draws == {}
    assert [fresh.choose(1000) for _ in range(5)] == first
    assert tape.draws == fresh.draws == {WORKLOAD: 5}


def test_a_recording_is_a_snapshot() -> None:
    """What the run draws afterwards, say while it is torn down, does not reach the recording."""
    tape = Tape.seeded(1).fresh(recording=True)
    tape.choose(5)
    tape.written.add(Hold("main", "a", 1, "b", ENDED))
    recorded = tape.recorded()
    tape.choose(5)
    tape.written.add(Hold("main", "a", 2, "b", ENDED))
    assert len(recorded.choices[WORKLOAD]) == 1
    assert len(recorded.schedule) == 1


def test_a_recording_keeps_seed_settings_and_schedule() -> None:
    """A recording says where it came from, and holds the exceptions that the scheduler wrote."""
    tape = Tape.seeded(9, {"order": "any"}).fresh(recording=True)
    tape.written.add(Slow("main", "a", 1, 500))
    recorded = tape.recorded()
    assert (recorded.origin, recorded.seed, recorded.settings) == ("recorded", 9, {"order": "any"})
    assert list(recorded.schedule) == [Slow("main", "a", 1, 500)]
    assert recorded.choices == {}


def test_recorded_needs_recording() -> None:
    """An empty recording would replay as the calm run and hide the failure."""
    with pytest.raises(UsageError, match=r"fresh\(recording=True\)"):
        Tape.seeded(1).recorded()


@pytest.mark.parametrize("seed", ["7", 7.0, None, True])
def test_a_seed_is_a_whole_number(seed: object) -> None:
    """`seed="7"` from a command line would silently be another run than `seed=7`."""
    with pytest.raises(UsageError, match="whole number"):
        Tape.seeded(seed)  # type: ignore[arg-type]  # the mistake under test


def test_derived_changes_only_what_is_given() -> None:
    """The shrinker changes one thing at a time; all else must stay, and the parent too."""
    choices = {WORKLOAD: [Choice(1, 3, "")], "net": [Choice(4, 5, "")]}
    parent = Tape("recorded", seed=5, settings={"a": 1}, choices=choices)
    child = parent.derived(choices={WORKLOAD: [Choice(2, 3, "")]})
    assert (child.origin, child.seed, child.settings) == ("derived", 5, {"a": 1})
    assert (child.choose(3), child.stream("net").choose(5)) == (2, 0)
    assert (parent.choose(3), parent.stream("net").choose(5)) == (1, 4)
    slower = child.derived(schedule=Schedule.of([Slow("main", "a", 1, 9)]), settings={})
    assert (slower.fresh().choose(3), len(slower.schedule), slower.settings) == (2, 1, {})
    assert len(child.schedule) == 0


def test_a_seeded_tape_with_other_settings_stays_seeded() -> None:
    """It must not turn into the calm tape without a word: its choices are in its seed."""
    tape = Tape.seeded(7, {"order": "any"}).derived(settings={"order": "asyncio"})
    assert (tape.origin, tape.seed, tape.settings) == ("seeded", 7, {"order": "asyncio"})


def test_a_seeded_tape_reads_the_streams_that_are_given() -> None:
    """Past their end there is calm; every other stream is drawn as it would be without them."""
    given = Tape.seeded(5, choices={"calls": (Choice(3, 10, ""), Choice(7, 10, ""))})
    drawn = Tape.seeded(5)
    read = [given.stream("calls").choose(10) for _ in range(4)]
    others = [[tape.stream("net").choose(1_000) for _ in range(4)] for tape in (given, drawn)]
    assert read == [3, 7, 0, 0]
    assert others[0] == others[1]
    assert len(set(others[0])) > 1, "by chance"


@pytest.mark.parametrize("tape", [Tape.seeded(7), enumerated(2)])
def test_derived_needs_choices_to_start_from(tape: Tape) -> None:
    """A changed schedule beside choices that nobody has written down yet would be a calm run."""
    with pytest.raises(UsageError, match=r"derive from its \.recorded\(\)"):
        tape.derived(schedule=Schedule.of([Slow("main", "a", 1, 9)]))


def test_the_tapes_own_verbs_are_the_workload() -> None:
    """`tape.choose` in a test and `tape.stream("workload")` in the library are one sequence."""
    one, two = Tape.seeded(4), Tape.seeded(4)
    stream = two.stream(WORKLOAD)
    mixed = [one.choose(9), one.chance(0.5), one.between(1, 9), one.boolean(), one.pick("abc")]
    assert mixed == [
        stream.choose(9),
        stream.chance(0.5),
        stream.between(1, 9),
        stream.boolean(),
        stream.pick("abc"),
    ]
    assert one.shuffle(range(9)) == stream.shuffle(range(9))
    assert one.bytes(9) == stream.bytes(9)


def test_a_misfit_of_any_stream_shows_on_the_tape() -> None:
    """Whoever replays asks the tape, not each stream; no misfit means the code is unchanged."""
    tape = Tape("recorded", choices={"net": [Choice(1, 2, "lose")], "disk": [Choice(1, 2, "")]})
    assert (tape.stream("net").boolean("lose"), tape.misfit) == (True, None)
    tape.stream("disk").choose(3)
    assert tape.misfit == "stream disk: draw 1 was no label of 2, now it is no label of 3"


def test_only_changed_or_recorded_tapes_have_a_schedule_to_look_up() -> None:
    """For a seeded tape a scheduler decides; for the others the holds that were written."""
    origins = {tape.origin: tape.scheduled_by_key for tape in [Tape.seeded(1), Tape.calm()]}
    assert origins == {"seeded": False, "derived": True}
    assert Tape.seeded(1).fresh(recording=True).recorded().scheduled_by_key


def test_a_step_has_one_hold_and_one_delay() -> None:
    """Entries are looked up by (host, actor, step): the later of two holds is the one that counts.

    A hold and a delay of the same step do not touch each other.
    """
    holds = [Hold("main", "a", 3, "b", ENDED), Hold("main", "a", 3, "c", 2)]
    elsewhere = Hold("other", "a", 3, "b", ENDED)
    slow = Slow("main", "a", 3, 100)
    schedule = Schedule.of([*holds, slow, elsewhere])
    assert list(schedule) == [holds[1], elsewhere, slow]
    assert len(schedule) == 3
