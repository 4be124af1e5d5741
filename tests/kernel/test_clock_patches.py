"""Every way to read a clock, or to wait on one, leads to the computer of the run."""

from __future__ import annotations

import datetime
import decimal
import fractions
import gc
import logging
import math
import os
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime as imported_class
from email.utils import formatdate
from time import time as imported_time
from typing import Any

import pytest

from foretold.kernel import real
from foretold.kernel.patches import patches
from tests.kernel.fake_computer import CPU_NS, MONOTONIC_NS, WALL_NS, FakeComputer, a_run

UTC = datetime.UTC
EAST = datetime.timezone(datetime.timedelta(hours=1))
WALL_S = WALL_NS // 10**9
THIRD_PARTY = [time.time, time.monotonic_ns]  # names in modules are not the only places

CLOCKS: dict[str, tuple[Callable[[], Any], Any]] = {
    "time": (time.time, (WALL_NS + 1) / 1e9),
    "time, imported by name": (imported_time, (WALL_NS + 1) / 1e9),
    "time, kept in a list": (THIRD_PARTY[0], (WALL_NS + 1) / 1e9),
    "time_ns": (time.time_ns, WALL_NS + 1),
    "monotonic": (time.monotonic, (MONOTONIC_NS + 1) / 1e9),
    "monotonic_ns": (time.monotonic_ns, MONOTONIC_NS + 1),
    "monotonic_ns, kept in a list": (THIRD_PARTY[1], MONOTONIC_NS + 1),
    "perf_counter": (time.perf_counter, (MONOTONIC_NS + 1) / 1e9),
    "perf_counter_ns": (time.perf_counter_ns, MONOTONIC_NS + 1),
    "process_time": (time.process_time, CPU_NS / 1e9),
    "process_time_ns": (time.process_time_ns, CPU_NS),
    "thread_time": (time.thread_time, CPU_NS / 1e9),
    "thread_time_ns": (time.thread_time_ns, CPU_NS),
    "os.times": (lambda: os.times()[0], CPU_NS / 1e9),
    "os.times, elapsed": (lambda: os.times().elapsed, (MONOTONIC_NS + 1) / 1e9),
    "gmtime": (time.gmtime, time.gmtime(WALL_S)),
    "gmtime(None)": (lambda: time.gmtime(None), time.gmtime(WALL_S)),
    "localtime": (time.localtime, time.localtime(WALL_S)),
    "localtime(None)": (lambda: time.localtime(None), time.localtime(WALL_S)),
    "ctime": (time.ctime, time.ctime(WALL_S)),
    "ctime(None)": (lambda: time.ctime(None), time.ctime(WALL_S)),
    "asctime": (time.asctime, time.asctime(time.localtime(WALL_S))),
    "strftime": (lambda: time.strftime("%c %Z"), time.strftime("%c %Z", time.localtime(WALL_S))),
    "date.today": (datetime.date.today, datetime.date.fromtimestamp(WALL_S)),
    "email": (formatdate, "Thu, 01 Jan 2026 00:00:00 -0000"),
    "logging": (
        lambda: int(logging.LogRecord("x", 1, "f", 1, "m", None, None).created),
        WALL_S,
    ),
}


@pytest.mark.parametrize("name", CLOCKS)
def test_a_clock_shows_the_computers_time(name: str) -> None:
    """In a run the value is the computer's to the last digit; before and after it is not."""
    read, expected = CLOCKS[name]
    outside = read()
    with a_run():
        inside = read()
    assert inside == expected
    assert type(inside) is type(outside)
    assert outside != expected
    assert read() != expected


def clock_ids() -> dict[str, int]:
    """All clocks that `time` names, and two that only Linux numbers."""
    names = (name for name in dir(time) if name.startswith("CLOCK_"))
    return {name: getattr(time, name) for name in names} | {"REALTIME_COARSE": 5, "MONO_COARSE": 6}


@pytest.mark.parametrize("name", clock_ids())
def test_clock_gettime_knows_each_clock(name: str) -> None:
    """By number: the wall clocks, the monotonic ones, and processor time."""
    number = clock_ids()[name]
    with a_run():
        ns, seconds = time.clock_gettime_ns(number), time.clock_gettime(number)
    if "CPUTIME" in name:
        assert (ns, seconds) == (CPU_NS, CPU_NS / 1e9)
    elif "REALTIME" in name or "TAI" in name:
        assert (ns, seconds) == (WALL_NS + 1, (WALL_NS + 2) / 1e9)
    else:
        assert (ns, seconds) == (MONOTONIC_NS + 1, (MONOTONIC_NS + 2) / 1e9)


def test_clock_gettime_of_a_thread_and_of_no_clock() -> None:
    """A thread's processor clock has a number made at run time; a wrong number stays an error."""
    number = time.pthread_getcpuclockid(threading.get_ident())
    with a_run():
        assert time.clock_gettime_ns(number) == CPU_NS
        for read in (time.clock_gettime, time.clock_gettime_ns):
            with pytest.raises(OSError, match="Invalid argument"):
                read(999)
            with pytest.raises(TypeError):
                read("realtime")  # type: ignore[arg-type]  # the mistake


def test_no_digit_is_lost() -> None:
    """Nine digits of a second do not fit into a float: time_ns must not pass through one."""
    assert int(WALL_NS / 1e9 * 1e9) != WALL_NS, "a float would do: the test would be vacuous"
    with a_run():
        assert [time.time_ns() for _ in range(3)] == [WALL_NS + 1, WALL_NS + 2, WALL_NS + 3]


@pytest.mark.parametrize(
    "call",
    [
        lambda: time.gmtime(86_400),
        lambda: time.localtime(1.5),
        lambda: time.ctime(0),
        lambda: time.strftime("%Y-%j", time.gmtime(0)),
        lambda: time.asctime(time.gmtime(0)),
        lambda: datetime.datetime.fromtimestamp(0),
    ],
)
def test_a_given_instant_is_no_clock(call: Callable[[], Any]) -> None:
    """Conversions of a given instant are untouched, and do not move time on."""
    expected = call()
    with a_run() as computer:
        assert call() == expected
        assert computer.wall == WALL_NS


@pytest.mark.parametrize(
    "call",
    [
        lambda: time.asctime(None),  # type: ignore[arg-type]  # the mistake
        lambda: time.strftime("%Y", None),  # type: ignore[arg-type]  # the mistake
        lambda: time.gmtime("soon"),  # type: ignore[arg-type]  # the mistake
        lambda: time.localtime(1e300),
        lambda: time.gmtime(math.nan),
        lambda: datetime.datetime.now(5),  # type: ignore[arg-type]  # the mistake
        lambda: datetime.datetime.now("UTC"),  # type: ignore[arg-type]  # the mistake
    ],
)
def test_wrong_arguments_get_the_originals_error(call: Callable[[], Any]) -> None:
    """Type and text of the error are those that the program would see in production."""
    with pytest.raises(Exception) as outside:  # noqa: PT011  # any: it is compared below
        call()
    with a_run(), pytest.raises(type(outside.value)) as inside:
        call()
    assert str(inside.value) == str(outside.value)


# --- sleep -----------------------------------------------------------------------------------


class Indexable:
    """An integer in all but type."""

    def __index__(self) -> int:
        return 2


@pytest.mark.parametrize(
    ("seconds", "ns"),
    [
        (0, 0),
        (0.0, 0),
        (-0.0, 0),
        (3, 3_000_000_000),
        (True, 1_000_000_000),
        (Indexable(), 2_000_000_000),
        (0.1, 100_000_000),
        (1e-9, 1),
        (1e-12, 1),  # rounded up, as the original does: a sleep is never shorter than asked for
        (1.0000000001, 1_000_000_001),
        (9_000_000_000, 9_000_000_000_000_000_000),
        (1.1, 1_100_000_000),  # not 1_100_000_001, which is what exact arithmetic would give
    ],
)
def test_sleep_asks_the_computer(seconds: Any, ns: int) -> None:
    """Whole seconds are exact whatever their size, fractions are rounded as the original does."""
    with a_run() as computer:
        time.sleep(seconds)
    assert computer.slept == [ns]


@pytest.mark.parametrize(
    "seconds",
    [
        *(-1, -0.5, -1e-300, math.nan, math.inf, -math.inf, 1e300, 2**70, -(2**70)),
        *("1", None, decimal.Decimal(1), fractions.Fraction(1, 2), [], 1j),
    ],
)
def test_a_wrong_sleep_is_the_originals_error(seconds: Any) -> None:
    """Validated like the original, and the computer does not hear of it."""
    with pytest.raises(Exception) as outside:  # noqa: PT011  # any: it is compared below
        time.sleep(seconds)
    with a_run() as computer, pytest.raises(type(outside.value)) as inside:
        time.sleep(seconds)
    assert str(inside.value) == str(outside.value)
    assert computer.slept == []


def test_sleep_may_raise() -> None:
    """A computer that dies while the program sleeps: its exception comes out of time.sleep."""

    class Dying(FakeComputer):
        def sleep_ns(self, ns: int) -> None:
            raise SystemExit(ns)

    with a_run(Dying()), pytest.raises(SystemExit, match="2000000000"):
        time.sleep(2)


# --- datetime --------------------------------------------------------------------------------


class Moment(datetime.datetime):
    """A subclass with a constructor and a `fromtimestamp` that `now` must not use."""

    made = 0

    def __new__(cls, *args: Any, **names: Any) -> Moment:
        Moment.made += 1
        return super().__new__(cls, *args, **names)

    @classmethod
    def fromtimestamp(cls, timestamp: float, tz: Any = None) -> Moment:
        raise AssertionError("now() of the original does not call this")


KINDS = (datetime.datetime, imported_class, Moment)
MICROSECOND = WALL_NS // 1_000 % 1_000_000


@pytest.mark.parametrize("kind", KINDS)
def test_now_is_exact_to_the_microsecond(kind: type[datetime.datetime]) -> None:
    """Truncated, not rounded, like the original; in any zone; of the class that was asked."""
    with a_run(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # utcnow is deprecated from 3.12 on
        local, utc, zone, old = kind.now(), kind.now(UTC), kind.now(tz=EAST), kind.utcnow()
    assert {type(moment) for moment in (local, utc, zone, old)} == {kind}
    expected = datetime.datetime(2026, 1, 1, 0, 0, 0, MICROSECOND, UTC)
    assert utc == zone == expected
    assert zone.tzinfo is EAST
    assert zone.hour == 1
    assert old == expected.replace(tzinfo=None)
    assert local == expected.astimezone().replace(tzinfo=None)


@pytest.mark.parametrize(
    "wall_ns",
    [
        *(999_999_999, 0, -1, 1_999_999_999_999, 1_767_225_600_999_999_999),
        *(2**33 * 10**9 + 999_999, 9_999_999_999_123_456_789, 253_402_300_799_999_999_999),
    ],
)
def test_now_is_exact_at_any_distance(wall_ns: int) -> None:
    """Beyond 2242 a float of seconds no longer holds microseconds; before 1970 it is negative."""
    computer = FakeComputer()
    computer.wall = wall_ns - 1
    with a_run(computer):
        moment = datetime.datetime.now(UTC)
    since = moment - datetime.datetime(1970, 1, 1, tzinfo=UTC)
    assert since // datetime.timedelta(microseconds=1) == wall_ns // 1_000


def test_now_marks_the_hour_that_comes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """When clocks are set back, the local hour repeats: `fold` tells the second one."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")  # needs no time zone files
    time.tzset()
    try:
        computer = FakeComputer()
        computer.wall = 1_729_990_800 * 10**9 + 1_800 * 10**9  # 2024-10-27T01:30Z, 02:30 again
        with a_run(computer):
            moment = datetime.datetime.now()
        assert (moment.hour, moment.minute, moment.fold) == (2, 30, 1)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_subclass_is_constructed_as_often_as_by_the_original() -> None:
    """Constructors may count, log or validate: the patched `now` must not call them more often."""
    Moment.made = 0
    Moment.now()
    outside = Moment.made
    with a_run():
        Moment.made = 0
        Moment.now()
    assert Moment.made == outside == 1


def test_today_follows_time() -> None:
    """`datetime.today` is not patched: it calls time.time, and that is."""
    with a_run():
        assert abs(datetime.datetime.today().timestamp() - WALL_NS / 1e9) < 1e-5


@pytest.mark.skipif(sys.version_info < (3, 12), reason="utcnow is deprecated from 3.12 on")
def test_utcnow_warns_as_the_original_does() -> None:
    """Same text, same category, and it points at the caller's line: filters depend on all three."""

    def warned() -> tuple[str, type[Warning], str, int]:
        with pytest.warns(DeprecationWarning, match="utcnow") as caught:
            datetime.datetime.utcnow()
        warning = caught[0]
        return str(warning.message), warning.category, warning.filename, warning.lineno

    outside = warned()
    with a_run():
        assert warned() == outside
    assert outside[2] == __file__


# --- methods bound earlier -------------------------------------------------------------------


@dataclass
class Model:
    """As written everywhere: the method is bound when the class is made."""

    created_at: datetime.datetime = field(default_factory=datetime.datetime.now)
    moment: datetime.datetime = field(default_factory=Moment.now)


def test_bound_methods_need_the_scan() -> None:
    """Without the scan they stay real (so the scan is what does it); with it they are caught."""
    with patches.installed():
        with patches.active(FakeComputer()):
            assert Model().created_at.year != 2026 or Model().created_at.microsecond != MICROSECOND
        patches.catch_bound_methods()
        with patches.active(FakeComputer()):
            model = Model()
        assert abs(Model().created_at.timestamp() - real.time()) < 60, "inactive: real again"
    expected = datetime.datetime(2026, 1, 1, 0, 0, 0, MICROSECOND, UTC).astimezone()
    assert model.created_at == expected.replace(tzinfo=None)
    assert type(model.moment) is Moment


def test_bound_methods_are_restored_and_let_go() -> None:
    """Removed, each is its old self; what only we still hold goes when the next session begins."""
    bound = datetime.datetime.now
    held = weakref.ref(bound)
    with patches.installed():
        patches.catch_bound_methods()
        with patches.active(FakeComputer()):
            assert bound(UTC).microsecond == MICROSECOND
    assert bound.__self__ is datetime.datetime  # type: ignore[attr-defined]  # a builtin method has one
    assert abs(bound().timestamp() - real.time()) < 60
    del bound
    with patches.installed():
        patches.catch_bound_methods()
    gc.collect()
    assert held() is None


def test_the_frameworks_own_clock_stays_real() -> None:
    """`real` is what limits on real time are measured with, also during a run and after a scan."""
    with patches.installed():
        patches.catch_bound_methods()
        before = real.monotonic_ns(), real.time_ns()
        with patches.active(FakeComputer()):
            inside = real.monotonic_ns(), real.time_ns()
            assert abs(real.datetime_now(UTC).timestamp() - before[1] / 1e9) < 60
            assert (real.perf_counter(), real.time()) != (time.perf_counter(), time.time())
    assert before[0] <= inside[0] <= time.monotonic_ns()
    assert abs(inside[1] - before[1]) < 60 * 10**9
