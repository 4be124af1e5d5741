"""Stories: what a developer who never heard of foretold is told about a failing run.

Most of them are told of real runs on hand-written tapes, so that no search has to find them first.
"""

from __future__ import annotations

import itertools
import os
import re
import sysconfig
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foretold.story.story import LINES_MAX, tell, tell_run
from foretold.story.wording import Wording
from foretold.story.words import SOURCE_CHARS_MAX
from foretold.tape import CALLBACKS, ENDED, Choice, Hold, Schedule, Slow, Tape
from foretold.trace import CANCELLED, Place
from foretold.trace.events import (
    NOBODY,
    WORLD,
    CalledBack,
    Chose,
    Ended,
    Event,
    Executed,
    Failed,
    Made,
    Request,
    Resumed,
    SlowStep,
)
from foretold.trace.record import KEPT_EVENTS
from foretold.world.run import Run, bind_main, execute
from foretold.world.settings import Settings
from tests.report import programs

ANY = {"order": "any", "strategy": "random"}


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run_on(
    text: str,
    *entries: Hold | Slow,
    name: str = "main",
    choices: dict[str, list[Choice]] | None = None,
) -> Run:
    """Run a planted program on a tape with these exceptions to the calm order."""
    main = getattr(programs.load(programs.write(Path.cwd(), text)), name)
    tape = Tape("derived", settings=ANY, schedule=Schedule.of(entries), choices=choices)
    return execute(bind_main(main), tape, Settings.from_tape(ANY), detail=True)


def story_of(text: str, *entries: Hold | Slow, **choices: list[Choice]) -> str:
    """What is told of a run that fails."""
    done = run_on(text, *entries, choices=choices)
    assert done.error is not None
    return tell_run(done)[0]


def lines_about(story: str, word: str) -> list[str]:
    """The lines of a story in which a word occurs."""
    return [line for line in story.splitlines() if word in line]


def test_a_lost_update_reads_as_one_sentence_and_a_few_lines() -> None:
    """The whole point: who was held where, until when, and what came of it, nothing else."""
    story = story_of(programs.BANK, Hold("main", "deposit", 2, "refund", ENDED))
    assert story == (
        "All take turns, first come first served, except that\n"
        "  deposit was held before its 2nd step, at bank.py:8 `await asyncio.sleep(0)`, "
        "until refund had ended\n"
        "What happened, in virtual time:\n"
        "  0.000001 s  main     bank.py:18  starts, runs to line 20: "
        "await asyncio.gather(deposit(account, 5), refund(account))\n"
        "  0.000002 s  deposit  bank.py:6   starts, runs to line 8: await asyncio.sleep(0)"
        "  (held here)\n"
        "  0.000003 s  refund   bank.py:12  starts, runs to line 14: await asyncio.sleep(0)\n"
        "  0.000004 s  refund   bank.py:14  goes on, is back at this line\n"
        "  0.000005 s  refund   bank.py:14  goes on, runs to line 8: await asyncio.sleep(0)\n"
        "  0.000006 s  refund   bank.py:8   goes on, runs to its end\n"
        "  0.000007 s  deposit  bank.py:8   let go: goes on, runs to its end\n"
        "  0.000010 s  main     bank.py:20  goes on, runs to line 21: "
        'assert account["balance"] == 12, f"only {account[\'balance\']…\n'
        "  0.000010 s  main     bank.py:21  fails: AssertionError: only 5 of 12"
    )


def test_the_delays_come_along_as_data() -> None:
    """`Failure.delays` says the same as the sentence: actor, step, location, until."""
    done = run_on(programs.BANK, Hold("main", "deposit", 2, "refund", ENDED))
    [delay] = tell_run(done)[1]
    assert (delay.actor, delay.step, delay.until) == ("deposit", 2, "refund had ended")
    assert delay.location == Place(str(Path.cwd() / "bank.py"), 8, "deposit")


def test_the_same_run_has_the_same_story() -> None:
    """A story is a function of the run: it may be compared, stored and sent."""
    hold = Hold("main", "deposit", 2, "refund", ENDED)
    assert story_of(programs.NOISY_BANK, hold) == story_of(programs.NOISY_BANK, hold)


def test_bystanders_are_counted_not_listed() -> None:
    """Ten chatting tasks take hundreds of steps; the reader sees one line of them."""
    story = story_of(programs.NOISY_BANK, Hold("main", "deposit", 2, "refund", ENDED))
    assert story.splitlines()[-1] == "  Meanwhile 10 other tasks took 200 steps (chatter × 10)."
    assert len(lines_about(story, "chatter")) == 2, "in that line, and in main's line of source"
    assert len(story.splitlines()) < 20


def test_whoever_a_delay_names_is_shown_and_its_rounds_are_one_line() -> None:
    """A loop of nineteen equal steps is told as one, so that the other lines can be seen."""
    story = story_of(programs.NOISY_BANK, Hold("main", "deposit", 2, "chatter-3", ENDED))
    assert [line.split("  ")[-1] for line in lines_about(story, " chatter-3 ")][1:] == [
        "starts, runs to line 26: await asyncio.sleep(0)",
        "goes round this line 19 times",
        "goes on, runs to its end",
    ]
    assert "Meanwhile 9 other tasks" in story


def test_a_task_that_met_the_held_one_in_a_function_is_shown() -> None:
    """`refund` is in no sentence, but it went through `deposit`: the other half of the bug."""
    story = story_of(programs.NOISY_BANK, Hold("main", "deposit", 2, "chatter-3", ENDED))
    assert len(lines_about(story, "  refund  ")) == 4


def test_a_task_held_before_its_first_step() -> None:
    """There is no line at which it waits: it did not start."""
    text = programs.BANK.replace("range(2)", "range(1)")
    story = story_of(text, Hold("main", "deposit", 1, "refund", 2))
    assert "\n  deposit did not start until refund had made its 2nd step\n" in story
    assert lines_about(story, "let go")[0].endswith(
        "bank.py:6   let go: starts, runs to line 8: await asyncio.sleep(0)"
    )


def test_a_task_that_was_held_to_the_very_end() -> None:
    """The failure came first. The delay is told all the same, else nothing would explain it."""
    text = programs.BANK.replace("await deposit(account, 7)", 'assert account["balance"], "empty"')
    story = story_of(text, Hold("main", "deposit", 2, "main", ENDED))
    assert story.splitlines()[1] == (
        "  deposit was held before its 2nd step, at bank.py:8 `await asyncio.sleep(0)`, "
        "until main had ended"
    )
    assert story.splitlines()[-1].endswith("fails: AssertionError: empty")


def test_a_late_loop_and_a_jump_of_time() -> None:
    """Why a limit of 5.0015 s expires on work of 5.001 s: the loop was busy for 7 ms."""
    assert story_of(programs.LATE, Slow("main", CALLBACKS, 1, 7_000_000)) == (
        "All take turns, first come first served, except that\n"
        "  the event loop was late by 7 ms (a busy machine) when a sleep was over\n"
        "What happened, in virtual time:\n"
        "  0.000001 s  main  bank.py:12  starts, runs to line 7: await asyncio.sleep(5)\n"
        "                                (5 s later)\n"
        "  5.007005 s                    the event loop is late: this step took 7 ms\n"
        "  5.007006 s  main  bank.py:7   goes on, runs to line 8: "
        "await asyncio.sleep(0.001)\n"
        "  5.007008 s                    (a timeout of main expires)\n"
        "  5.007009 s  main  bank.py:8   goes on, runs to line 19: "
        'assert done, "timed out"\n'
        "  5.007009 s  main  bank.py:19  fails: AssertionError: timed out"
    )


RANDOM = """\
import random


async def main():
    assert random.random() < 1e-9
"""


def test_random_values_that_were_drawn() -> None:
    """They may decide it: the story does not say that all is calm."""
    told = story_of(RANDOM, **{"entropy/main": [Choice(2, 1 << 32, "entropy")]})
    assert told.startswith(
        "No task was delayed: this happens when all take turns, with the random values that were "
        "drawn.\n"
    )
    calm = story_of(RANDOM.replace("random.random() <", "1 <"))
    assert calm.startswith("No task was delayed: this happens when all take turns.\n")


def test_times_of_a_database() -> None:
    """A tape that makes statements slow is not the calm one."""
    steps = [Choice(2, 3, "time to connect"), Choice(7, 1 << 30, "seed of random()")]
    steps += [Choice(0, 6, "time for a statement"), *[Choice(5, 6, "time for a statement")] * 3]
    told, _ = tell(Schedule(), [], 0, choices={"postgres/postgres session 1": steps})
    assert told.splitlines()[:3] == [
        "All take turns, first come first served, except that",
        "  PostgreSQL took up to 20 ms instead of 200 µs for 3 statements of session 1",
        "  PostgreSQL took 20 ms instead of 2 ms to connect session 1",
    ]
    many = {f"postgres/postgres session {n}": [steps[-1]] for n in range(5)}
    told, _ = tell(Schedule(), [], 0, choices=many)
    line = "  PostgreSQL took up to 20 ms instead of 200 µs for 5 statements of 5 sessions"
    assert line in told.splitlines()


def test_other_choices_that_are_not_calm() -> None:
    """Nothing is known about them but that they were made, and this is said."""
    choices = {"disk/main": [Choice(1, 2, "short write")], "threads/main": [Choice(9, 10, "seed")]}
    assert tell(Schedule(), [], 0, choices=choices)[0].startswith(
        "No task was delayed, but other choices were not the calm ones (disk, threads).\n"
    )
    turns = {"machine/storm/turns/1": [Choice(1, 2, "whose statement")]}
    assert "whose statement the database executed next" in tell(Schedule(), [], 0, choices=turns)[0]


def test_a_thread_has_no_event_loop() -> None:
    """Neither in the list of delays nor among the steps, and whoever slept."""
    where = Place("pool.py", 3, "serve")
    late = SlowStep(2, "main", "worker", 1, ns=1_030_000, asleep=True)
    step = Resumed(1, "main", "worker", 1, where, is_thread=True)
    told, _ = tell(Schedule(), [step, late, replace(late, asleep=False)], 0)
    assert "the machine is late: threads wake up 1.03 ms after they should" in told
    assert "the machine is late: this step took 1.03 ms" in told
    for asleep, words in ((True, "woke up 1.03 ms late"), (False, "were late by 1.03 ms")):
        slow = Slow("main", "worker", 1, 1_030_000, asleep=asleep)
        told, _ = tell(Schedule.of([slow]), [step], 0)
        assert f"  threads {words} (a busy machine) after the 1st step of worker" in told
        assert "event loop" not in told


LONG = """\
import asyncio


async def early():
    await asyncio.sleep(0.001)


async def main():
    asyncio.create_task(early(), name="early")
    for _ in range(21_000):
        await asyncio.sleep(0)
    assert False
"""


def test_a_delay_of_which_the_event_is_not_kept() -> None:
    """A long run: the late step and the hold have left the window of kept events."""
    told = story_of(LONG, Slow("main", "early", 1, 2_000_000), Hold("main", "early", 2, "main", 9))
    assert "  … of a long run: the last 20,000 events" in told.splitlines()
    assert "No task was delayed" not in told
    assert lines_about(told, "early") == [
        "  early was held before its 2nd step, until main had made its 9th step",
        "  the event loop was late by 2 ms (a busy machine) after the 1st step of early",
    ]
    assert "No task was delayed" in story_of(LONG, Slow("main", "nobody", 3, 2_000_000))


def test_values_that_were_chosen() -> None:
    """No order is to blame: the values are."""
    values = [Choice(50, 101, "amount"), Choice(1, 3, "who")]
    assert story_of(programs.CHOSEN, workload=values) == (
        "No task was delayed: this happens when all take turns, with the values that were chosen.\n"
        "What happened, in virtual time:\n"
        "  0.000001 s  main  bank.py:8   starts, runs to line 11: await asyncio.sleep(1)\n"
        "  0.000001 s  main              chooses amount = 50\n"
        "  0.000001 s  main              chooses who = 'bob'\n"
        "                                (1 s later)\n"
        "  1.000004 s  main  bank.py:11  goes on, runs to line 12: "
        'foretold.always(amount < 50 or who != "bob", "bob gets too…\n'
        "  1.000004 s  main  bank.py:12  fails: PropertyViolated: bob gets too much"
    )


def test_values_chosen_before_the_story_begins_are_listed() -> None:
    """The story begins late; what was chosen earlier still explains it."""
    events = [
        step("main", 1),
        event(Chose, "main", 1, label="amount", value="50"),
        step("a", 1),
        step("b", 1),
        step("a", 2),
    ]
    story, _ = tell(Schedule.of([Hold("main", "a", 2, "b", 1)]), events, 0)
    assert "Chosen before: amount = 50.\nWhat happened" in story


def test_a_blocked_host() -> None:
    """`time.sleep` in a coroutine stops everybody; the line says who and for how long."""
    story = story_of(programs.STALLED)
    assert lines_about(story, "blocked") == [
        "  3.500008 s  blocker                blocked its host for 2.5 s (time.sleep)"
    ]
    assert "(400 ms later)" in story
    assert story.splitlines()[-1].endswith("bank.py:19  fails: AssertionError: no heartbeat")


def test_a_deadlock_has_no_culprit() -> None:
    """Nobody raised it: the last line is about the host, the list of waiters is the exception's."""
    story = story_of(programs.DEADLOCK, Hold("main", "one", 2, "two", ENDED))
    assert story.splitlines()[-1].endswith(
        "fails: Deadlock: nothing can run and nothing is scheduled, yet main is not done."
    )
    assert [line[32:] for line in lines_about(story, "(waits for ")] == [
        "starts, runs to line 24: await asyncio.gather(one(a, b), two(a, b))"
        "  (waits for a future that nothing resolves)",
        "goes on, runs to line 18: async with a:  (waits for Lock.acquire() in locks)",
        "let go: goes on, runs to line 9: async with b:  (waits for Lock.acquire() in locks)",
    ]


def test_nothing_of_what_comes_after_the_failure_or_of_asyncio_itself() -> None:
    """The end of a run (cancelling what is left, closing generators) is none of the reader's."""
    text = programs.BANK.replace(
        "    await asyncio.gather(",
        "    asyncio.create_task(asyncio.sleep(9))\n    await asyncio.gather(",
    )
    done = run_on(text, Hold("main", "deposit", 2, "refund", ENDED))
    assert any(isinstance(e, Ended) and e.outcome.how == CANCELLED for e in done.trace.events), (
        "what is left was cancelled"
    )
    story = tell_run(done)[0]
    assert "cancelled" not in story
    assert "sleep(9)" not in story
    assert story.splitlines()[-1].endswith("fails: AssertionError: only 5 of 12")


def test_where_an_exception_was_raised_counts_not_who_passed_it_on() -> None:
    """gather hands a child's exception to main; the story ends where the child raised it."""
    text = programs.BANK.replace(
        'account["balance"] = balance + amount', 'raise ValueError("no such account")'
    )
    last = story_of(text).splitlines()[-1]
    assert last.split()[2:] == [
        "deposit",
        "bank.py:9",
        *["fails:", "ValueError:", "no", "such", "account"],
    ]


def test_a_swallowed_property_is_the_failure() -> None:
    """The program caught it and went on; the run failed there nevertheless."""
    text = programs.CHOSEN + (
        """

async def swallowing():
    try:
        foretold.always(False, "nothing is lost")
    except AssertionError:
        pass
    await asyncio.sleep(3)
"""
    )
    story = tell_run(run_on(text, name="swallowing"))[0]
    assert story.splitlines()[-1].endswith("bank.py:17  fails: PropertyViolated: nothing is lost")
    assert "later" not in story


def test_costs_of_steps_that_matter_are_told() -> None:
    """A tape may say no more than that steps are slow; without it the run would not fail."""
    choices = {
        "pace/main": [Choice(3, 4, "cost of a step"), Choice(1, 3, "cost of reading a clock")]
    }
    story = story_of(programs.BANK.replace("== 12", "== 13"), **choices)
    assert story.splitlines()[1:3] == [
        "  each step took 40 µs instead of 1 µs",
        "  each look at a clock took 2 µs instead of 1 µs",
    ]


def test_a_seeded_run_is_told_from_what_its_scheduler_did() -> None:
    """A seed has no schedule of its own; recording the run gives one. Many delays name nobody."""
    main = programs.main_of(Path.cwd(), programs.NOISY_BANK)
    settings = Settings.from_tape(ANY)
    runs = (
        execute(bind_main(main), Tape.seeded(n, ANY), settings, recording=True, detail=True)
        for n in range(100)
    )
    failing = next(done for done in runs if done.error is not None)
    story, delays = tell_run(failing)
    assert len(delays) > 8
    assert re.search(r"\n  \d+ steps had to wait .*; which of them matter is not known\n", story)
    assert "was held before" not in story
    assert len(story.splitlines()) <= LINES_MAX + 15
    assert not lines_about(story.partition("What happened")[2], "  chatter")


# With hand-made events: what no small program shows


_clock_ns = itertools.count(1_000, 1_000)


def event(kind: type[Event], actor: str, step: int, **facts: Any) -> Event:
    """One event; time is counted by a clock of its own, a microsecond each."""
    return kind(next(_clock_ns), facts.pop("host", "main"), actor, step, **facts)


def step(
    actor: str, number: int, *, file: str = "app.py", line: int = 1, host: str = "main"
) -> Event:
    """A task makes a step."""
    return event(Resumed, actor, number, place=Place(file, line, "f"), host=host)


def request(time_ns: int, answer: str = "") -> Event:
    """A client asks, or has its answer."""
    return Request(time_ns, "web", WORLD, number=1, client="actor1", asks="GET /", answer=answer)


def test_library_paths_are_cut_to_the_package() -> None:
    """The path of an interpreter says nothing to a reader and differs between machines."""
    stdlib, site = (sysconfig.get_paths()[name] for name in ("stdlib", "purelib"))
    events = [
        step("a", 1, file=os.path.join(stdlib, "asyncio", "queues.py"), line=158),
        step("b", 1, file=os.path.join(site, "httpx", "_client.py"), line=7),
        step("c", 1, file=str(Path.cwd() / "src" / "app.py"), line=3),
        step("d", 1, file="/elsewhere/app.py", line=4),
    ]
    story, _ = tell(Schedule(), events, 0)
    for shown in ("  asyncio/queues.py:158 ", "  httpx/_client.py:7 ", "  src/app.py:3 "):
        assert shown in story
    assert "  /elsewhere/app.py:4 " in story


def test_a_long_story_keeps_its_beginning_and_its_end() -> None:
    """A limit on lines, whatever happens; what is left out is counted."""
    events = [step("main", n, line=n) for n in range(1, 201)]
    story, _ = tell(Schedule(), events, 0)
    lines = story.splitlines()
    assert len(lines) == LINES_MAX + 3
    assert "app.py:1 " in lines[2]
    assert "app.py:200" in lines[-2]
    assert lines_about(story, "left out") == ["  … 161 lines left out"]


def test_time_that_passes_fits_the_times_beside_it() -> None:
    """Between two lines others may be hidden: the whole time from one to the other is told."""
    steps = [step("main", 1)]
    for number in range(40):
        later = step(f"poll-{number}", 1)
        steps.append(replace(later, time_ns=(number + 1) * 1_000_000_000))
    steps.append(replace(step("main", 2), time_ns=40_000_001_000))
    first = steps[0].time_ns
    story, _ = tell(Schedule(), steps, first)
    assert [line.strip() for line in lines_about(story, "later")] == ["(40 s later)"]
    assert "Meanwhile 40 other tasks took 40 steps (poll × 40)." in story


def test_a_run_that_was_too_long_to_be_kept() -> None:
    """The beginning is lost: said, so that nobody takes the first line for the first step."""
    events = [step("main", n, line=n) for n in range(100, 100 + KEPT_EVENTS)]
    story, _ = tell(Schedule(), events, 0)
    assert "\n  … of a long run: the last 20,000 events\n" in story


def test_hosts_are_named_where_there_are_several() -> None:
    """Two hosts may both run a `worker`."""
    events = [step("worker", 1, host="api"), step("worker", 1, host="db")]
    story, _ = tell(Schedule(), events, 0)
    assert "  api/worker  " in story
    assert "  db/worker   " in story


def test_a_callback_that_ends_a_hold_is_put_into_words() -> None:
    """`gather.<locals>._done_callback` is asyncio's name for it, not the reader's."""
    events = [
        step("a", 1),
        event(CalledBack, CALLBACKS, 1, name="gather.<locals>._done_callback"),
        step("a", 2),
        event(CalledBack, CALLBACKS, 2, name="Pool._wake"),
        step("a", 3),
    ]
    holds = [Hold("main", "a", 2, CALLBACKS, 1), Hold("main", "a", 3, CALLBACKS, 2)]
    story, _ = tell(Schedule.of(holds), events, 0)
    assert "until gather had seen one of its tasks end\n" in story
    assert "until the 2nd callback (Pool._wake) had run\n" in story


def test_holds_of_tasks_that_never_were_are_not_told() -> None:
    """A tape may be older than the code: what it says of other tasks has no place in the story."""
    events = [step("main", 1)]
    story, delays = tell(Schedule.of([Hold("main", "gone", 3, "main", 1)]), events, 0)
    assert delays == []
    assert "gone" not in story


def test_long_source_lines_are_cut() -> None:
    """The columns stay readable on a terminal."""
    text = programs.BANK.replace('12, f"only', f'12, "{"x" * 200}" + f"only')
    story = story_of(text, Hold("main", "deposit", 2, "refund", ENDED))
    assert "x" * SOURCE_CHARS_MAX not in story.rpartition("fails:")[0]


def test_a_run_without_events_has_a_story_too() -> None:
    """A plain function may fail before the loop has made one step."""
    story, delays = tell(Schedule(), [], 0, error=ValueError("early"))
    assert story.splitlines()[-1].strip() == "fails: ValueError: early"
    assert delays == []


def conducted(*told: Event, error: BaseException | None = None) -> str:
    """The story of a machine's run, of which these events are known."""
    begin = [step("Shop", 1), event(Chose, "Shop", 1, label="agents", value="3")]
    return tell(Schedule(), [*begin, *told], 0, error=error, is_conducted=True)[0]


def test_what_a_machine_has_chosen_before_the_first_call_is_one_line() -> None:
    """It is part of how the run was set up, and none of its moments."""
    story = conducted(
        step("actor1.buy-1", 1), event(Chose, "actor1.buy-1", 1, label="n", value="2")
    )
    assert "Chosen before: agents = 3.\n" in story
    assert lines_about(story, "agents = 3") == ["Chosen before: agents = 3."]
    assert "chooses n = 2" in story


def test_what_no_task_has_done_is_nobody_s() -> None:
    """An invariant that was broken by a commit: neither who happened to run then nor a callback
    is to blame. Its time is not before what led to it, though the clocks of hosts differ."""
    told = [
        step("actor1.buy-1", 1),
        Executed(9_000_000_000, "postgres", "session 1", 1, sql="COMMIT", tags=("COMMIT",)),
        Failed(4_000, "postgres", NOBODY, said="too many"),
    ]
    (last,) = lines_about(conducted(*told, error=AssertionError("too many")), "fails: ")
    assert last.split(maxsplit=2) == ["9.000000", "s", "fails: AssertionError: too many"]


def test_the_task_of_a_helper_is_called_after_the_call() -> None:
    """`_caught` says nothing; which rule has started it does."""
    told = [
        step("actor1.buy-1", 1),
        event(Made, "_caught-2", 0, by="actor1.buy-1"),
        step("_caught-2", 1),
        event(Failed, "_caught-2", 1, said="no"),
    ]
    story = conducted(*told, error=AssertionError("no"))
    assert "  actor1.buy-1  " in story
    assert "_caught" not in story
    named = [replace(each, actor=each.actor.replace("_caught", "pays")) for each in told]
    assert "  actor1.buy-1 (pays)  " in conducted(*named, error=AssertionError("no"))


def test_a_run_keeps_who_made_which_task() -> None:
    """With detail alone, and without any effect on the run."""
    done = run_on(programs.BANK, Hold("main", "deposit", 2, "refund", ENDED))
    made = {e.actor: e.by for e in done.trace.events if isinstance(e, Made)}
    assert made == {"deposit": "main", "refund": "main"}


def test_a_long_message_is_cut_between_words() -> None:
    """In full it stands above the story; ids have their names before it is cut."""
    key = "0f8fad5b-d9cb-469f-a165-70867728950e"
    error = AssertionError(f"{key} {key} {key} " + "much " * 100)
    named = Wording({key: "orders_1"})
    (line,) = lines_about(tell(Schedule(), [], 0, error=error, called=named)[0], "fails: ")
    assert "orders_1 orders_1 orders_1 much" in line
    assert line.endswith("much much …")
    assert len(line) < 140


def test_time_that_passed_is_counted_up_to_what_is_shown() -> None:
    """Steps that are left out in between have no line, but they take their time."""
    told = [
        replace(step("Shop", 2), time_ns=5_000_000),
        request(30_000_000, "200"),
    ]
    story = conducted(request(1_000_000), *told)
    assert lines_about(story, " later)") == [f"{' ' * 14}(29 ms later)"]
