"""The scenario itself: what a file says once it is known to be well-formed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from foretold.errors import ScenarioError
from foretold.scenario.matching import check_expectation
from foretold.scenario.schema import check
from foretold.scenario.source import Mark, Node, parse, problem, read_text
from foretold.scenario.values import Drawn, read_value

MS = {"ms": 1, "seconds": 1_000, "minutes": 60_000}
STEPS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """What an act or a query must raise."""

    type: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the program."""

    mark: Mark


@dataclass(frozen=True, slots=True)
class Wait(Step):
    """Virtual time passes."""

    amount: Any
    unit_ms: int


@dataclass(frozen=True, slots=True)
class Act(Step):
    """An actor does something."""

    actor: str
    intent: str
    payload: dict[str, Any]
    keys: dict[str, Mark]
    actor_mark: Mark
    save: str | None = None
    expect: Any = None
    expects: bool = False
    error: ExpectedError | None = None
    slot: int | None = None
    overlap_ms: float | None = None
    drawn: bool = False


@dataclass(frozen=True, slots=True)
class Ask(Step):
    """A query, and what it must give."""

    query: str
    args: dict[str, Any]
    keys: dict[str, Mark]
    expect: Any
    error: ExpectedError | None


@dataclass(frozen=True, slots=True)
class ExpectedEvent:
    """One event that must be in the log."""

    name: str
    at_ms: float | None
    data: Any


@dataclass(frozen=True, slots=True)
class Events(Step):
    """Events that must be in the log, in this order."""

    expected: tuple[ExpectedEvent, ...]
    exactly: bool


@dataclass(frozen=True, slots=True)
class Silence(Step):
    """Between two instants nothing was said."""

    from_ms: float
    to_ms: float
    of: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parallel(Step):
    """Several things at once."""

    branches: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True, slots=True)
class Repeat(Step):
    """The same several times."""

    times: Any
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Faults(Step):
    """From now on calls of ports fail so often; without any, all is healed."""

    ports: dict[str, float]
    keys: dict[str, Mark]


@dataclass(frozen=True, slots=True)
class Look(Step):
    """What must always hold is looked at, now."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """What an actor does right after an event."""

    after: str
    act: Act


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a file says."""

    file: str
    name: str
    steps: tuple[Step, ...]
    marks: Mapping[str, Mark]
    """Where its keys stand."""
    actors: tuple[str, ...] = ()
    actor_marks: tuple[Mark, ...] = ()
    harness: str = ""
    wirings: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (1,)
    loads: tuple[int, ...] = (1,)
    stagger_ms: float = 0
    runs: int | None = None
    faults: str = ""
    golden: str = ""
    replay: str = ""
    reactions: tuple[Reaction, ...] = field(default=())

    def mark_of(self, key: str) -> Mark:
        return self.marks.get(key, Mark(1, 1))

    def problem(self, key: str, what: str) -> ScenarioError:
        """The error for something that is wrong at this key of the file."""
        return problem(self.file, self.mark_of(key), what)

    def all_steps(self) -> Iterator[Step]:
        """All steps, those inside of others as well, in the order of the file."""
        return _all(self.steps)


def _all(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        if isinstance(step, Repeat):
            yield from _all(step.steps)
        if isinstance(step, Parallel):
            for branch in step.branches:
                yield from _all(branch)


def steps_in(steps: Sequence[Step]) -> int:
    """How many steps are made, at most."""
    return sum(_made(step) for step in steps)


def _made(step: Step) -> int:
    if isinstance(step, Parallel):
        return sum(map(steps_in, step.branches))
    if not isinstance(step, Repeat):
        return 1
    times = step.times
    if isinstance(times, Drawn):
        times = 1 if times.how == "$draw" else max(times.given)
    return max(1, steps_in(step.steps)) * (times if isinstance(times, int) else 1)


def load_scenario(path: str | Path) -> Scenario:
    """Read a file. Raises a `ScenarioError`, a sentence with line and column, if it cannot be."""
    return read_scenario(read_text(Path(path)), str(path))


def read_scenario(text: str, file: str) -> Scenario:
    """The scenario that a text says; the name of the file says how it is written."""
    root = parse(text, file)
    check(root, file)
    return _Build(file).scenario(root)


class _Build:
    """From a tree that fits the schema to a scenario."""

    def __init__(self, file: str) -> None:
        self.file = file

    def problem(self, at: Mark, what: str) -> ScenarioError:
        return problem(self.file, at, what)

    def scenario(self, root: Node) -> Scenario:
        given = root.value
        plain = {key: node.plain() for key, node in given.items() if key not in ("steps", "name")}
        actors = given["actors"].value if "actors" in given else []
        self._check_twice(actors)
        self._check_texts(given)
        return Scenario(
            self.file,
            given["name"].value,
            self.steps(given["steps"]),
            root.keys,
            actors=tuple(each.value for each in actors),
            actor_marks=tuple(each.mark for each in actors),
            harness=plain.get("harness", ""),
            wirings=_listed(plain.get("wiring", [])),
            seeds=_listed(plain.get("seed", 1)),
            loads=_listed(plain.get("load", 1)),
            stagger_ms=self.time(given["stagger"]) if "stagger" in given else 0,
            runs=plain.get("runs"),
            faults=plain.get("faults", ""),
            golden=plain.get("golden", ""),
            replay=plain.get("replay", ""),
            reactions=tuple(self.reaction(each) for each in _nodes(given, "reactions")),
        )

    def _check_twice(self, actors: list[Node]) -> None:
        seen: set[str] = set()
        for each in actors:
            if each.value in seen:
                raise self.problem(each.mark, f"the actor {each.value!r} is listed twice")
            seen.add(each.value)

    def _check_texts(self, given: dict[str, Node]) -> None:
        name, golden = given["name"], given.get("golden")
        if not name.value.isprintable():
            raise self.problem(name.mark, "name is one line of text that can be printed")
        if golden is not None and (
            PurePath(golden.value).is_absolute() or ".." in PurePath(golden.value).parts
        ):
            raise self.problem(
                golden.mark, "golden is a file beside this one, or in a folder there"
            )

    def steps(self, node: Node) -> tuple[Step, ...]:
        return tuple(self.step(each) for each in node.value)

    def repeat(self, node: Node) -> Repeat:
        """Loops inside of each other are short to write and may never end."""
        times, steps = self.amount(node.value["times"]), self.steps(node.value["steps"])
        self._check_amount(node.value["times"], times, whole=True)
        made = Repeat(node.mark, times, steps)
        if steps_in([made]) > STEPS_MAX:
            raise self.problem(node.mark, f"it repeats more than {STEPS_MAX:,} steps")
        return made

    def _check_amount(self, node: Node, value: Any, *, whole: bool = False) -> None:
        """What can be drawn is a number, too. What a strategy gives is known when it is played."""
        if not isinstance(value, Drawn) or value.how == "$draw":
            return
        for each in value.given:
            right = isinstance(each, int) or (isinstance(each, float) and not whole)
            if not right or isinstance(each, bool) or each < 0:
                what = "a whole number of 0 or more" if whole else "a number of 0 or more"
                raise self.problem(node.mark, f"this is {what}, and may be {each!r}")

    def step(self, node: Node) -> Step:
        given = node.value
        kind = given["kind"].value
        if kind == "wait":
            unit = next(each for each in MS if each in given)
            amount = self.amount(given[unit])
            self._check_amount(given[unit], amount)
            return Wait(node.mark, amount, MS[unit])
        if kind == "parallel":
            return Parallel(node.mark, tuple(self.steps(each) for each in given["branches"].value))
        if kind == "repeat":
            return self.repeat(node)
        if kind == "faults":
            ports = given["ports"] if "ports" in given else Node({}, node.mark)
            if "ports" in given and not ports.value:
                raise self.problem(ports.mark, "ports is empty: name some, or write heal: true")
            return Faults(node.mark, ports.plain(), ports.keys)
        if kind == "look":
            return Look(node.mark)
        return self.act(node) if kind == "act" else self.asserted(node)

    def act(self, node: Node) -> Act:
        given = node.value
        payload = given.get("payload") or Node({}, node.mark)
        self._not_both(node, "expect", "expect_error")
        return Act(
            given["intent"].mark,
            given["actor"].value,
            given["intent"].value,
            self.payload(payload),
            payload.keys,
            given["actor"].mark,
            save=given["save"].value if "save" in given else None,
            expect=self.expectation(given["expect"]) if "expect" in given else None,
            expects="expect" in given,
            error=self.error(given.get("expect_error")),
            slot=given["slot"].value if "slot" in given else None,
            overlap_ms=self.time(given["overlap"]) if "overlap" in given else None,
            drawn="drawn" in given and given["drawn"].value,
        )

    def asserted(self, node: Node) -> Step:
        given = node.value
        if "query" in given:
            return self._ask(node)
        beside = [key for key in ("args", "expect", "expect_error") if key in given]
        if beside:
            raise self.problem(node.keys[beside[0]], f"{beside[0]} belongs to a query")
        if "exactly" in given and "silence" in given:
            raise self.problem(node.keys["exactly"], "exactly belongs to expect_events")
        if "silence" in given:
            return self._silence(given["silence"])
        events = tuple(self.event(each) for each in given["expect_events"].value)
        return Events(node.mark, events, "exactly" in given and given["exactly"].value)

    def _ask(self, node: Node) -> Ask:
        given = node.value
        self._not_both(node, "expect", "expect_error")
        if "exactly" in given:
            raise self.problem(node.keys["exactly"], "exactly belongs to expect_events")
        if "expect" not in given and "expect_error" not in given:
            raise self.problem(node.mark, "a query has an expect, or an expect_error")
        args = given.get("args") or Node({}, node.mark)
        return Ask(
            given["query"].mark,
            given["query"].value,
            self.payload(args),
            args.keys,
            self.expectation(given["expect"]) if "expect" in given else None,
            self.error(given.get("expect_error")),
        )

    def _not_both(self, node: Node, one: str, other: str) -> None:
        if one in node.value and other in node.value:
            raise self.problem(node.keys[other], f"give {one} or {other}, not both")

    def _silence(self, node: Node) -> Silence:
        given = node.value
        low, high = self.time(given["from"]), self.time(given["to"])
        if high <= low:
            raise self.problem(given["to"].mark, "the end of the silence lies after its start")
        return Silence(node.mark, low, high, tuple(each.value for each in _nodes(given, "of")))

    def event(self, node: Node) -> ExpectedEvent:
        given = node.value
        at_ms = self.time(given["at"]) if "at" in given else None
        data = self.expectation(given["data"]) if "data" in given else {}
        return ExpectedEvent(given["event"].value, at_ms, data)

    def reaction(self, node: Node) -> Reaction:
        return Reaction(node.value["after"].value, self.act(node))

    def error(self, node: Node | None) -> ExpectedError | None:
        if node is None:
            return None
        given = node.plain()
        return ExpectedError(given) if isinstance(given, str) else ExpectedError(**given)

    def value(self, node: Node) -> Any:
        return read_value(node, self.file)

    def amount(self, node: Node) -> Any:
        value = self.value(node)
        if isinstance(value, dict):
            raise self.problem(
                node.mark, "this is a number, or a mapping such as {$between: [1, 5]}"
            )
        return value

    def payload(self, node: Node) -> dict[str, Any]:
        """A payload as a whole is never drawn: the intent's parameters must be known."""
        return {key: self.value(each) for key, each in node.value.items()}

    def expectation(self, node: Node) -> Any:
        check_expectation(node, self.file)
        return read_value(node, self.file, compares=True)

    def time(self, node: Node) -> float:
        """A time that is no one's to draw: it is compared with."""
        unit, amount = next(iter(node.value.items()))
        value = self.value(amount)
        if isinstance(value, Drawn | dict):
            raise self.problem(amount.mark, "this time is a number, and is not drawn")
        return float(value) * MS[unit]


def _nodes(given: dict[str, Node], key: str) -> list[Node]:
    found: list[Node] = given[key].value if key in given else []
    return found


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list) else (value,)
