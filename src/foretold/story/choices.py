"""What a tape says besides who waited for whom: times of a database, random values, and the rest.

In the calm run each of these choices is 0. A story must not say that nothing was unusual while one
of them decides what happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from foretold.services.postgres.gateway import CONNECT_NS, STATEMENT_NS
from foretold.story.words import count, duration
from foretold.tape import WORKLOAD, Choice

Choices = Mapping[str, Sequence[Choice]]

SESSIONS_MAX = 3
"""Of more, one sentence tells of all."""
STATEMENT, CONNECTION, TURN = "time for a statement", "time to connect", "whose statement"
_POSTGRES, _RANDOM, _PACE = "postgres", "entropy", "pace"
_TOLD = (WORKLOAD, "machine", "knob", "swarm", "mirror", "prophecy", "from_model", _PACE)
"""What is drawn there is a value of the test, or is told by a sentence of its own."""


class Slowness(NamedTuple):
    """What took longer than in the calm run in one session of a database."""

    session: str
    """`session 1`."""
    times: int
    most_ns: int


def slow_statements(choices: Choices) -> list[Slowness]:
    """The sessions of PostgreSQL whose statements took longer."""
    return list(_slow(choices, STATEMENT, STATEMENT_NS))


def slow_connections(choices: Choices) -> list[Slowness]:
    """The sessions of PostgreSQL that took longer to begin."""
    return list(_slow(choices, CONNECTION, CONNECT_NS))


def _slow(choices: Choices, label: str, options: Sequence[int]) -> Iterator[Slowness]:
    for name, entries in choices.items():
        if name.partition("/")[0] == _POSTGRES:
            slow = [each.value for each in entries if each.value and each.label == label]
            if slow:
                most_ns = options[min(max(slow), len(options) - 1)]
                yield Slowness(name.partition("/")[2].partition(" ")[2], len(slow), most_ns)


def service_sentences(choices: Choices) -> list[str]:
    """`PostgreSQL took up to 20 ms instead of 200 µs for 4 statements of session 1`."""
    said = [
        f"PostgreSQL took {_took(each, STATEMENT_NS[0])} for {count(each.times, 'statement')} of "
        f"{each.session}"
        for each in _at_most(slow_statements(choices))
    ]
    said += [
        f"PostgreSQL took {_took(each, CONNECT_NS[0])} to connect {each.session}"
        for each in _at_most(slow_connections(choices))
    ]
    if any(each.value and each.label == TURN for entries in choices.values() for each in entries):
        said.append("the tape said whose statement the database executed next")
    return said


def _took(slow: Slowness, usual_ns: int) -> str:
    most = "up to " if slow.times > 1 else ""
    return f"{most}{duration(slow.most_ns)} instead of {duration(usual_ns)}"


def _at_most(slow: list[Slowness]) -> list[Slowness]:
    if len(slow) <= SESSIONS_MAX:
        return slow
    times, most_ns = sum(each.times for each in slow), max(each.most_ns for each in slow)
    return [Slowness(count(len(slow), "session"), times, most_ns)]


def random_values(choices: Choices) -> int:
    """How many choices of random values are not the calm ones."""
    return others(choices)[_RANDOM]


def others(choices: Choices) -> Counter[str]:
    """How many choices are not the calm ones, of which nothing is said elsewhere: by the kind of
    their streams."""
    found: Counter[str] = Counter()
    for name, entries in choices.items():
        kind = name.partition("/")[0]
        if kind not in _TOLD:
            labels = (each.label for each in entries if each.value)
            found[kind] += sum(label not in (STATEMENT, CONNECTION) for label in labels)
    return +found


def calm_sentence(choices: Choices, is_chosen: bool) -> str:
    """That no task was delayed; and what may decide it instead."""
    left = others(choices)
    values = ["the values that were chosen"] * is_chosen
    values += ["the random values that were drawn"] * bool(left.pop(_RANDOM, 0))
    given = f", with {' and '.join(values)}" if values else ""
    if left:
        kinds = ", ".join(sorted(left))
        return f"No task was delayed, but other choices were not the calm ones ({kinds}){given}."
    return f"No task was delayed: this happens when all take turns{given}."
