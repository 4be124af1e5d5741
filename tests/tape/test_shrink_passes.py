"""The shrink passes by themselves, against questions that are no programs.

A question is "does this tape still fail?"; here it is a plain condition on the tape, so that the
smallest failing tape is known and can be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretold.tape import CALLBACKS, ENDED, Choice, Hold, Schedule, Slow, Tape
from foretold.tape.shrink import PASSES, BudgetSpent, shrink, weight
from foretold.tape.shrink.calm import calm_choices
from foretold.tape.shrink.choices import lower_choices
from foretold.tape.shrink.configuration import narrow_settings
from foretold.tape.shrink.cut import cut_blocks
from foretold.tape.shrink.edit import fingerprint
from foretold.tape.shrink.holds import (
    drop_holds,
    one_long_hold,
    two_into_one,
    until_someone_ended,
)
from foretold.tape.shrink.minimise import smallest_sublist
from foretold.tape.shrink.slows import add_up_slows, drop_slows, shorten_slows
from foretold.tape.shrink.together import add_up, lower_equal, one_large
from foretold.tape.shrink.whole import calm_streams, calm_world, one_of_many
from foretold.tape.streams import BYTES_SEED_BOUND

SEEDED = settings(max_examples=150, derandomize=True, deadline=None, database=None)
Question = Callable[[Tape], bool]


def hold(actor: str, step: int, until: str = "other", until_step: int = 1) -> Hold:
    """A hold on the host `main`."""
    return Hold("main", actor, step, until, until_step)


def tape_of(
    *entries: Hold | Slow, choices: dict[str, list[int]] | None = None, bound: int = 1_000
) -> Tape:
    """A recorded tape with these exceptions to its schedule, and these choices by stream."""
    written = {
        name: [Choice(value, bound, "n") for value in values]
        for name, values in (choices or {}).items()
    }
    return Tape("recorded", choices=written, schedule=Schedule.of(entries))


class Asked:
    """A question that remembers how often it was asked."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.count = 0

    def __call__(self, tape: Tape) -> bool:
        self.count += 1
        return self.question(tape)


def values(tape: Tape, name: str) -> list[int]:
    """The choices of one stream."""
    return [choice.value for choice in tape.choices.get(name, ())]


# --- smallest sublist ------------------------------------------------------------------------


@SEEDED
@given(st.sets(st.integers(0, 29)), st.integers(0, 30))
def test_what_is_needed_is_kept_and_nothing_else(needed: set[int], size: int) -> None:
    """For any set of items that must stay: exactly they remain, in their order."""
    items = list(range(size))
    wanted = [item for item in items if item in needed]
    assert smallest_sublist(items, lambda kept: set(wanted) <= set(kept)) == wanted


def test_one_needed_of_many_is_found_in_few_questions() -> None:
    """Halving: the questions grow with the logarithm, not with the number of items."""
    count = 0

    def still_fails(kept: list[int]) -> bool:
        nonlocal count
        count += 1
        return 613 in kept

    assert smallest_sublist(range(1_000), still_fails) == [613]
    assert count < 60


# --- holds and slow steps --------------------------------------------------------------------


def test_holds_that_are_not_needed_go() -> None:
    """Two of forty matter; slow steps are left alone."""
    slow = Slow("main", "a", 1, 5_000)
    tape = tape_of(*(hold(f"a{n}", n) for n in range(1, 41)), slow)
    needed = {("main", "a7", 7), ("main", "a30", 30)}
    small = drop_holds(tape, lambda t: needed <= t.schedule.holds.keys())
    assert small.schedule.holds.keys() == needed
    assert list(small.schedule.slows.values()) == [slow]


def test_slow_steps_that_are_not_needed_go() -> None:
    """One of thirty matters; holds are left alone."""
    tape = tape_of(*(Slow("main", "a", n, n) for n in range(1, 31)), hold("b", 1))
    small = drop_slows(tape, lambda t: ("main", "a", 19) in t.schedule.slows)
    assert list(small.schedule.slows) == [("main", "a", 19)]
    assert len(small.schedule.holds) == 1


def test_many_short_holds_become_a_long_one() -> None:
    """No deletion gets from "until b made its 1st, 2nd, 3rd step" to "until b had ended"."""
    short = [hold("a", step, "b", step) for step in range(1, 20)]
    tape = tape_of(hold("c", 1, CALLBACKS, 4), *short)
    long = hold("a", 5, "b", ENDED)
    small = one_long_hold(tape, lambda t: list(t.schedule.holds.values()) in (short, [long]))
    assert list(small.schedule.holds.values()) == [long]


def test_nobody_is_held_until_a_callback_or_itself_has_ended() -> None:
    """Callbacks never end, and who waits for itself waits for ever: such holds are not tried."""
    tried: list[Hold] = []

    def remember(tape: Tape) -> bool:
        tried.extend(tape.schedule.holds.values())
        return False

    tape = tape_of(hold("a", 1, "b"), hold("b", 1, CALLBACKS, 4), hold("b", 2, "a"))
    assert one_long_hold(tape, remember) is tape
    assert tried
    assert all(h.until_actor != CALLBACKS and h.until_actor != h.actor for h in tried)


def test_better_words_for_the_same_hold() -> None:
    """`until b had ended` instead of `until the 3rd callback had run`, where that fails as well."""
    tape = tape_of(hold("a", 2, CALLBACKS, 3))
    tape.cast["main"] = dict.fromkeys(["a", "b", "c"])
    said = until_someone_ended(tape, lambda t: t.schedule.holds["main", "a", 2].until_actor == "c")
    assert list(said.schedule.holds.values()) == [hold("a", 2, "c", ENDED)]
    assert until_someone_ended(tape, lambda t: False) is tape


# --- choices ---------------------------------------------------------------------------------


FAULTS = {f"fault/web/{number}": [number] for number in range(1, 12)}


def test_the_coarsest_is_tried_first() -> None:
    """Where the program's own choices are enough, one question is enough as well. Where a hold
    matters, two take all faults away at once."""
    tape = tape_of(hold("a", 1), choices={**FAULTS, "pace/main": [3], "workload": [4]})
    asked = Asked(lambda t: values(t, "workload") == [4])
    small = calm_world(tape, asked)
    assert (list(small.choices), len(small.schedule), asked.count) == (["workload"], 0, 1)
    asked = Asked(lambda t: values(t, "workload") == [4] and len(t.schedule) == 1)
    small = calm_world(tape, asked)
    assert (list(small.choices), len(small.schedule)) == (["pace/main", "workload"], 1)
    assert asked.count == 3
    few = tape_of(choices={"workload": [4], "pace/main": [3]})
    assert calm_world(few, asked) is few


def test_whole_streams_become_calm() -> None:
    """Most of what a run drew has nothing to do with the failure."""
    tape = tape_of(choices={"entropy": [9], "net": [1, 2], "pace": [3], "workload": [0, 4]})
    small = calm_streams(tape, lambda t: values(t, "workload") == [0, 4])
    assert dict(small.choices) == {"workload": tape.choices["workload"]}


@pytest.mark.parametrize("least", [0, 1, 2, 36, 37, 511, 999])
def test_a_choice_goes_down_to_the_least_that_fails(least: int) -> None:
    """Small values first, then by bisection: in about twenty questions."""
    asked = Asked(lambda t: sum(values(t, "workload")[:1]) >= least)
    small = lower_choices(tape_of(choices={"workload": [999]}), asked)
    assert sum(values(small, "workload")) == least
    assert asked.count < 22


def test_what_follows_the_last_needed_choice_is_dropped() -> None:
    """A replay past the end of a recording is calm, so nothing has to be written there."""
    tape = tape_of(choices={"workload": [5, 6, *[7] * 62]})
    small = lower_choices(tape, lambda t: values(t, "workload")[:2] == [5, 6])
    assert values(small, "workload") == [5, 6]


def test_each_choice_is_lowered_by_itself() -> None:
    """Several choices that are all needed, each with a least value of its own."""
    least = [3, 0, 700, 1]
    tape = tape_of(choices={"workload": [900, 901, 902, 903], "net": [5]})

    def still_fails(candidate: Tape) -> bool:
        drawn = values(candidate, "workload")
        return len(drawn) == 4 and all(a >= b for a, b in zip(drawn, least, strict=True))

    small = lower_choices(tape, still_fails)
    assert values(small, "workload") == least
    assert values(small, "net") in ([], [0])


def test_only_the_choices_that_matter_stay() -> None:
    """Two of two hundred, in two streams."""
    tape = tape_of(choices={"net": [5] * 100, "workload": [7] * 100})

    def still_fails(candidate: Tape) -> bool:
        net, workload = values(candidate, "net"), values(candidate, "workload")
        return len(net) > 40 and net[40] == 5 and len(workload) > 3 and workload[3] == 7

    small = calm_choices(tape, still_fails)
    assert (values(small, "net"), values(small, "workload")) == ([0] * 40 + [5], [0, 0, 0, 7])


@pytest.mark.parametrize("least", [0, 1, 17, 30])
def test_what_only_some_values_do_is_met_among_the_small_ones(least: int) -> None:
    """Capital letters lie between 17 and 42; from there to 192, where it began, nothing fails."""
    tape = tape_of(choices={"workload": [192]})
    bad = {192, *range(least, 43)}
    small = lower_choices(tape, lambda t: (values(t, "workload") or [0])[0] in bad)
    assert (values(small, "workload") or [0])[0] <= max(least, 32)


def test_a_seed_is_not_bisected() -> None:
    """Its size means nothing: a few others are tried, no more."""
    entry = Choice(3_000_000_000, BYTES_SEED_BOUND, "bytes")
    asked = Asked(lambda t: values(t, "entropy/main") == [3_000_000_000])
    lower_choices(Tape("recorded", choices={"entropy/main": [entry]}), asked)
    assert asked.count < 10


# --- blocks ----------------------------------------------------------------------------------


def more(*elements: int) -> list[Choice]:
    """A list as Hypothesis draws it: one more? and what; and so on, until no more."""
    drawn = [each for e in elements for each in (Choice(1, 2, "l"), Choice(e, 100, "l"))]
    return [*drawn, Choice(0, 2, "l")]


def elements_of(tape: Tape) -> list[int]:
    """The list that such choices make."""
    drawn, found = iter(values(tape, "workload")), []
    while next(drawn, 0):
        found.append(next(drawn, 0))
    return found


@SEEDED
@given(st.lists(st.integers(0, 99), max_size=12), st.data())
def test_elements_of_a_list_that_are_not_needed_are_cut_out(
    elements: list[int], data: st.DataObject
) -> None:
    """Wherever they stand: what is needed stays, in its order, and nothing else."""
    needed = data.draw(st.lists(st.sampled_from(elements), max_size=2) if elements else st.just([]))
    wanted = Counter(needed) & Counter(elements)
    tape = Tape("recorded", choices={"workload": more(*elements)})

    def still_fails(candidate: Tape) -> bool:
        return wanted <= Counter(elements_of(candidate))

    assert Counter(elements_of(shrink(tape, still_fails))) == wanted


def test_one_operation_less_without_any_one_of_them() -> None:
    """A number, and then as many rounds: the third of five is needed, so one round is left."""
    rounds = [(0, 9), (0, 8), (1, 7), (0, 6), (0, 5)]
    entries = [Choice(5, 20, "how many")]
    for kind, amount in rounds:
        entries += [Choice(kind, 2, "kind"), Choice(amount, 100, "amount")]

    def done(candidate: Tape) -> list[tuple[int, int]]:
        drawn = iter(values(candidate, "workload"))
        return [(next(drawn, 0), next(drawn, 0)) for _ in range(next(drawn, 0))]

    tape = Tape("recorded", choices={"workload": entries})
    small = cut_blocks(tape, lambda t: (1, 7) in done(t))
    assert done(small) == [(1, 7)]


def test_what_belongs_to_a_moment_is_not_moved_to_another() -> None:
    """The fifth message is late; a cut before it would make the fourth one late instead."""
    tape = tape_of(choices={"net/main:1c": [0, 0, 0, 0, 9]})
    asked = Asked(lambda t: True)
    assert cut_blocks(tape, asked) is tape
    assert asked.count == 0


# --- several at once -------------------------------------------------------------------------


def test_equal_values_go_down_together() -> None:
    """Neither can move alone."""
    tape = tape_of(choices={"workload": [23, 4, 23]})

    def still_fails(candidate: Tape) -> bool:
        drawn = [*values(candidate, "workload"), 0, 0, 0]
        return drawn[0] == drawn[2] >= 5

    assert values(lower_equal(tape, still_fails), "workload") == [5, 4, 5]


def test_two_that_add_up_become_one() -> None:
    """The second one takes over, if it can."""
    tape = tape_of(choices={"workload": [774, 226]}, bound=1_024)
    small = add_up(tape, lambda t: sum(values(t, "workload")) >= 1_000)
    assert values(small, "workload") == [0, 1_000]
    narrow = tape_of(choices={"workload": [774, 226]}, bound=900)
    assert add_up(narrow, lambda t: True) is narrow


def test_one_late_message_instead_of_many() -> None:
    """As late as can be, for a start; another pass lowers it."""
    tape = tape_of(choices={"net/a": [300, 0, 200], "net/b": [400]})
    latest = one_large(tape, lambda t: max(values(t, "net/a"), default=0) > 800)
    assert {name: values(latest, name) for name in latest.choices} == {"net/a": [999]}


def test_what_widens_the_search_goes_if_it_is_not_needed() -> None:
    """Faults that did not matter; the limit of the test's own stays."""
    tape = Tape("recorded", settings={"faults": "kill", "preempt": "lines", "steps_max": 7})
    small = narrow_settings(tape, lambda t: "preempt" in t.settings)
    assert small.settings == {"preempt": "lines", "steps_max": 7}


def test_three_holds_become_two() -> None:
    """Two that only prepare the place for a third one are one long one."""
    tape = tape_of(hold("a", 1, "b", 2), hold("b", 3, "a", 1), hold("c", 2, "d", ENDED))
    goal = [hold("c", 2, "d", ENDED), hold("a", 2, "b", ENDED)]
    small = two_into_one(tape, lambda t: list(t.schedule.holds.values()) == goal)
    assert list(small.schedule.holds.values()) == goal


def test_two_holds_where_nobody_ends() -> None:
    """In a deadlock nobody ends: one holds until a step of the other."""
    tape = tape_of(hold("one", 2, "main", 2), hold("two", 3, "one", 2))
    goal = [hold("one", 3, "two", 1)]
    small = two_into_one(tape, lambda t: list(t.schedule.holds.values()) == goal)
    assert list(small.schedule.holds.values()) == goal


def test_one_fault_of_many_strikes_sooner() -> None:
    """Those that only put it off go at once, and the moment moves with them."""
    names = {"fault/hold/1": [1, 3], "fault/reset/5": [1], "fault/partition/2": [1]}

    def still_fails(tape: Tape) -> bool:
        late = sum(name in tape.choices for name in ("fault/hold/1", "fault/partition/2"))
        least, most = ((0, 100), (9, 9), (550, 650))[late]
        return "fault/reset/5" in tape.choices and least <= values(tape, "fault")[1] <= most

    tape = tape_of(choices={"fault": [1, 600], **names})
    assert still_fails(tape)
    small = one_of_many(tape, still_fails)
    assert sorted(small.choices) == ["fault", "fault/reset/5"]
    assert values(small, "fault") == [1, 75]


def test_better_words_let_more_go() -> None:
    """A hold until a callback is true in this run alone; until an end, in shorter ones as well."""
    tape = tape_of(hold("a", 1, CALLBACKS, 40), choices={"net": [5]})
    tape.cast["main"] = {"a": object(), "b": object()}

    def still_fails(tape: Tape) -> bool:
        [only] = tape.schedule.holds.values() or [None]
        return only == hold("a", 1, "b", ENDED) or (only is not None and "net" in tape.choices)

    small = shrink(tape, still_fails)
    assert list(small.schedule.holds.values()) == [hold("a", 1, "b", ENDED)]
    assert not small.choices


def test_a_slow_step_is_as_short_as_it_may_be() -> None:
    """To within a sixteenth: a story tells no more digits."""
    tape = tape_of(Slow("main", "a", 1, 8_000_000))
    asked = Asked(lambda t: t.schedule.slows["main", "a", 1].ns >= 1_500_000)
    [slow] = shorten_slows(tape, asked).schedule.slows.values()
    assert 1_500_000 <= slow.ns < 1_600_000
    assert asked.count < 12


def test_one_slow_step_takes_over_the_time_of_others() -> None:
    """If only their sum matters, one is left; never one that is later than a search makes them."""

    def slows(*ns: int) -> Tape:
        return tape_of(*(Slow("main", "a", number, each) for number, each in enumerate(ns, 1)))

    def total_ns(tape: Tape) -> int:
        return sum(slow.ns for slow in tape.schedule.slows.values())

    few = add_up_slows(slows(900_000, 100_000, 6_000_000), lambda t: total_ns(t) == 7_000_000)
    assert [slow.ns for slow in few.schedule.slows.values()] == [7_000_000]
    late = slows(5_000_000, 6_000_000)
    assert add_up_slows(late, lambda t: total_ns(t) == 11_000_000) is late


# --- all together ----------------------------------------------------------------------------


@st.composite
def tapes(draw: st.DrawFn) -> Tape:
    """Some tape."""
    actors = st.sampled_from(["a", "b", "c"])
    steps = st.integers(1, 4)
    holds = draw(st.lists(st.builds(hold, actors, steps, actors, st.integers(0, 3)), max_size=8))
    slows = draw(st.lists(st.builds(Slow, st.just("main"), actors, steps, steps), max_size=4))
    names = st.sampled_from(["net", "pace", "workload"])
    choices = draw(st.dictionaries(names, st.lists(st.integers(0, 50), max_size=5)))
    return tape_of(*holds, *slows, choices=choices)


@SEEDED
@given(tapes(), st.data())
def test_the_result_fails_and_is_no_larger(tape: Tape, data: st.DataObject) -> None:
    """Whatever the failure depends on: part of the holds, part of the slow steps, some choices.

    Such a condition is monotone, so the result is exactly what is needed.
    """
    holds = data.draw(st.frozensets(st.sampled_from([*tape.schedule.holds, None]), max_size=3))
    slows = data.draw(st.frozensets(st.sampled_from([*tape.schedule.slows, None]), max_size=2))
    holds, slows = holds - {None}, slows - {None}
    least = {name: [c.value // 2 for c in tape.choices[name]] for name in tape.choices}

    def still_fails(candidate: Tape) -> bool:
        return (
            holds <= candidate.schedule.holds.keys()
            and slows <= candidate.schedule.slows.keys()
            and all(_at_least(values(candidate, name), least[name]) for name in least)
        )

    small = shrink(tape, still_fails)
    assert still_fails(small)
    assert weight(small) <= weight(tape)
    assert set(small.schedule.holds) == holds
    assert set(small.schedule.slows) == slows
    for name in least:
        assert _without_zeros(values(small, name)) == _without_zeros(least[name])


def _at_least(drawn: list[int], least: list[int]) -> bool:
    padded = drawn + [0] * (len(least) - len(drawn))
    return all(a >= b for a, b in zip(padded, least, strict=False))


def _without_zeros(numbers: list[int]) -> list[int]:
    return numbers[: max((n for n, value in enumerate(numbers, 1) if value), default=0)]


def _is_odd(candidate: Tape) -> bool:
    return (len(candidate.schedule) * 7 + sum(values(candidate, "net"))) % 3 != 1


@SEEDED
@given(tapes(), st.integers(0, 40))
def test_a_spent_budget_keeps_the_best_so_far(tape: Tape, budget: int) -> None:
    """Shrinking may be broken off at any question; what comes out was asked for and did fail."""
    failed: list[Tape] = [tape]
    asked = 0

    def still_fails(candidate: Tape) -> bool:
        nonlocal asked
        if asked >= budget:
            raise BudgetSpent
        asked += 1
        if _is_odd(candidate):
            failed.append(candidate)
        return _is_odd(candidate)

    small = shrink(tape, still_fails)
    assert any(small is candidate for candidate in failed)
    assert asked <= budget


def test_a_calm_tape_is_left_alone() -> None:
    """Nothing can be taken away; no question is wasted."""
    asked = Asked(lambda tape: True)
    tape = tape_of()
    assert shrink(tape, asked) is tape
    assert asked.count == 0


def test_settings_and_seed_stay() -> None:
    """A smaller tape is still a tape of the same run: same order, same scheduler, same seed."""
    tape = Tape("recorded", seed=7, settings={"order": "any"}, schedule=Schedule.of([hold("a", 1)]))
    small = shrink(tape, lambda candidate: True)
    assert (small.seed, small.settings, len(small.schedule)) == (7, {"order": "any"}, 0)


def test_there_is_one_pass_per_idea() -> None:
    """Each pass is a function of its own, from coarse to fine."""
    assert [each.__name__ for each in PASSES] == [
        "calm_world",
        "calm_streams",
        "narrow_settings",
        "drop_steps",
        "one_long_hold",
        "drop_slows",
        "drop_holds",
        "two_into_one",
        "one_large",
        "calm_choices",
        "one_of_many",
        "drop_two_calls",
        "move_faults",
        "first_actors_first",
        "cut_blocks",
        "lower_choices",
        "lower_equal",
        "lower_alike",
        "add_up",
        "add_up_slows",
        "shorten_slows",
    ]


def test_no_question_is_asked_twice() -> None:
    """Labels and calm endings make no other tape of it."""
    asked: list[object] = []

    def still_fails(candidate: Tape) -> bool:
        asked.append(fingerprint(candidate))
        return sum(values(candidate, "workload")) >= 10

    shrink(tape_of(choices={"workload": [40, 30, 20, 10, 5, 0, 0], "net": [3, 3]}), still_fails)
    assert len(asked) == len(set(asked))


@SEEDED
@given(tapes())
def test_the_next_questions_are_foreseen(tape: Tape) -> None:
    """They are those that are asked, as long as nothing fails; to look ahead changes nothing."""
    thought: list[object] = []
    asked: list[object] = []
    plain: list[object] = []

    def foresee(candidate: Tape, likely: Callable[[int], list[Tape]]) -> None:
        if not thought:
            thought.extend(map(fingerprint, likely(5)))

    def as_thought(candidate: Tape) -> bool:
        asked.append(fingerprint(candidate))
        assert thought.pop(0) == asked[-1]
        if _is_odd(candidate):
            thought.clear()
        return _is_odd(candidate)

    def as_ever(candidate: Tape) -> bool:
        plain.append(fingerprint(candidate))
        return _is_odd(candidate)

    helped, alone = shrink(tape, as_thought, foresee), shrink(tape, as_ever)
    assert fingerprint(helped) == fingerprint(alone)
    assert asked == plain


def test_tapes_that_give_one_run_have_one_fingerprint() -> None:
    """And those that may give another have another one."""
    tape = tape_of(hold("a", 1), choices={"workload": [1, 0]})
    assert fingerprint(tape) == fingerprint(
        tape_of(hold("a", 1), choices={"workload": [1], "x": [0]})
    )
    others = [
        tape_of(hold("a", 2), choices={"workload": [1]}),
        tape_of(hold("a", 1), choices={"workload": [0, 1]}),
        tape_of(hold("a", 1), choices={"net": [1]}),
        tape.derived(settings={"order": "asyncio"}),
    ]
    assert len({fingerprint(each) for each in (tape, *others)}) == 5
