"""The harness: wiring is checked, time and chance obey, and a scenario swallows nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from unittest.mock import Mock

import pytest

import foretold
from foretold.harness import (
    EventBus,
    HarnessFactory,
    NotAllowed,
    ScenarioRunner,
    Wiring,
    check_golden,
)
from foretold.harness.program import ScenarioProgram
from foretold.scenario.model import read_scenario
from foretold.world.clock import CancelToken
from tests.scenario.shop import MemoryBank, Shop, shop


def played(steps, *, load=1, settings=None, **more):
    """A run of a scenario with these steps; gives the lines of its log."""
    return foretold.run(program(steps, **more), load=load, **(settings or {}))


def program(steps, **more):
    """The scenario with these steps as a program."""
    import json

    given = {"name": "x", "actors": ["ann", "root"], "steps": steps, **more}
    return ScenarioProgram(read_scenario(json.dumps(given), "x.scenario.json"), shop)


def wired(**ports):
    """The shop's configuration with other ports."""

    def maker(port):
        return lambda world: port

    makers = {name: maker(port) for name, port in ports.items()}
    return replace(shop.config(), wiring=Wiring(makers))


def refusal(config):
    """What the factory says about a configuration."""
    with pytest.raises(foretold.UsageError) as raised:
        foretold.run(lambda: HarnessFactory.create(config))
    return str(raised.value)


class Half:
    """A bank that cannot charge."""


def test_wiring_is_checked_before_anything_is_played():
    """Each way in which a port can be wrong has its sentence."""
    assert "needs the port 'bank'" in refusal(wired())
    assert "a port 'bnak', which Shop does not name" in refusal(
        wired(bank=MemoryBank(), bnak=MemoryBank())
    )
    assert "has no 'charge'" in refusal(wired(bank=Half()))
    assert "is a mock, which accepts any call" in refusal(wired(bank=Mock()))
    assert "was made as None" in refusal(wired(bank=None))


def test_a_port_belongs_to_one_world():
    """State that leaks from one run into the next would make runs depend on their order."""
    bank = MemoryBank()

    def main():
        HarnessFactory.create(wired(bank=bank))

    foretold.run(main)
    with pytest.raises(foretold.UsageError, match="belongs to another world already"):
        foretold.run(main)


def test_nothing_is_wired_outside_of_a_run():
    """There everything would be real."""
    with pytest.raises(foretold.UsageError, match="inside a run"):
        HarnessFactory.create(shop.config())


def test_capabilities_are_granted_and_revoked():
    """By name and by role; without one an act is refused, and the application is not reached."""

    async def main():
        world = HarnessFactory.create(shop.config())
        root = world.actor("root-2", "root")
        with pytest.raises(NotAllowed, match="lacks the capability 'admin'"):
            await root.dispatch("refund", {"order": "order-1"})
        world.admin.grant_cap("root", "admin")
        assert await root.dispatch("refund", {"order": "order-1"}) == "order-1"
        world.admin.revoke_cap("root", "admin")
        with pytest.raises(NotAllowed):
            await root.dispatch("refund", {"order": "order-1"})
        assert len(world.log.of("Refunded")) == 1
        assert await world.admin.inspect_state("order-1") == {"id": "order-1", "sold": 0}

    foretold.run(main)


def test_chance_comes_from_the_tape():
    """`next` is in its range and calm at 0; `should_fail` obeys its bounds; seeds differ."""

    async def main():
        random = HarnessFactory.create(shop.config()).random
        assert random.should_fail(1.0)
        assert not random.should_fail(0.0)
        return [random.next() for _ in range(20)]

    drawn = foretold.run(main, seed=1).value
    assert all(0 <= value < 1 for value in drawn)
    assert drawn == foretold.run(main, seed=1).value != foretold.run(main, seed=2).value
    with pytest.raises(foretold.UsageError, match="at most 1"):
        foretold.run(lambda: HarnessFactory.create(shop.config()).random.should_fail(2))


# What the specification leaves open


def on_clock(body):
    """A run of `body(clock, said)` with exact time; gives what was said, with milliseconds."""

    async def main():
        clock = HarnessFactory.create(shop.config()).clock
        said = []
        await body(clock, lambda what: said.append((clock.now_ms(), what)))
        return said

    return foretold.run(main, exact_time=True, order="asyncio", tape=foretold.Tape.calm()).value


def test_equal_times_keep_the_order_of_their_scheduling():
    """In stock order, two callbacks of one instant run first scheduled, first run."""

    async def body(clock, say):
        for name in "abc":
            clock.schedule(lambda name=name: say(name), 10)
        clock.schedule(lambda: say("earlier"), 9)
        await clock.advance(10)
        say("end")

    names = ["earlier", "a", "b", "c", "end"]
    assert on_clock(body) == list(zip([9, 10, 10, 10, 10], names, strict=True))


def test_an_exception_in_a_callback_fails_the_run():
    """Nobody awaits a callback; its exception is not lost."""

    async def body(clock, say):
        clock.schedule(lambda: 1 / 0, 1)
        await clock.advance(5)

    with pytest.raises(ZeroDivisionError):
        on_clock(body)


def test_work_that_renews_itself_is_no_idleness():
    """`run_until_idle` would never return: it is an error, not a hang."""

    async def body(clock, say):
        def again():
            clock.schedule(again, 60_000)

        again()
        await clock.run_until_idle()

    with pytest.raises(foretold.ForetoldError, match="idle"):
        on_clock(body)


def test_what_is_called_off_does_not_happen():
    """Also by a callback of the same instant that runs before it; later it changes nothing."""

    async def body(clock, say):
        first = clock.schedule(lambda: say("first"), 5)
        tokens: list[CancelToken] = []
        clock.schedule(lambda: tokens[0].cancel(), 5)
        tokens.append(clock.schedule(lambda: say("never"), 5))
        await clock.advance(10)
        first.cancel()

    assert on_clock(body) == [(5, "first")]


def test_settling_does_not_move_time():
    """Work that is due now is done, with all that follows from it; what cooks goes on cooking."""

    async def body(clock, say):
        async def soon():
            await asyncio.sleep(0)
            say("soon")

        clock.schedule(soon, 0)
        clock.schedule(lambda: say("in an hour"), 3_600_000)
        await clock.settle()
        say("settled")

    assert on_clock(body) == [(0, "soon"), (0, "settled")]


# Playing


def test_an_act_that_raises_fails_the_run():
    """The exception itself comes out, with the place of its step."""
    with pytest.raises(foretold.Refused, match="too many") as raised:
        played([{"kind": "act", "actor": "ann", "intent": "buy", "payload": {"pieces": 11}}])
    assert "x.scenario.json:1" in raised.value.__notes__[0]


def test_the_expected_error_must_come():
    """Its kind and its words; success in its place fails as well."""
    buy = {"kind": "act", "actor": "ann", "intent": "buy"}
    played([{**buy, "payload": {"pieces": 11}, "expect_error": "Refused"}])
    for payload, error, said in (
        ({"pieces": 1}, "Refused", "has succeeded, expected Refused"),
        ({"pieces": 11}, "KeyError", "raised Refused: too many, expected KeyError"),
        ({"pieces": 11}, {"type": "Refused", "message": "few"}, "expected Refused saying 'few'"),
    ):
        with pytest.raises(foretold.PropertyViolated, match=said):
            played([{**buy, "payload": payload, "expect_error": error}])


def test_expectations_of_results_and_queries():
    """By value, by comparison, by subset; the sentence says what is different."""
    buy = {"kind": "act", "actor": "ann", "intent": "buy", "save": "order"}
    ask = {"kind": "assert", "query": "count"}
    played([{**buy, "expect": {"$subset": {"id": "order-1"}}}, {**ask, "expect": {"$ge": 1}}])
    with pytest.raises(foretold.PropertyViolated, match="it is 1, expected more than 1"):
        played([buy, {**ask, "expect": {"$gt": 1}}])
    with pytest.raises(foretold.PropertyViolated, match="id is 'order-1', expected 'order-2'"):
        played([{**buy, "expect": {"id": "order-2", "pieces": 1}}])
    with pytest.raises(foretold.PropertyViolated, match="has 'pieces' besides"):
        played([{**buy, "expect": {"id": "order-1"}}])


def test_events_have_their_times_and_their_silence():
    """At 5 ms and not before; each of the three mistakes is told."""
    later = {"kind": "act", "actor": "ann", "intent": "later", "payload": {"ms": 5}}
    wait = {"kind": "wait", "ms": 7}

    def events(ms, **more):
        return {"kind": "assert", "expect_events": [{"event": "Due", "at": {"ms": ms}}], **more}

    silence = {"kind": "assert", "silence": {"from": {"ms": 0}, "to": {"ms": 5}}}
    played([later, wait, events(5, exactly=True), silence])
    with pytest.raises(foretold.PropertyViolated, match=r"lacks Due at 0\.006 s"):
        played([later, wait, events(6)])
    loud = {"kind": "assert", "silence": {"from": {"ms": 0}, "to": {"ms": 6}}}
    with pytest.raises(foretold.PropertyViolated, match="silence was expected"):
        played([later, wait, loud])
    with pytest.raises(foretold.PropertyViolated, match="besides"):
        played([later, later, wait, events(5, exactly=True)])


def test_observers_look_after_each_step():
    """The hundredth piece is fine, the next one fails although nobody asserts anything."""
    buy = {"kind": "act", "actor": "ann", "intent": "buy", "payload": {"pieces": 10}}
    played([{"kind": "repeat", "times": 10, "steps": [buy]}])
    with pytest.raises(AssertionError, match="sold 110"):
        played([{"kind": "repeat", "times": 11, "steps": [buy]}])


def test_load_is_copies_that_do_not_see_each_other():
    """Five copies sell five; each finds just its own event, at its own time."""
    steps = [
        {"kind": "act", "actor": "ann", "intent": "buy", "save": "order"},
        {"kind": "wait", "ms": 1},
        {"kind": "assert", "expect_events": [{"event": "Sold", "at": {"ms": 0}}], "exactly": True},
        {"kind": "wait", "seconds": 10},
        {"kind": "assert", "query": "count", "expect": 5},
    ]
    lines = played(steps, load=5, stagger={"seconds": 5}, settings={"seed": 3}).value
    assert len(lines) == 5
    assert len({line.partition('"t_ms": ')[2].partition(",")[0] for line in lines}) > 1
    assert '"to": "ann"' in "".join(lines)
    assert '"to": "ann-5"' in "".join(lines)


def test_a_parallel_block_ends_with_its_last_branch():
    """The scenario's time goes on from the longest branch."""
    steps = [
        {"kind": "parallel", "branches": [
            [{"kind": "wait", "ms": 3}],
            [{"kind": "wait", "ms": 8}, {"kind": "act", "actor": "ann", "intent": "buy"}],
        ]},
        {"kind": "wait", "ms": 2},
        {"kind": "act", "actor": "ann", "intent": "buy"},
        {"kind": "assert", "expect_events": [
            {"event": "Sold", "at": {"ms": 8}}, {"event": "Sold", "at": {"ms": 10}}
        ]},
    ]  # fmt: skip
    played(steps)


def test_branches_that_wait_for_the_same_instant_overlap():
    """Both read the counter before one of them writes it, although each has waited; the same with
    a load of two."""
    meet = {"kind": "act", "actor": "ann", "intent": "meet", "expect": 2}
    wait = {"kind": "wait", "ms": 5}
    played([{"kind": "parallel", "branches": [[wait, meet], [wait, meet]]}])
    played([wait, meet], load=2)


def test_drawn_values_shrink():
    """A search finds that six pieces break a promise, and no smaller number does."""
    buy = {"kind": "act", "actor": "ann", "intent": "buy"}
    steps = [
        {**buy, "payload": {"pieces": {"$between": [1, 9]}}},
        {**buy, "payload": {"pieces": {"$draw": "few"}}},
        {**buy, "payload": {"pieces": {"$choose": [1, 2]}}},
        {"kind": "assert", "query": "count", "expect": {"$lt": 6}},
    ]  # fmt: skip
    found = foretold.explore(program(steps), runs=100, seed=1, confirm=False).failure
    assert found is not None
    assert "it is 6, expected less than 6" in str(found.exception)


def test_faults_strike_where_a_scenario_says():
    """Each call of the bank fails, before or after its effect; healed, none does."""
    buy = {"kind": "act", "actor": "ann", "intent": "buy"}
    failing = {**buy, "expect_error": "ConnectionError"}
    on = {"kind": "faults", "ports": {"bank.charge": 1}}
    played([on, failing, {"kind": "faults", "heal": True}, buy])
    with pytest.raises(ConnectionError, match=r"bank\.charge has failed"):
        played([on, buy])


def test_reactions_come_right_after_their_event():
    """What the event says can be used; an unexpected success fails the run."""
    steps = [{"kind": "act", "actor": "ann", "intent": "buy"}]
    reaction = {
        "after": "Sold",
        "actor": "root",
        "intent": "refund",
        "payload": {"order": "$event.to"},
    }
    played(steps, reactions=[{**reaction, "expect_error": "NotAllowed"}])
    with pytest.raises(foretold.PropertyViolated, match="NotAllowed"):
        played(steps, reactions=[
            {"after": "Sold", "actor": "root", "intent": "later", "payload": {"ms": 1},
             "expect_error": "NotAllowed"}
        ])  # fmt: skip


def test_a_runner_takes_plain_data():
    """As the specification writes it: `ScenarioRunner(world).play(scenario)`."""

    async def main():
        runner = ScenarioRunner(HarnessFactory.create(shop.config()))
        steps = [{"kind": "act", "actor": "ann", "intent": "buy", "payload": {}}]
        log = await runner.play({"name": "x", "seed": 1, "actors": ["ann"], "steps": steps})
        return [event.name for event in log]

    assert foretold.run(main).value == ["Sold"]


# The bus


def bus_run(body):
    """A run of `body(bus, seen)`; gives what was seen."""

    async def main():
        seen: list[str] = []
        await body(EventBus(), seen)
        return seen

    return foretold.run(main).value


def test_events_are_published_after_the_commit():
    """A unit that raises, or whose commit does, publishes nothing."""

    async def body(bus, seen):
        bus.subscribe("A", lambda event: seen.append("heard"))

        async def commit(events):
            seen.append("commit")

        async def broken(events):
            raise OSError("disk full")

        async with bus.unit(commit) as unit:
            unit.publish("A")
            seen.append("published")
        with pytest.raises(OSError, match="disk full"):
            async with bus.unit(broken) as unit:
                unit.publish("A")
        with pytest.raises(ValueError, match="no"):
            async with bus.unit(commit) as unit:
                unit.publish("A")
                raise ValueError("no")

    assert bus_run(body) == ["published", "commit", "heard"]


def test_handlers_run_one_after_the_other_in_outbox_order():
    """What a handler publishes comes after what is waiting, and after all handlers of its event."""

    async def body(bus, seen):
        async def first(event):
            seen.append(f"first {event.data['n']}")
            await asyncio.sleep(0.01)
            seen.append(f"first {event.data['n']} ends")
            if event.data["n"] < 10:
                async with bus.unit() as unit:
                    unit.publish("A", n=event.data["n"] * 10)

        bus.subscribe("A", first)
        bus.subscribe("A", lambda event: seen.append(f"second {event.data['n']}"))
        async with bus.unit() as unit:
            unit.publish("A", n=1)
            unit.publish("A", n=2)

    said = [[f"first {n}", f"first {n} ends", f"second {n}"] for n in (1, 2, 10, 20)]
    assert bus_run(body) == [line for lines in said for line in lines]


def test_a_handler_that_fails_does_not_stop_the_others():
    """All handlers of all events run; then who has committed gets the exception, also that of a
    handler whose event another handler has published."""

    async def body(bus, seen):
        async def fails(event):
            raise LookupError("broken projection")

        async def publishes(event):
            async with bus.unit() as unit:
                unit.publish("B")

        bus.subscribe("A", publishes)
        bus.subscribe("B", fails)
        bus.subscribe("*", lambda event: seen.append(event.name))
        with pytest.raises(LookupError, match="broken projection"):
            async with bus.unit() as unit:
                unit.publish("A")
        seen.append("committed all the same")

    assert bus_run(body) == ["A", "B", "committed all the same"]


def test_causes_and_conversations_follow_events():
    """What a handler says is caused by what it handles, also by a timer that it sets."""

    async def main(world):
        bus = EventBus()

        def handler(event):
            foretold.event("Handled")
            world.clock.schedule(lambda: foretold.event("Later"), 1)

        bus.subscribe("A", handler)
        foretold.event("Before")
        async with bus.unit() as unit:
            unit.publish("A")
        await world.clock.advance(2)
        return world.log

    log = foretold.run(main).value
    [published] = log.of("A")
    assert [each.name for each in log.caused_by(published)] == ["Handled", "Later"]
    assert [each.cause for each in log] == [None, None, published.id, published.id]


# The log


def test_the_log_is_asked_by_time_and_name():
    """Virtual seconds, half-open; names; silence as an assertion; nothing outside of a run."""

    async def main(world):
        foretold.event("A", n=[1])
        await world.clock.advance(60)
        foretold.event("B")
        return world.log

    log = foretold.run(main, exact_time=True).value
    assert [str(each) for each in log] == ["[0 s] A(n=[1])", "[1 min] B()"]
    assert [each.name for each in log.between(0, 60)] == ["A"]
    assert [each.time_s for each in log.of("B")] == [60]
    log.silence(0, 60)
    with pytest.raises(foretold.PropertyViolated, match="silence was expected"):
        log.silence(0, 61)
    log.silence(0, 61, "A")
    span = log.otlp()["resourceSpans"][0]["scopeSpans"][0]["spans"][1]
    assert (span["name"], span["startTimeUnixNano"]) == ("B", "60000000000")
    foretold.event("Outside")
    assert len(log) == 2


def test_a_golden_file_is_compared(tmp_path):
    """One that is missing fails; a difference is shown by its lines; `update` writes."""
    file = tmp_path / "golden" / "x.jsonl"
    with pytest.raises(foretold.PropertyViolated, match="is missing"):
        check_golden(["a", "b"], file)
    assert not file.exists()
    check_golden(["a", "b"], file, update=True)
    check_golden(["a", "b"], file)
    with pytest.raises(foretold.PropertyViolated, match=r"\n-b\n\+c\n"):
        check_golden(["a", "c"], file)


def test_the_shop_is_an_application():
    """What the tests above play on: its vocabulary is read from its methods."""
    words = shop.vocabulary()
    assert list(words.intents) == ["buy", "refund", "later", "meet"]
    assert words.intents["buy"].required == ()
    assert words.intents["refund"].required == ("order",)
    assert Shop.buy.__name__ == "buy"
