"""Steps of a machine are taken out whole, and what is left still refers to the same values."""

from __future__ import annotations

from foretold.tape import Tape
from foretold.tape.shrink.steps import drop_steps, more_label, next_older, reference_label, steps_of
from foretold.tape.streams import Choice

FROM = reference_label("jars", consumes=False)
TAKE = reference_label("jars", consumes=True)


def mark(*added: str) -> Choice:
    """One more step, after one that has added to these bundles."""
    return Choice(1, 2, more_label(added))


def entries_of(*parts: Choice) -> list[Choice]:
    """A program: each step begins with its mark."""
    return list(parts)


def meanings(entries: list[Choice]) -> list[tuple[int, int]]:
    """Which values the references mean: the steps that made them."""
    _, steps = steps_of(entries)
    return [value for step in steps for value in step.meant.values()]


FIVE_STEPS = entries_of(
    mark(),
    Choice(1, 3, "rule"),  # 0 makes a jar
    mark("jars"),
    Choice(1, 3, "rule"),  # 1 makes a jar
    mark("jars"),
    Choice(2, 3, "rule"),  # 2 makes two
    mark("jars", "jars"),
    Choice(2, 3, "rule"),
    Choice(3, 4, FROM),  # 3 uses the jar of step 0
    mark(),
    Choice(2, 3, "rule"),
    Choice(1, 4, TAKE),  # 4 takes away the first jar of step 2
    Choice(2, 3, FROM),  # and uses that of step 0
)


def test_references_are_counted_from_the_newest_value() -> None:
    """The meaning of a program is known from labels and values alone, consumed values included."""
    assert meanings(FIVE_STEPS) == [(0, 0), (2, 0), (0, 0)]


def test_what_remains_means_the_same() -> None:
    """A failure that needs steps 0, 3 and 4 keeps its references while 1 and 2 go."""
    tape = Tape("derived", choices={"workload": FIVE_STEPS})

    def needs_the_first_jar(candidate: Tape) -> bool:
        _, steps = steps_of(candidate.choices.get("workload", []))
        last = steps[-1] if steps else None
        used = last.meant if last is not None else {}
        return len(used) == 2 and list(used.values())[-1] == (0, 0)

    shrunk = drop_steps(tape, needs_the_first_jar)
    _, steps = steps_of(shrunk.choices["workload"])
    assert len(steps) == 3  # 0, one that makes the jar that is taken away, and 4
    assert meanings(list(shrunk.choices["workload"]))[-1] == (0, 0)


def test_no_step_is_announced_that_is_not_there() -> None:
    """Without its last step a program ends; it must not go on with a calm one."""
    tape = Tape("derived", choices={"workload": FIVE_STEPS})

    def needs_one_step(candidate: Tape) -> bool:
        _, steps = steps_of(candidate.choices.get("workload", []))
        return len(steps) >= 1

    shrunk = drop_steps(tape, needs_one_step).choices["workload"]
    assert [choice.label.startswith("one more step") for choice in shrunk].count(True) == 1


def test_a_value_that_is_gone_has_a_neighbour() -> None:
    """The next older one stands in for it, or the oldest if there is none."""
    assert next_older([(0, 0), (3, 0)], (2, 0)) == 0
    assert next_older([(4, 0)], (2, 0)) == 0


def test_other_tapes_are_left_alone() -> None:
    """Streams without steps, and streams in which each choice belongs to a moment."""
    choices = {"workload": [Choice(3, 9, "n")], "net/main": [mark(), mark()]}
    tape = Tape("derived", choices=choices)
    assert drop_steps(tape, lambda candidate: True) is tape
