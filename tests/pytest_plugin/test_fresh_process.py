"""A failure is believed when a fresh pytest, with another hash seed, fails in the same way.

The child must find and set up the test as its parent did, and must not touch what is the parent's:
reports, caches, other tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from foretold.errors import ForetoldError
from foretold.pytest_support import replayer
from foretold.pytest_support.replayer import PytestReplayer
from foretold.tape import Tape
from tests.pytest_plugin.programs import holds, lost_update

pytest_plugins = ["pytester"]

YES = "E*Replayed in a fresh process: yes."


def test_a_parametrised_method_far_from_here(pytester: pytest.Pytester):
    """Found again by its id, from another folder than that of the project, by its fixtures too."""
    pytester.makeini("[pytest]\n")
    folder = pytester.mkdir("deep") / "er"
    folder.mkdir()
    (folder / "conftest.py").write_text(
        "import pytest\n@pytest.fixture\ndef limit(): return 3\n", "utf-8"
    )
    (folder / "test_deep.py").write_text(
        "import pytest, foretold\n"
        "class TestIt:\n"
        "    @pytest.mark.parametrize('name', ['a::b', 'c/d [e]'])\n"
        "    @foretold.simulate\n"
        "    async def test_it(self, name, limit):\n"
        "        assert limit > 3\n",
        "utf-8",
    )
    elsewhere = pytester.mkdir("elsewhere")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(elsewhere)
        result = pytester.runpytest("../deep")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines([YES, "E*Replay it: foretold replay /*.tape", YES])


def test_options_of_a_conftest_reach_the_child(pytester: pytest.Pytester):
    """Fixtures may depend on them; those of pytest and its plugins are chosen one by one."""
    pytester.makeconftest("""
        import pytest

        def pytest_addoption(parser):
            parser.addoption("--flavour", default="sour")

        @pytest.fixture
        def flavour(request):
            return request.config.getoption("flavour")
    """)
    pytester.makepyfile("""
        import foretold

        @foretold.simulate
        def test_taste(flavour):
            assert flavour == "sour"
    """)
    result = pytester.runpytest("--flavour=sweet")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*assert 'sweet' == 'sour'", YES])


def test_what_is_the_parents_stays_the_parents(pytester: pytest.Pytester):
    """Reports, verbosity, selection: the child overwrites no file, and finds its test.

    With -vv more of two long values is shown, so it has to reach the child for equal traces.
    """
    pytester.makeini(
        "[pytest]\naddopts = --junitxml=report.xml --import-mode=importlib -vv -k test_long\n"
    )
    pytester.makepyfile("""
        import foretold

        @foretold.simulate
        def test_long():
            left, right = list(range(50)), list(range(1, 51))
            assert left == right

        def test_other():
            raise SystemExit("not selected")
    """)
    result = pytester.runpytest()
    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines([YES])
    report = (pytester.path / "report.xml").read_text("utf-8")
    assert 'failures="1"' in report


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ('"FORETOLD_OBSERVE" in os.environ', "there it held"),
        ('os.environ.get("FORETOLD_OBSERVE") and 1 / 0', "there it failed with *ZeroDivisionError"),
    ],
    ids=["holds", "fails otherwise"],
)
def test_a_failure_of_this_process_alone_is_told(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, condition: str, said: str
):
    """What does not fail there, or otherwise, is reported with a NO and the difference."""
    monkeypatch.setenv("PYTHONHASHSEED", "5")
    pytester.makepyfile(f"""
        import os
        import foretold

        @foretold.simulate
        def test_here():
            assert {condition}
    """)
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E*Replayed in a fresh process: NO, {said}*"])


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("raise RuntimeError('not today')", "RuntimeError: not today"),
        ("import pytest; pytestmark = pytest.mark.skip", "it was skipped there, or not selected"),
        ("os._exit(3)", "the process ended with exit code 3"),
    ],
    ids=["error", "skip", "death"],
)
def test_a_child_that_cannot_run_it_is_told(pytester: pytest.Pytester, statement: str, said: str):
    """The report says so plainly, with the reason; the user's failure is shown as ever."""
    pytester.makepyfile(
        test_bank=f"import os\nif 'FORETOLD_OBSERVE' in os.environ:\n    {statement}\n"
        + lost_update(settings="")
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    where = "E*fresh process: NO, a fresh pytest could not run *::test_no_money_is_lost: "
    result.stdout.fnmatch_lines(["E*assert 93 == 88", where + said + "."])


def test_a_child_that_does_not_end_is_ended(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    """A limit on everything: no test may hang because its replay does."""
    monkeypatch.setattr(replayer, "CHILD_S_MAX", 0.01)
    pytester.makepyfile(lost_update(settings=""))
    result = pytester.runpytest()
    result.stdout.fnmatch_lines(["E*fresh process: NO, *: it had not ended after 0 s."])


def test_by_hand_as_the_command_line_does(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    """A replayer needs no running pytest; two hash seeds give one digest, and all entries."""
    monkeypatch.chdir(pytester.path)
    pytester.makepyfile(test_bank=holds())
    tape = Tape.seeded(5)
    seen = []
    for hash_seed in ("0", "1"):
        replay = PytestReplayer("test_bank.py::test_holds", hash_seed=hash_seed)
        seen.append(replay(tape, entries=Path(hash_seed)))
    assert seen[0] == seen[1]
    assert not seen[0].failed
    assert Path("0").read_text("utf-8") == Path("1").read_text("utf-8") != ""


def test_by_hand_on_a_test_that_is_not_there(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    """What pytest says about it is in the error."""
    monkeypatch.chdir(pytester.path)
    pytester.makepyfile(test_bank=holds())
    with pytest.raises(ForetoldError, match=r"could not run .*: ERROR: not found"):
        PytestReplayer("test_bank.py::test_gone")(Tape.seeded(5))


def test_addresses_in_an_assertion_are_no_difference(pytester: pytest.Pytester):
    """pytest shows values in it, some by their address: that is no event of the run."""
    pytester.makepyfile("""
        import foretold

        class Bank:
            balance = 1

        @foretold.simulate
        async def test_bank():
            assert Bank().balance == 2
    """)
    result = pytester.runpytest()
    result.stdout.fnmatch_lines(["E*where 1 = <*Bank object at 0x*>.balance", YES])
