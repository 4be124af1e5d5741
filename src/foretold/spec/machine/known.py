"""What a mirror knows: what rows have said, or what answers have told. See `mirrors.py`.

Values are compared as JSON. PostgreSQL and the application may write the same instant or the same
number in different ways (`Z` and `+00:00`, `1.50` and `"1.50"`): these are equal. An instant
without a time zone is one of UTC, and an answer may tell fewer places of a second than the row has.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from foretold.errors import PostgresError, PropertyViolated, UsageError

if TYPE_CHECKING:
    from foretold.spec.machine.mirrors import AskedThing, Mirror
    from foretold.spec.machine.tables import Tables

Fields = Mapping[str, Any]
Source = Literal["told", "made", "sent"]
"""Where fields come from: an answer told them, told them of a thing that was made, or the request
sent them."""
VERSIONS_SHOWN_MAX = 3
PLACES = 6


class MirrorJudgement(NamedTuple):
    """What came of comparing an answer with what is known."""

    compared: bool
    """Something was known that it could be compared with."""
    wrong: str = ""
    """What contradicts it, in words."""


UNKNOWN = MirrorJudgement(False)


class KnownByRows:
    """What is known, if there is a database: all that the rows have said, and when."""

    def __init__(
        self, mirror: Mirror, server: Any, tables: Tables, report: Callable[[Exception], None]
    ) -> None:
        self._mirror = mirror
        self._server = server
        self._tables = tables
        self._report = report
        """For what is wrong with the rows themselves, after a commit."""
        self._query = f"select q.{mirror.key}::text, to_jsonb(q)::text from (\n{mirror.sql}\n) q"
        self.turn = 0
        self._now: dict[str, str] = {}
        self._versions: dict[str, list[tuple[int, Fields | None]]] = {}
        """For each thing, from which turn on its row has said what; None: there is no row."""
        try:
            self._look()
        except PostgresError as error:
            raise UsageError(
                f"PostgreSQL refuses the query of {mirror.spoken}: {error.message}\n  {mirror.sql}"
            ) from None
        self._check_columns()
        server.telling.at_each_commit(self._committed)

    def _committed(self, commit: Any) -> None:
        if self._tables.concerns(self._mirror.sql, self._tables.touched(commit.statements)):
            try:
                changed = self._look()
            except UsageError as error:
                self._report(error)
                return
            for key in changed:
                if wrong := self._overwritten(self._versions[key]):
                    self._report(PropertyViolated(f"{self._mirror.name} {key}: {wrong}"))

    def _look(self) -> list[str]:
        """Compare all rows with what they said before. The keys of those that have changed."""
        rows = self._server.look_again(self._query)
        before, self._now = self._now, dict(rows)
        if len(rows) != len(self._now):
            self._refuse_doubles([key for key, _ in rows])
        self.turn += 1
        changed = [key for key, text in self._now.items() if before.get(key) != text]
        for key in changed:
            self._versions.setdefault(key, []).append((self.turn, json.loads(self._now[key])))
        for key in before.keys() - self._now.keys():
            self._versions[key].append((self.turn, None))
        return changed

    def _refuse_doubles(self, keys: list[str]) -> None:
        double = next(key for key in keys if keys.count(key) > 1)
        raise UsageError(
            f"the query of {self._mirror.spoken} gives several rows with {self._mirror.key} = "
            f"{double!r}: one thing has one row. Does it join a table that has several for each? "
            f"Aggregate those, or write a mirror of their own\n  {self._mirror.sql}"
        )

    def knows(self, key: str) -> bool:
        """Whether there is such a thing, or was."""
        return key in self._versions

    def columns(self) -> frozenset[str]:
        """What is known of the things."""
        latest = (versions[-1][1] for versions in self._versions.values())
        return frozenset(next(filter(None, latest), ()))

    def _check_columns(self) -> None:
        for row in self._versions.values():
            if missing := [name for name in self._mirror.once if name not in (row[-1][1] or ())]:
                raise UsageError(
                    f"once= of {self._mirror.spoken} names {', '.join(missing)}, which the query "
                    f"does not have\n  {self._mirror.sql}"
                )

    def _overwritten(self, versions: list[tuple[int, Fields | None]]) -> str:
        """What has changed in this row although it is set once."""
        old, new = (row or {} for _, row in (versions[-2:] if versions[1:] else versions * 2))
        for name in self._mirror.once:
            if old.get(name) is not None and name in new and not same(old[name], new[name]):
                return f"{name} is set once; it was {old[name]!r} and is {new[name]!r} now"
        return ""

    def begin(self, asked: AskedThing) -> None:
        """The rows say what changes."""

    def end(self, asked: AskedThing, is_settled: bool) -> None:
        """The rows say what has changed."""

    def judge(self, asked: AskedThing, key: str, told: Fields, source: Source) -> MirrorJudgement:
        """Compare what an answer has told of a thing, or what its request has sent."""
        if source != "made" and key not in self._versions:
            return UNKNOWN
        found = self._compare(asked, key, told, source)
        if found.wrong:
            # A test that changes rows by `pg.sql` is not told as a commit.
            self._look()
            found = self._compare(asked, key, told, source)
        return found

    def _compare(
        self, asked: AskedThing, key: str, told: Fields, source: Source
    ) -> MirrorJudgement:
        seen = self._versions.get(key)
        if seen is None:
            return MirrorJudgement(
                True, f"is not so: it was made, and there is no row\n  {_text(told)}"
            )
        old = [row for turn, row in seen if turn <= asked.began][-1:]
        since = old + [row for turn, row in seen if turn > asked.began]
        shared = [name for name in told if any(row and name in row for row in since)]
        if not shared and source != "made":
            return UNKNOWN
        if any(row is not None and _agree(row, told, shared) for row in since):
            return MirrorJudgement(True)
        wrong = [
            name for name in shared if not any(_agree(row or {}, told, [name]) for row in since)
        ]
        names = wrong or shared or list(told)
        return MirrorJudgement(True, _contradiction(told, since, names, source))


@dataclass(slots=True)
class _Thing:
    """What answers have told of one thing."""

    told: Fields | None = None
    changing: int = 0
    """How many calls that may change it are under way."""
    turn: int = 0
    """When such a call last began or ended."""
    loose_until_s: float = 0.0
    """Until then a request may arrive whose outcome is unknown."""


class KnownByAnswers:
    def __init__(self, mirror: Mirror, may_repeat: Callable[[], bool]) -> None:
        self._mirror = mirror
        self._may_repeat = may_repeat
        self.turn = 0
        self._things: dict[str, _Thing] = {}

    def _thing(self, key: str) -> _Thing:
        return self._things.setdefault(key, _Thing())

    def knows(self, key: str) -> bool:
        """Whether an answer has told of such a thing."""
        return key in self._things

    def columns(self) -> None:
        """Whatever answers tell."""

    def begin(self, asked: AskedThing) -> None:
        """Nothing is known of what is being changed."""
        self.turn += 1
        asked.began = self.turn
        for key in asked.keys:
            thing = self._thing(key)
            asked.before[key], thing.told = thing.told, None
            thing.changing += 1
            thing.turn = self.turn

    def end(self, asked: AskedThing, is_settled: bool) -> None:
        """What the answer has told holds from here on, if this call was the only one."""
        self.turn += 1
        for key in asked.keys:
            thing = self._thing(key)
            thing.changing -= 1
            alone = not thing.changing and thing.turn == asked.began
            thing.turn = self.turn
            thing.told = asked.heard.get(key) if alone and is_settled else None
            if self._may_repeat() or not is_settled or key not in asked.heard:
                thing.loose_until_s = _now_s() + self._mirror.settle_s
            if _now_s() < thing.loose_until_s:
                thing.told = None

    def judge(self, asked: AskedThing, key: str, told: Fields, source: Source) -> MirrorJudgement:
        """Compare what an answer has told of a thing."""
        if source == "sent":
            return self._judge_sent(asked, key, told)
        if key in asked.keys:
            asked.heard[key] = told
            return UNKNOWN
        thing = self._thing(key)
        if thing.changing or thing.turn > asked.began or _now_s() < thing.loose_until_s:
            return UNKNOWN
        before, shared = thing.told, [name for name in told if name in (thing.told or ())]
        thing.told = {**(before or {}), **told}
        if before is None or _agree(before, told, shared):
            return MirrorJudgement(bool(shared))
        wrong = [name for name in shared if not same(before[name], told[name])]
        return MirrorJudgement(
            True,
            f"is not so\n  told now: {_text(told, wrong)}\n  told before: {_text(before, wrong)}; "
            "no call has changed it since",
        )

    def _judge_sent(self, asked: AskedThing, key: str, sent: Fields) -> MirrorJudgement:
        """The answer must tell what was sent, unless another call may have changed it meanwhile."""
        told, thing = asked.heard.get(key), self._thing(key)
        if told is None or thing.changing > 1 or thing.turn > asked.began:
            return UNKNOWN
        shared = [name for name in sent if name in told]
        wrong = [name for name in shared if not same(told[name], sent[name])]
        if not wrong:
            return MirrorJudgement(bool(shared))
        return MirrorJudgement(
            True, f"is not so\n  sent: {_text(sent, wrong)}\n  told: {_text(told, wrong)}"
        )


# ---------------------------------------------------------------- values


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def same(known: Any, told: Any) -> bool:
    """Whether two JSON values say the same."""
    if known == told:
        return True
    if isinstance(known, list) and isinstance(told, list):
        return len(known) == len(told) and all(map(same, known, told))
    if isinstance(known, dict) and isinstance(told, dict):
        return known.keys() == told.keys() and all(same(known[k], told[k]) for k in known)
    if isinstance(known, str) and isinstance(told, str):
        return _same_instant(known, told)
    one_number = isinstance(known, int | float) or isinstance(told, int | float)
    if one_number and isinstance(known, str | int | float) and isinstance(told, str | int | float):
        try:
            return Decimal(str(known)) == Decimal(str(told))
        except InvalidOperation:
            return False
    return False


def _same_instant(known: str, told: str) -> bool:
    try:
        one, other = map(_instant, (known, told))
    except ValueError:
        return False
    if one == other:
        return True
    places = _places(told)
    return places < _places(known) and _cut(one, places) == other


def _instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _places(text: str) -> int:
    """How many digits of a second are told."""
    behind = text.partition(".")[2]
    digits = itertools.takewhile(str.isdigit, behind)
    return min(sum(1 for _ in digits), PLACES)


def _cut(instant: datetime, places: int) -> datetime:
    left_out = instant.microsecond % 10 ** (PLACES - places)
    return instant.replace(microsecond=instant.microsecond - left_out)


def _agree(known: Fields, told: Fields, names: list[str]) -> bool:
    return all(name in known and same(known[name], told[name]) for name in names)


def _contradiction(
    told: Fields, rows: list[Fields | None], names: list[str], source: Source
) -> str:
    shown = ["there was no row" if row is None else _text(row, names) for row in rows]
    left_out = len(shown) - VERSIONS_SHOWN_MAX
    if left_out > 0:
        shown[1 : 1 + left_out] = [f"… {left_out} more"]
    meanwhile = ", then ".join(shown)
    return (
        f"is not so\n  {'sent' if source == 'sent' else 'told'}: {_text(told, names)}\n"
        f"  the row, from the request to its answer: {meanwhile}"
    )


def _text(fields: Fields, names: list[str] | None = None) -> str:
    wanted = fields if names is None else [name for name in names if name in fields]
    return ", ".join(f"{name} = {fields[name]!r}" for name in wanted)
