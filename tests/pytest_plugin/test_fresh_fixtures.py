"""Function-scoped fixtures are made anew for every run, inside of its world.

Each inner test makes something to choose and runs several times, so that what one run leaves behind
would be found by the next.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from foretold.errors import UsageError
from foretold.pytest_support.fresh import shared

pytest_plugins = ["pytester"]

BEGIN = """
import asyncio, contextvars, time
import pytest, foretold

simulate = foretold.simulate(runs=5, confirm=False)
MADE = []

async def race():
    await foretold.together(asyncio.sleep(0), asyncio.sleep(0))
"""
ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")


def run(pytester: pytest.Pytester, program: str, *arguments: str) -> pytest.RunResult:
    """Let pytest run a test file, with warnings as errors."""
    pytester.makepyfile(test_it=BEGIN + program)
    return pytester.runpytest("-W", "error", *arguments)


def test_state_of_a_fixture_does_not_reach_the_next_run(pytester: pytest.Pytester):
    """Correct code that withdraws from an account holds, and no warning is needed."""
    result = run(
        pytester,
        """
@pytest.fixture
def account():
    return {"balance": 100}

@simulate
async def test_withdraw(account):
    await race()
    account["balance"] -= 10
    assert account["balance"] == 90
""",
    )
    result.assert_outcomes(passed=1)


def test_set_up_and_torn_down_inside_each_world(pytester: pytest.Pytester):
    """Time, randomness and the world are those of the run; ends come in the opposite order."""
    result = run(
        pytester,
        """
LOG = []

@pytest.fixture
def first():
    LOG.append("first")
    yield foretold.current_world(), time.time()
    foretold.current_world()
    LOG.append("end of first")

@pytest.fixture
def second(first, request):
    request.addfinalizer(lambda: LOG.append("end of second"))
    LOG.append("second")
    return first

@simulate
async def test_it(second, first, world):
    await race()
    assert second is first and first[0] is world
    assert 0 < time.time() - first[1] < 60
    LOG.append("test")

def test_after():
    assert LOG == ["first", "second", "test", "end of second", "end of first"] * (len(LOG) // 5)
    assert len(LOG) >= 10
""",
    )
    result.assert_outcomes(passed=2)


ASYNC = """
VALUE = contextvars.ContextVar("VALUE")
import pytest_asyncio

@{fixture}
async def lock():
    began = time.monotonic()
    await asyncio.sleep(3600)  # virtual
    assert time.monotonic() - began >= 3600
    VALUE.set("set by a fixture")
    made = asyncio.Lock()
    await made.acquire()
    MADE.append(made)
    yield made
    assert made.locked()
    await asyncio.sleep(1)
    MADE.append("ended")

@{fixture}
async def pair(lock):
    await asyncio.sleep(0)
    return lock, asyncio.get_running_loop()

@pytest.fixture
def plain(pair):
    assert VALUE.get() == "set by a fixture"
    return asyncio.run(asyncio.sleep(0, "plain code is outside of the loop"))

@simulate
async def test_async(lock, pair, plain):
    assert pair == (lock, asyncio.get_running_loop())
    assert VALUE.get() == "set by a fixture" and lock.locked()
    waiter = asyncio.create_task(lock.acquire())
    await race()
    lock.release()
    await waiter

@simulate
def test_plain(lock, plain):
    foretold.between(0, 9)
    assert VALUE.get() == "set by a fixture" and lock.locked()

def test_after():
    assert MADE[1::2] == ["ended"] * (len(MADE) // 2)
    assert len(set(MADE[::2])) == len(MADE) // 2 >= 4
"""


@pytest.mark.parametrize(
    ("fixture", "arguments"),
    [
        ("pytest_asyncio.fixture", (*ASYNCIO, "--asyncio-mode=strict")),
        ("pytest.fixture", (*ASYNCIO, "--asyncio-mode=auto")),
        ("pytest.fixture", ()),
    ],
    ids=["strict", "auto", "no plugin"],
)
def test_async_fixtures(pytester: pytest.Pytester, fixture: str, arguments: tuple[str, ...]):
    """On the loop of the test, in virtual time; with pytest-asyncio in both modes, and without."""
    result = run(pytester, ASYNC.format(fixture=fixture), *arguments)
    result.assert_outcomes(passed=3)


def test_a_task_group_of_anyio_spans_the_yield(pytester: pytest.Pytester):
    """Only the task that entered a cancel scope may leave it: one task runs all async parts."""
    result = run(
        pytester,
        """
import anyio

@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"

@pytest.fixture
async def group(anyio_backend):
    async with anyio.create_task_group() as group:
        yield group
        group.cancel_scope.cancel()

@pytest.mark.anyio
@simulate
async def test_it(group):
    group.start_soon(anyio.sleep, 1_000_000)
    await race()
""",
    )
    result.assert_outcomes(passed=1)


def test_another_backend_of_anyio_is_refused(pytester: pytest.Pytester):
    """A test named `[trio]` that ran on asyncio would say what is not so."""
    result = run(
        pytester,
        """

@pytest.fixture(scope="module", params=["trio"])
def anyio_backend(request):
    return request.param

@simulate
async def test_it(anyio_backend):
    await race()
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*UsageError: anyio_backend is 'trio': foretold simulates*"])


def test_pytests_own_fixtures(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """What is about the test is new (patches, logs); what is about the machine is empty."""
    monkeypatch.setenv("COLOUR", "grey")
    result = run(
        pytester,
        """
import logging, os, warnings

class Shop:
    open = False

@simulate
async def test_it(monkeypatch, caplog, recwarn, capsys, tmp_path, request, record_property):
    assert not Shop.open and os.environ["COLOUR"] == "grey"
    assert not caplog.records and not recwarn.list and capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == [] and request.node.name == "test_it"
    assert logging.getLogger("shop").level == logging.NOTSET
    await race()
    monkeypatch.setattr(Shop, "open", True)
    monkeypatch.setenv("COLOUR", "red")
    caplog.set_level(logging.INFO, "shop")
    logging.getLogger("shop").info("open")
    warnings.warn("careful")
    print("open")
    (tmp_path / "file").write_text("x")
    assert Shop.open and caplog.messages == ["open"] and len(recwarn) == 1

def test_after():
    assert not Shop.open and os.environ["COLOUR"] == "grey"
""",
    )
    result.assert_outcomes(passed=2)


def test_every_way_to_ask_for_one(pytester: pytest.Pytester):
    """Autouse, usefixtures, parameters, overriding, by name, from a wider scope, in a class."""
    result = run(
        pytester,
        """
@pytest.fixture(scope="module")
def wide():
    MADE.append("wide")
    return "wide"

@pytest.fixture(autouse=True)
def always(wide):
    MADE.append("always")

@pytest.fixture
def used():
    MADE.append("used")

@pytest.fixture(params=[1, 2])
def number(request):
    return [request.param]

@pytest.fixture
def value(number):
    return [*number, "outer"]

@pytest.fixture
def by_name():
    return []

class TestIt:
    @pytest.fixture
    def value(self, value):
        self.seen = value
        return [*value, "inner"]

    def setup_method(self, method):
        assert not vars(self)
        self.log = []

    def teardown_method(self):
        MADE.append(tuple(self.log))

    @pytest.mark.usefixtures("used")
    @pytest.mark.parametrize("letter", ["a", "b"])
    @simulate
    async def test_it(self, value, number, letter, request, wide):
        await race()
        found = request.getfixturevalue("by_name")
        assert found is request.getfixturevalue("by_name") and found == []
        found.append(1)
        value.append(letter)
        self.log.append(letter)
        assert value[1:] == ["outer", "inner", letter] and self.log == [letter]
        assert self.seen == [*number, "outer"]

def test_after():
    kinds = {each: MADE.count(each) for each in MADE}
    assert kinds.pop("always") == 1 + kinds["used"]
    assert kinds["wide"] == 1 and kinds["used"] >= 8
    assert kinds[("a",)] + kinds[("b",)] == kinds["used"]
""",
    )
    result.assert_outcomes(passed=5)


def test_a_machine_has_them_too(pytester: pytest.Pytester):
    """A machine's test case takes autouse fixtures, as any unittest.TestCase does."""
    result = run(
        pytester,
        """
@pytest.fixture(autouse=True)
def fresh(request):
    if request.cls is not None:
        MADE.append(foretold.current_world())

class Shop(foretold.Machine):
    @foretold.rule()
    async def buy(self):
        assert MADE[-1] is foretold.current_world()

TestShop = foretold.simulate(Shop, runs=5, steps=3)

def test_after():
    assert len(MADE) >= 5
""",
    )
    result.assert_outcomes(passed=2)


FAILING = """
@pytest.fixture
def bad():
    assert foretold.current_world() and {set_up}
    yield
    assert {tear_down}, "cannot close"

@pytest.fixture
def patched(monkeypatch):
    monkeypatch.setattr(foretold, "MARK", 1, raising=False)

@simulate
async def test_it(patched, bad):
    await race()
    {body}

def test_after():
    assert not hasattr(foretold, "MARK")
"""


@pytest.mark.parametrize(
    ("parts", "outcome", "lines"),
    [
        ({"set_up": "1 > 2"}, "failed", ["E*assert*1 > 2*", "E*Replay it: *"]),
        ({"tear_down": "1 > 2"}, "failed", ["E*AssertionError: cannot close", "E*Replay it: *"]),
        ({"set_up": "pytest.skip('no')"}, "skipped", []),
        ({"set_up": "pytest.fail('bad')"}, "failed", ["E*Failed: bad", "E*Replay it: *"]),
        (
            {"tear_down": "False", "body": "assert 3 > 4"},
            "failed",
            ["E*assert 3 > 4", "E*fixture 'bad' failed when it was torn down: *cannot close*"],
        ),
        ({"body": "await asyncio.Event().wait()"}, "failed", ["E*Deadlock*", "E*Replay it: *"]),
    ],
    ids=["set-up", "tear-down", "skip", "fail", "both", "deadlock"],
)
def test_what_goes_wrong_in_one(
    pytester: pytest.Pytester, parts: dict[str, str], outcome: str, lines: list[str]
):
    """It is the failure of the run, with a tape; the test's own failure goes first; patches end."""
    program = FAILING.format(**{"set_up": "True", "tear_down": "True", "body": "pass", **parts})
    result = run(pytester, program)
    result.assert_outcomes(passed=1, **{outcome: 1})
    result.stdout.fnmatch_lines(lines)


def test_replays_do_the_same(pytester: pytest.Pytester):
    """A failure that needs a fixture's state is confirmed in a fresh process, and tried again."""
    pytester.makepyfile(
        BEGIN
        + """
@pytest.fixture
async def account():
    await asyncio.sleep(0.1)
    yield {"balance": 100}
    await asyncio.sleep(0.1)

async def withdraw(account):
    seen = account["balance"]
    await asyncio.sleep(0)
    account["balance"] = seen - 10

@foretold.simulate(runs=20)
async def test_lost_update(account):
    await foretold.together(withdraw(account), withdraw(account))
    assert account["balance"] == 80
"""
    )
    result = pytester.runpytest("--foretold-seed=1")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*assert 90 == 80", "E*Replayed in a fresh process: yes."])
    again = pytester.runpytest("--foretold-seed=2")
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["E*assert 90 == 80", "foretold: 1 test simulated, 1 run*"])
    (tape,) = Path(pytester.path, ".foretold").rglob("*.tape")
    replayed = pytester.runpytest(f"--foretold-replay={tape}")
    replayed.stdout.fnmatch_lines(["E*assert 90 == 80"])


def test_a_shared_fixture_is_set_up_once(pytester: pytest.Pytester):
    """By pytest, with all that it needs, also by name; nothing of it is done in a run."""
    result = run(
        pytester,
        """
@pytest.fixture
def source(request):
    return request.getfixturevalue("number")

@pytest.fixture
def number():
    MADE.append("number")
    return 1

@pytest.fixture
@foretold.shared
def prices(source):
    with pytest.raises(Exception, match="no world|not inside|run"):
        foretold.current_world()
    MADE.append("prices")
    yield source + 1
    MADE.append("end")

@simulate
async def test_it(prices, number):
    await race()
    assert (prices, number) == (2, 1)

def test_after():
    assert MADE == ["number", "prices", "end"]
""",
    )
    result.assert_outcomes(passed=2)


def test_what_wider_scopes_share_is_said_once(pytester: pytest.Pytester):
    """One line for all tests, naming what a run could change; no warning, as it is on purpose."""
    result = run(
        pytester,
        """
@pytest.fixture(scope="session")
def engine():
    return {}

@pytest.fixture(scope="module")
def limit():
    return 3

@simulate
async def test_a(engine, limit):
    await race()

@simulate
async def test_b(engine):
    await race()
""",
    )
    result.assert_outcomes(passed=2)
    said = [line for line in result.outlines if "all runs share" in line]
    assert said == [
        "foretold: all runs share engine (dict, session); a run may depend on those before it"
    ]


def test_an_async_fixture_cannot_be_asked_for_by_name_in_a_loop(pytester: pytest.Pytester):
    """The loop cannot wait for itself: the error says what to write."""
    result = run(
        pytester,
        """
@pytest.fixture
async def bank():
    return 1

@simulate
async def test_it(request):
    request.getfixturevalue("bank")
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*UsageError: *Make the fixture a parameter of the test."])


def test_shared_stands_below_the_fixture():
    """Above it, the mark would lie on pytest's object, where nobody looks for it."""

    def prices() -> int:
        return 1

    assert shared(prices) is prices
    with pytest.raises(UsageError, match=r"below @pytest\.fixture"):
        shared(pytest.fixture(prices))
