"""A simulated test is an ordinary test to pytest: found, named, parametrised, marked, selected."""

from __future__ import annotations

import pytest

from tests.pytest_plugin.programs import holds, lost_update

pytest_plugins = ["pytester"]


def test_async_and_plain_functions_with_and_without_the_world(pytester: pytest.Pytester):
    """All four shapes of a test are run, and `world` is the world of the run, not a fixture."""
    pytester.makepyfile("""
        import asyncio, time
        import foretold

        @foretold.simulate
        async def test_async(world):
            assert world is foretold.current_world()
            await foretold.together(asyncio.sleep(1), asyncio.sleep(2))
            assert world.virtual_s > 2

        @foretold.simulate
        async def test_async_without():
            assert foretold.current_world()

        @foretold.simulate(runs=3)
        def test_plain(world):
            world.drive(3600)
            assert world.clock.monotonic() > 3600

        @foretold.simulate()
        def test_plain_without():
            before = time.monotonic()
            time.sleep(3600)
            assert time.monotonic() - before >= 3600
    """)
    pytester.runpytest().assert_outcomes(passed=4)


def test_fixtures_and_parameters(pytester: pytest.Pytester):
    """Fixtures of all scopes, parameters and their ids reach the test beside the world."""
    pytester.makepyfile("""
        import pytest, foretold

        @pytest.fixture(scope="module")
        def rate():
            return 3

        @pytest.fixture
        def name(request, rate):
            return f"{request.node.name} {rate}"

        @pytest.mark.parametrize("low", [1, 2])
        @pytest.mark.parametrize("high", [10, 20], ids=["ten", "twenty"])
        @foretold.simulate(runs=2)
        async def test_all(name, low, world, high, tmp_path):
            assert name == f"test_all[{dict([(10, 'ten'), (20, 'twenty')])[high]}-{low}] 3"
            assert foretold.between(low, high) >= low
            assert tmp_path.name
    """)
    result = pytester.runpytest("-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*::test_all[[]twenty-2[]] PASSED*"])


def test_fixtures_are_set_up_and_torn_down_in_every_run(pytester: pytest.Pytester):
    """Documented behaviour: once per run, the one that warms up included, and not once more by
    pytest."""
    pytester.makepyfile("""
        import pytest, foretold

        CALLS = []

        @pytest.fixture
        def name():
            CALLS.append("up")
            yield "x"
            CALLS.append("down")

        @foretold.simulate(runs=5)
        def test_many_runs(name):
            foretold.between(0, 9)
            CALLS.append("run")

        def test_what_was_done():
            assert CALLS == ["up", "run", "down"] * (1 + 5)
    """)
    pytester.runpytest().assert_outcomes(passed=2)


def test_methods_of_classes(pytester: pytest.Pytester):
    """Methods get their instance; a static method works if its decorator is the outer one."""
    pytester.makepyfile("""
        import pytest, foretold

        class TestBank:
            rate = 3

            @pytest.mark.parametrize("n", [1, 2])
            @foretold.simulate(runs=2)
            async def test_method(self, world, n):
                assert self.rate == 3 and n and foretold.current_world() is world

            @staticmethod
            @foretold.simulate(runs=2)
            def test_static(world):
                assert world
    """)
    pytester.runpytest().assert_outcomes(passed=3)


def test_methods_of_unittest_cases(pytester: pytest.Pytester):
    """A `unittest.TestCase` is run by unittest; the plugin's options reach it all the same."""
    pytester.makepyfile("""
        import asyncio, unittest
        import foretold

        class TestBank(unittest.TestCase):
            def setUp(self):
                self.rate = 3

            @foretold.simulate
            async def test_method(self, world):
                await foretold.together(asyncio.sleep(0), asyncio.sleep(0))
                self.assertEqual(self.rate, 3)

            @foretold.simulate(confirm=False)
            async def test_that_fails(self):
                self.assertEqual(self.rate, 4)
    """)
    result = pytester.runpytest("-v", "--foretold-runs=6")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*::test_method: 6 runs, *", "FAILED *::test_that_fails - Asserti*"]
    )


def test_marks_above_and_below_the_decorator(pytester: pytest.Pytester):
    """skip, skipif, xfail and selection by `-m` and `-k` work, wherever the mark stands."""
    pytester.makeini("[pytest]\nmarkers = slow: x\n")
    pytester.makepyfile("""
        import pytest, foretold

        @pytest.mark.skip
        @foretold.simulate
        def test_skipped(): assert False

        @foretold.simulate
        @pytest.mark.skipif(True, reason="below")
        def test_skipped_below(): assert False

        @pytest.mark.xfail(raises=ZeroDivisionError, strict=True)
        @foretold.simulate(confirm=False)
        async def test_expected(): 1 / 0

        @foretold.simulate
        @pytest.mark.slow
        def test_slow(): pass
    """)
    pytester.runpytest().assert_outcomes(skipped=2, xfailed=1, passed=1)
    pytester.runpytest("-m", "slow").assert_outcomes(passed=1, deselected=3)
    pytester.runpytest("-k", "expected").assert_outcomes(xfailed=1, deselected=3)


def test_outcomes_that_a_run_decides(pytester: pytest.Pytester):
    """`pytest.skip`, `xfail` and `fail` are no `Exception`s, and mean in a run what they mean."""
    pytester.makepyfile("""
        import pytest, unittest, foretold

        @foretold.simulate
        async def test_skip(): pytest.skip("not here")

        @foretold.simulate
        def test_skip_of_unittest(): raise unittest.SkipTest("nor here")

        @foretold.simulate(isolation="fork")
        async def test_skip_in_a_fork(): pytest.skip("nor in a child")

        @foretold.simulate
        async def test_xfail(): pytest.xfail("known")

        @foretold.simulate(confirm=False)
        async def test_fail(): pytest.fail("said so")

        @foretold.simulate(confirm=False)
        async def test_raises():
            with pytest.raises(ValueError):
                pass
    """)
    result = pytester.runpytest("-rA")
    result.assert_outcomes(skipped=3, xfailed=1, failed=2)
    result.stdout.fnmatch_lines(
        ["*: nor in a child", "*FAILED *test_fail - Failed: said so", "*- Failed: DID NOT RAI*"]
    )
    kept = {path.name.partition("-")[0] for path in (pytester.path / ".foretold").rglob("*.tape")}
    assert kept == {"Failed"}, "what was skipped is no failure"


def test_other_tests_are_left_alone(pytester: pytest.Pytester):
    """Plain tests, doctests and a fixture called `world` of the user's own work as ever."""
    pytester.makepyfile("""
        import pytest

        @pytest.fixture
        def world():
            return "mine"

        def test_plain(world):
            assert world == "mine"

        def documented():
            '''
            >>> 1 + 1
            2
            '''
    """)
    result = pytester.runpytest("--doctest-modules")
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*simulated*")


def test_without_the_plugin_the_function_tries_itself(pytester: pytest.Pytester):
    """`-p no:foretold` takes options and summary away, not the search."""
    pytester.makepyfile(lost_update())
    result = pytester.runpytest_subprocess("-p", "no:foretold")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E*foretold found this in run *", "E*Replay it: foretold replay *"]
    )
    result.stdout.no_fnmatch_line("foretold: *")


def test_with_xdist_all_workers_go_by_one_seed(pytester: pytest.Pytester):
    """Records come back from the workers, and a test's seed does not depend on its worker."""
    pytest.importorskip("xdist")
    pytester.makepyfile(test_a=holds(), test_b=holds("(runs=7)"))
    spread = pytester.runpytest_subprocess("-v", "-n2", "--foretold-seed=5")
    alone = pytester.runpytest("-v", "--foretold-seed=5")
    for result in (spread, alone):
        result.assert_outcomes(passed=2)
        result.stdout.fnmatch_lines(["foretold: 2 tests simulated, 107 runs, *"])
    fresh = pytester.runpytest_subprocess("-v", "-n2").stdout.str()
    seeds = {line.split(", ")[1] for line in fresh.splitlines() if line.startswith("  test_")}
    assert len(seeds) == 2, "two tests, two seeds of their own"
    assert _seeds_of(spread) == _seeds_of(alone)


def _seeds_of(result: pytest.RunResult) -> list[str]:
    lines = [line for line in result.outlines if line.startswith("  test_")]
    return sorted(" ".join(line.split(", ")[:2]) for line in lines)
