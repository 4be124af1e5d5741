"""The causality figure: how likely the failure was along the run, and the event at the jump."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest

import foretold
from foretold.kernel import real
from foretold.search.failures.explain import Explanation, explain
from foretold.trace.events import Chose, Event
from foretold.world.run import bind_main
from tests.search.test_explore import found, lost_update
from tests.search.test_shrink import lost_on_the_wire, operations, racy_counter


def explained(main: Any, failure: foretold.Failure, **how: Any) -> Explanation:
    """The figure for what a search found."""
    return explain(bind_main(main), failure.tape, **how)


def shares(figure: Explanation) -> list[float]:
    """The shares along the run."""
    return [point.share for point in figure.points]


def event_at_the_jump(figure: Explanation) -> Event:
    """What decided it."""
    assert figure.jump is not None
    event = figure.jump[1].mark.event
    assert event is not None
    return event


def test_the_read_that_comes_too_early_decides() -> None:
    """bob reads before alice has written: from there on nothing helps. Before it, chance might."""
    main = functools.partial(lost_update, 4)
    figure = explained(main, found(main, runs=3_000, order="any"))
    assert figure.is_one_event
    event = event_at_the_jump(figure)
    assert (event.actor, event.step) == ("bob", 5)
    assert shares(figure)[0] < 0.5
    assert shares(figure)[-1] == 1.0


def test_a_value_that_decides() -> None:
    """Choices are points of the run like steps."""
    event = event_at_the_jump(explained(operations, found(operations, runs=500)))
    assert isinstance(event, Chose)
    assert event.label == "amount"


SECOND = ("(world)", "second", "_accept_connection2-")
"""Who gets through first: by a message that is late, at the client, or at the server's handler."""


@pytest.mark.parametrize(
    ("main", "settings", "actor"),
    [(racy_counter, {"preempt": "lines"}, "Thread-"), (lost_on_the_wire, {}, SECOND)],
)
def test_threads_and_messages(
    main: Any, settings: dict[str, Any], actor: str | tuple[str, ...]
) -> None:
    """The second thread reads; the second client gets through first."""
    failure = found(main, runs=2_000, seed=1_000, **settings)
    figure = explained(main, failure, continuations=12, points=8)
    assert event_at_the_jump(figure).actor.startswith(actor)
    assert shares(figure)[-1] == 1.0


def test_a_figure_is_deterministic() -> None:
    """The same tape, the same figure."""
    failure = found(operations, runs=500)
    figures = [explained(operations, failure, continuations=5, points=5) for _ in range(2)]
    assert shares(figures[0]) == shares(figures[1])
    assert figures[0].runs == figures[1].runs


def test_a_busy_clock_changes_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour passes with each look at the real clock. The figure is that of an idle machine."""
    failure = found(operations, runs=500)
    usual = explained(operations, failure, continuations=5, points=5)
    hours = itertools.count()
    monkeypatch.setattr(real, "monotonic", lambda: 3_600.0 * next(hours))
    late = explained(operations, failure, continuations=5, points=5)
    assert not late.is_cut_short
    assert (shares(late), late.runs) == (shares(usual), usual.runs)


def test_a_seeded_tape_is_recorded_first() -> None:
    """What was saved before it was shrunk can be explained as well."""
    main = functools.partial(lost_update, 2)
    failure = found(main, runs=3_000, order="any", shrink=False)
    tape = foretold.Tape.seeded(failure.seed, failure.tape.settings)
    figure = explain(bind_main(main), tape, continuations=10)
    assert shares(figure)[-1] == 1.0
    assert figure.jump is not None


def test_a_budget_is_kept() -> None:
    """Broken off in the middle, it shows what it has."""
    main = functools.partial(lost_update, 4, noise=10)
    figure = explained(main, found(main, runs=3_000, order="any"), runs_max=70)
    assert figure.runs == 70
    assert figure.is_cut_short
    assert len(figure.points) == 3


def test_what_holds_cannot_be_explained() -> None:
    """A tape of a bug that was mended."""
    failure = found(operations, runs=500)
    with pytest.raises(foretold.UsageError, match="holds on this tape"):
        explain(bind_main(lambda: None), failure.tape)
