"""Feedback: what runs reach is seen, counted and estimated; what was new is kept and changed."""

from __future__ import annotations

import asyncio
import functools
import json
import random

import pytest

import foretold
from foretold.kernel.reach import Feature
from foretold.report.campaign import coverage_lines
from foretold.report.data import outcome_json
from foretold.search.failures.failure import Outcome
from foretold.search.planning.corpus import Corpus, Lineage, changed
from foretold.search.planning.feedback import Coverage, Sieve
from foretold.tape import Tape
from foretold.world.run import bind_main, execute
from foretold.world.settings import Settings
from tests.search import campaign_programs as programs


def reached_by(main: object, seed: int = 0, **settings: str) -> set[Feature]:
    """What one run reaches."""
    chosen = Settings().with_changes(**settings)
    tape = Tape.seeded(seed, chosen.on_tape())
    done = execute(bind_main(main), tape, chosen, feedback=True)  # type: ignore[arg-type]  # any main
    assert done.error is None
    return done.features


def test_hand_overs_tell_orders_apart() -> None:
    """The same order reaches the same, another order something else."""
    first = reached_by(programs.holds, 1)
    assert ("then", "holds", "1", "worker") in first | reached_by(programs.holds, 2)
    assert first == reached_by(programs.holds, 1)
    assert len({frozenset(reached_by(programs.holds, seed)) for seed in range(20)}) > 10


def test_many_tasks_alike_count_as_one_kind() -> None:
    """Else a thousand tasks would have a million hand-overs, and every run would be new."""

    async def crowd() -> None:
        await foretold.together(*(programs.worker(3) for _ in range(50)))

    kinds = {feature[1] for feature in reached_by(crowd)}
    assert kinds == {"", "crowd", "worker"}


def test_states_points_and_their_order() -> None:
    """States that the program names, what follows what, and what `sometimes` sees."""

    async def main() -> None:
        foretold.state("role", "follower")
        await asyncio.sleep(0)
        foretold.state("role", "leader")
        foretold.sometimes(True, "elected")
        foretold.sometimes(False, "deposed")

    reached = reached_by(main)
    assert {feature for feature in reached if feature[0] != "then"} == {
        ("state", "role = 'follower'"),
        ("state", "role = 'leader'"),
        ("states", "role = 'follower'", "role = 'leader'"),
        ("point", "elected"),
    }


def test_a_state_needs_a_name_and_does_nothing_outside_of_a_run() -> None:
    """It may stay in production code, like `always`."""
    foretold.state("role", "leader")

    def main() -> None:
        with pytest.raises(foretold.UsageError, match="state needs a name"):
            foretold.state("", "leader")

    foretold.run(main)


def test_connections_and_faults_in_their_phase() -> None:
    """Who used a connection after whom; and which fault struck in which state."""

    async def serve() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            writer.close()

        await asyncio.start_server(answer, "0.0.0.0", 80)
        await asyncio.Event().wait()

    async def main(world: foretold.World) -> None:
        server = world.host("server")
        server.start(serve)
        await server.listening(80)
        foretold.state("phase", "asking")
        world.network.slow("main", "server", 2)
        reader, writer = await asyncio.open_connection("server", 80)
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        writer.close()

    reached = reached_by(main)
    assert any(feature[0].startswith("net ") for feature in reached)
    [fault] = [feature for feature in reached if feature[0] == "fault"]
    assert fault[2] == "phase = 'asking'"


def test_news_growth_and_what_is_unseen() -> None:
    """A known population: 1,000 things, of which each run sees 5 by chance. Over 20 searches the
    estimates are near the truth, which is known here."""
    unseen = expected = truth = 0.0
    for seed in range(20):
        generator = random.Random(seed)
        coverage, left = Coverage(), set(range(1_000))
        for _ in range(300):
            seen = {generator.randrange(1_000) for _ in range(5)}
            assert coverage.add({("thing", str(n)) for n in seen}) == len(left & seen)
            left -= seen
        assert coverage.reached == 1_000 - len(left)
        assert coverage.growth == [coverage.reached]
        unseen, truth = unseen + coverage.unseen, truth + len(left)
        expected += coverage.per_run
    assert abs(unseen / truth - 1) < 0.1
    assert abs(expected / (5 * truth / 1_000) - 1) < 0.1


def test_nothing_is_estimated_from_few_runs() -> None:
    """One run has reached all that was reached: no figure for a thousand further ones follows."""
    coverage = Coverage()
    coverage.add(("x", str(number)) for number in range(4))
    assert coverage_lines(coverage) == [
        "  reached 4 different hand-overs, states, faults and points"
    ]
    told = json.loads(outcome_json(Outcome(1, 7, coverage=coverage), target="x", exit_code=0))
    assert told["coverage"]["expected_new_per_run"] is None
    assert told["coverage"]["unseen_at_least"] is None


@pytest.mark.parametrize(
    ("once", "twice", "runs", "said"),
    [
        (1, 0, 50, "the next 50 runs may reach about 1 more"),
        (
            30,
            3,
            50,
            "the next 50 runs may reach about 30 more; at least 107 are unseen (estimates: "
            "56% seen)",
        ),
        (
            2,
            0,
            50_000,
            "the next 1,000 runs may reach about 0 more; at least 1 are unseen (estimates: "
            "99% seen)",
        ),
    ],
)
def test_estimates_do_not_contradict_each_other(
    once: int, twice: int, runs: int, said: str
) -> None:
    """Where more is expected, not all is seen; and no estimate reaches further ahead than there
    were runs."""
    coverage = Coverage()
    for times in range(3):
        often = [("often", str(number)) for number in range(1000 if runs > 1000 else 104)]
        seldom = [("once", str(number)) for number in range(once)] if times == 0 else []
        also = [("twice", str(number)) for number in range(twice)] if times < 2 else []
        coverage.add([*often, *seldom, *also])
    coverage.runs = runs
    assert coverage_lines(coverage)[-1] == f"  {said}"


def test_nothing_is_unseen_when_all_was_seen_often() -> None:
    """After many runs nothing new comes, and the figures say so."""
    generator, coverage = random.Random(1), Coverage()
    for _ in range(5_000):
        coverage.add({("thing", str(generator.randrange(200))) for _ in range(5)})
    assert (coverage.reached, coverage.unseen, coverage.per_run) == (200, 0, 0.0)
    assert coverage.growth == [200, 0, 0, 0, 0]


def test_a_sieve_loses_nothing_that_counts() -> None:
    """What a worker leaves out changes neither the news nor the estimates."""
    generator = random.Random(2)
    runs = [{("thing", str(int(generator.random() ** 3 * 99)))} for _ in range(200)]
    plain, sifted, sieve = Coverage(), Coverage(), Sieve()
    for features in runs:
        assert plain.add(features) == sifted.add(sieve(features))
    assert plain.unseen == sifted.unseen
    assert plain.per_run == sifted.per_run


def test_what_was_new_is_a_ladder() -> None:
    """A bug behind four right choices of eight, 4,096 runs away by chance: runs that come further
    are kept and changed, and it is found in a fraction of that. Over 8 searches, in runs."""
    needed = [
        foretold.explore(
            programs.ladder, runs=3_000, seed=seed * 10**6, shrink=False, confirm=False
        )
        for seed in range(8)
    ]
    assert sum(outcome.failure is not None for outcome in needed) >= 7
    assert sum(outcome.runs for outcome in needed) / 8 < 1_500


def test_a_change_keeps_most_of_a_tape() -> None:
    """Same change, same tape; another change, another; and each is a tape that can be run."""
    settings = Settings()
    tape = Tape.seeded(3, settings.on_tape())
    main = bind_main(programs.two_bugs)
    done = execute(main, tape, settings, recording=True)
    recorded = done.tape.recorded()
    digests = set()
    for change in range(30):
        one, two = (execute(main, changed(recorded, change), settings) for _ in range(2))
        assert one.digest == two.digest
        digests.add(one.digest)
    assert len(digests) > 5


def test_a_corpus_is_bounded_and_picks_by_the_runs_number() -> None:
    """The same number of the same search gives the same lineage, and lineages stay short."""
    corpus = Corpus()
    for seed in range(500):
        corpus.add(Lineage(seed, ()))
    assert len(corpus.entries) == 200
    assert corpus.pick(1, 40) == corpus.pick(1, 40) != corpus.pick(1, 41)
    for number in range(200):
        corpus.add(corpus.pick(1, number))
    assert max(len(entry.changes) for entry in corpus.entries) <= 6


def test_a_changed_tape_that_starves_is_no_failure() -> None:
    """Two tasks spin until a third is done. A hold that somebody made up may keep the third away
    until the limit of steps; that proves nothing about the program."""

    main = functools.partial(programs.spin_until_done, 5, spinners=2)
    outcome = foretold.explore(main, runs=150, steps_max=20_000, confirm=False, strategy="random")
    assert outcome.failure is None
