"""What every API has to keep, whatever it is about.

Each answer: no 5xx that the schema does not announce, no success that it does not document, and
a body that matches its schema; now and then, what was made is read at once, and must be there. At
quiet moments: a request that may be repeated (PUT, DELETE, or one with an idempotency key) is
repeated, and must be refused or make nothing more; one with a key is sent twice at once, and by
somebody else, whose key is another one; a request that needs credentials is made without them, and
must be refused and change nothing.

"Changes nothing" is judged by the databases of the world, all rows of them (`rows.py`), and by what
the API itself shows: pages are read before and after, by the same actor (`pages.py`). Fields that
tell a time or a version are left out of the comparison.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from foretold.errors import PropertyViolated
from foretold.spec.openapi.conformity import mismatch
from foretold.spec.openapi.document import ApiOperation
from foretold.spec.openapi.pages import drawn_pages
from foretold.spec.openapi.requests import ApiRequest
from foretold.spec.openapi.resources import IDS
from foretold.spec.openapi.rows import RowsAround, is_record, is_volatile
from foretold.spec.workload import choose_unseen
from foretold.trace import Place

if TYPE_CHECKING:
    from foretold.spec.openapi.machine import ApiMachine

_LOOKS = (False, False, True)
PROBES_MAX = 1
SETTLE_S = 30
TEXT_MAX = 200


@dataclass
class Sent:
    """A request that somebody made."""

    request: ApiRequest
    actor: Any
    status: int | None
    """None: nobody knows what came of it."""
    answer: Any = None
    repeated: bool = False
    probed: bool = False
    settled: bool = False
    """If nobody knows: it has had time to come to its end."""


def violated(operation: ApiOperation, what: str, number: int = 0) -> PropertyViolated:
    """The failure of a built-in property: it has no line of the user's, but an operation."""
    error = PropertyViolated(what)
    error.place = Place(str(operation), number, operation.name)
    return error


def body_of(response: Any) -> Any:
    """The JSON body of a response; None if there is none."""
    if "json" not in response.headers.get("content-type", ""):
        return None
    try:
        return response.json()
    except ValueError:
        return None


# ---------------------------------------------------------------- each answer


def succeeded(operation: ApiOperation, response: Any) -> bool:
    """Whether it did what it is there for: 2xx, or a redirect that the schema announces."""
    if response.status_code // 100 == 3:
        return operation.documented(response.status_code) not in (None, "default")
    return bool(response.is_success)


def judge(machine: ApiMachine, request: ApiRequest, response: Any, *, strict: bool) -> None:
    """Raise if an answer is not what the schema promises."""
    operation, status = request.operation, response.status_code
    documented = operation.documented(status)
    shown = f"{request} was answered with {status}"
    if status >= 500 and documented in (None, "default"):
        raise _failed(machine, operation, shown, response)
    if documented is None and (strict or status < 300):
        known = ", ".join(operation.answers) or "nothing"
        raise violated(operation, f"{shown}, and its schema documents {known}", status)
    schema = operation.answers.get(documented or "")
    if schema is None or status in (204, 304) or operation.method == "HEAD":
        return  # there is no body that could match
    if "json" not in response.headers.get("content-type", ""):
        if status < 300:
            got = response.headers.get("content-type", "no content type")
            raise violated(operation, f"{shown} and {got}, where JSON is documented", status)
        return
    try:
        body = response.json()
    except ValueError:
        raise violated(operation, f"{shown} and a body that is not JSON", status) from None
    wrong = mismatch(machine.document, schema, body)
    if wrong is not None and (status < 300 or strict):
        told = f"{shown}, which does not match its schema: {wrong}"
        raise violated(operation, told, status)


def _failed(
    machine: ApiMachine, operation: ApiOperation, shown: str, response: Any
) -> PropertyViolated:
    """It was answered with a 5xx. If that was an exception, it says what and where."""
    known = machine.web.error_of(response)
    if known is None or not known.exception:
        return violated(operation, f"{shown}: {_text(response)}", response.status_code)
    error = violated(
        operation, f"{shown}: the application raised {known.exception}", response.status_code
    )
    error.place = known.place or error.place
    return error


def _text(response: Any) -> str:
    text = response.text.strip().replace("\n", " ")
    return (text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…") or "(no body)"


async def read_back(machine: ApiMachine, sent: Sent) -> None:
    """What was made (201) is there: whoever made it can read it at once."""
    made, page = made_by(sent.answer), machine.pages.get(sent.request.operation.name)
    if (
        sent.status != 201
        or made is None
        or page is None
        or not choose_unseen(_LOOKS, "look at it")
    ):
        return
    request = ApiRequest(page, f"{sent.request.path}/{quote(str(made), safe='')}")
    try:
        response = await request.send(sent.actor.web)
    except machine.tolerates:
        return  # what was made is made
    judge(machine, request, response, strict=False)
    if response.status_code == 404:
        told = f"{sent.request} was answered with 201 and {made!r}; {request} with 404 right after"
        raise violated(sent.request.operation, told, 5)


def pages_of(operations: Iterable[ApiOperation]) -> dict[str, ApiOperation]:
    """`GET /orders/{id}` for `POST /orders`, by name; not where things can be deleted."""
    known = list(operations)
    deleted = {each.path for each in known if each.method == "DELETE"}
    pages = {
        each.path.rpartition("/")[0]: each
        for each in known
        if each.method == "GET" and each.path.endswith("}") and each.path not in deleted
        if all(p.where == "path" for p in each.parameters if p.required)
    }
    makers = (each for each in known if each.method == "POST" and each.path in pages)
    return {each.name: pages[each.path] for each in makers}


# ---------------------------------------------------------------- at quiet moments


async def repeat(machine: ApiMachine) -> int:
    """Repeat what may be repeated. Returns how many requests were."""
    chosen = [
        sent
        for sent in reversed(machine.sent)
        if not sent.repeated and sent.request.may_be_repeated and sent.status != 0
    ][:PROBES_MAX]
    for sent in chosen:
        sent.repeated = True
    return sum([await _is_answered(machine, sent, _repeat) for sent in chosen])


async def _is_answered(
    machine: ApiMachine, sent: Sent, test: Callable[[ApiMachine, Sent], Awaitable[None]]
) -> bool:
    """Whether a test of a request came to its end. A client that gets no answer goes away; what it
    has asked for may go on, and its work would be taken for that of the test."""
    lost = [each for each in machine.sent if each.status is None and not each.settled]
    if lost:
        await machine.world.clock.advance(SETTLE_S)
    for each in lost:
        each.settled = True
    try:
        await test(machine, sent)
    except machine.tolerates:
        sent.status, sent.settled = None, False
        return False
    return True


async def _repeat(machine: ApiMachine, sent: Sent) -> None:
    """Twice: the first may undo what came after it; from there on nothing may change any more."""
    request, client = sent.request, sent.actor.web
    again = await request.send(client)
    judge(machine, request, again, strict=machine.strict)
    if not succeeded(request.operation, again):
        return  # it is refused, as it may be
    if sent.status is not None and request.key is not None:
        _compare_answers(request, sent, body_of(again))
        await _repeat_by_another(machine, sent)
        await _send_twice_at_once(machine, sent)
    async with changes_nothing(machine, sent, f"{request}, sent once more by {sent.actor.name},"):
        judge(machine, request, await request.send(client), strict=machine.strict)


async def _repeat_by_another(machine: ApiMachine, sent: Sent) -> None:
    """The same key in somebody else's hand is another key."""
    others = [actor for actor in machine.cast if actor is not sent.actor]
    if others and made_anew(sent.request, sent.answer) is not None:
        other: Any = others[len(machine.sent) % len(others)]
        answer = await sent.request.send(other.web)
        judge(machine, sent.request, answer, strict=machine.strict)
        if succeeded(sent.request.operation, answer):
            _check_owners(
                machine, sent, Sent(sent.request, other, answer.status_code, body_of(answer))
            )


async def _send_twice_at_once(machine: ApiMachine, sent: Sent) -> None:
    """Under a key that is new: one of the two does it, the other one gets its answer or none."""
    if made_anew(sent.request, sent.answer) is None:
        return
    fresh = sent.request.under_another_key(len(machine.sent))
    answers = await asyncio.gather(fresh.send(sent.actor.web), fresh.send(sent.actor.web))
    for answer in answers:
        judge(machine, fresh, answer, strict=machine.strict)
    compare_made(fresh, sent.actor, answers)


def compare_twins(requests: Sequence[ApiRequest], calls: Sequence[Any]) -> None:
    """Two calls of one user, made at the same time: under one key, they make one thing."""
    one, other = requests
    if one.key is None or one != other:
        return
    done = [call.result for call in calls if call.outcome == "succeeded"]
    _compare_made(one, calls[0].who, done)


def compare_made(request: ApiRequest, actor: Any, answers: Iterable[Any]) -> None:
    """Requests of one actor under one key, made at the same time, make one thing."""
    done = [body_of(answer) for answer in answers if succeeded(request.operation, answer)]
    _compare_made(request, actor.name, done)


def _compare_made(request: ApiRequest, who: str, answers: Iterable[Any]) -> None:
    made = {repr(made_by(answer)): None for answer in answers}
    if len(made) > 1:
        raise violated(
            request.operation,
            f"{request} with the idempotency key {request.key!r} was sent twice at the same time "
            f"by {who}, and made two things: {', then '.join(made)}",
            4,
        )


def _compare_answers(request: ApiRequest, sent: Sent, again: Any) -> None:
    one, other = made_by(sent.answer), made_by(again)
    if one is not None and other is not None and one != other:
        raise violated(
            request.operation,
            f"{request} with the idempotency key {request.key!r} was sent twice by "
            f"{sent.actor.name}, and made two things: {one!r}, then {other!r}",
            1,
        )


def made_by(answer: Any) -> Any:
    """The id of what an answer speaks about; None if it has none."""
    if not isinstance(answer, dict):
        return None
    return next((answer[name] for name in IDS if answer.get(name) is not None), None)


def made_anew(request: ApiRequest, answer: Any) -> Any:
    """The id of what was made; None if it was there before, and is named in the path."""
    made = made_by(answer)
    return None if str(made) in unquote(request.path).split("/") else made


async def probe(machine: ApiMachine) -> int:
    """Make requests without credentials. Returns how many were made."""
    chosen = [
        sent
        for sent in reversed(machine.sent)
        if not sent.probed and sent.request.operation.secured and sent.status not in (None, 0)
    ][:PROBES_MAX]
    for sent in chosen:
        sent.probed = True
    return sum([await _is_answered(machine, sent, _probe) for sent in chosen])


async def _probe(machine: ApiMachine, sent: Sent) -> None:
    request = sent.request
    async with changes_nothing(machine, sent, f"{request} without credentials"):
        response = await request.send(machine.nobody)
        if succeeded(request.operation, response):
            raise violated(
                request.operation,
                f"{request} without credentials was answered with {response.status_code}, and its "
                f"schema says that it needs some: {_text(response)}",
                401,
            )
        judge(machine, request, response, strict=False)


@asynccontextmanager
async def changes_nothing(machine: ApiMachine, sent: Sent, who: str) -> AsyncIterator[None]:
    """The request that is sent inside must change neither a page nor a row."""
    request = sent.request
    pages = drawn_pages(machine, request, sent.actor) if request.operation.changes else []
    earlier = await snapshot(machine, sent, pages)
    if earlier:
        await machine.world.clock.advance(machine.quiet_s)
    before = await snapshot(machine, sent, pages)
    rows = RowsAround(machine.world, machine.ignore)
    if not rows:
        yield
    else:
        machine.judged += 1
        with rows.watched(f"judged {machine.judged}"):
            yield
            # What the request has begun may commit after its response.
            await machine.world.clock.advance(machine.quiet_s)
        difference = rows.difference()
        if difference:
            raise violated(request.operation, f"{who} changed something: {difference}", 6)
    await _compare(machine, sent, (earlier, before), who, pages)


async def snapshot(machine: ApiMachine, sent: Sent, pages: Iterable[ApiRequest]) -> dict[str, Any]:
    """What the API shows to this actor on these pages."""
    seen: dict[str, Any] = {}
    for request in pages:
        response = await request.send(sent.actor.web)
        judge(machine, request, response, strict=False)
        if response.status_code != 429 and response.status_code < 500:  # "later" is no answer
            seen[f"{request}?{request.query}"] = response.status_code, steady(body_of(response))
    return seen


async def _compare(
    machine: ApiMachine,
    sent: Sent,
    seen_before: tuple[dict[str, Any], dict[str, Any]],
    who: str,
    pages: Iterable[ApiRequest],
) -> None:
    """Before the request the pages were read twice, a moment apart: what changes by that alone (a
    counter of reads or requests, seconds that are left, an index that follows) is not judged."""
    earlier, before = seen_before
    if not before:
        return
    after = await snapshot(machine, sent, pages)
    for request, seen in before.items():
        if request not in after or request not in earlier:
            continue
        if not _stays(earlier[request], seen, after[request]):
            raise violated(
                sent.request.operation,
                f"{who} changed something: GET {request.removeprefix('GET ').rstrip('?[]')} gave "
                f"{_short(seen[1])} before and {_short(after[request][1])} after it",
                2,
            )


def _stays(earlier: Any, before: Any, after: Any) -> bool:
    """Whether all that was the same before is the same after."""
    if before == after or (
        isinstance(before, list)
        and isinstance(after, list)
        and sorted(map(repr, before)) == sorted(map(repr, after))
    ):
        return True  # a list may be sorted by what is not compared
    if earlier == before:
        return False
    if type(earlier) is not type(before):
        return True
    if isinstance(before, dict) and isinstance(after, dict) and earlier.keys() == before.keys():
        return before.keys() == after.keys() and all(
            _stays(earlier[k], before[k], after[k]) for k in before
        )
    if isinstance(before, list | tuple) and len(earlier) == len(before):
        return (
            isinstance(after, list | tuple)
            and len(before) == len(after)
            and all(map(_stays, earlier, before, after))
        )
    return True


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"


def steady(value: Any) -> Any:
    """A body without what changes by itself: times, versions; and without records of what was
    done, which a request that may be repeated may leave each time."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not (is_volatile(k) or is_record(k))}
        return {k: steady(v) for k, v in kept.items()}
    if isinstance(value, list):
        return [steady(each) for each in value]
    return value


# ---------------------------------------------------------------- what belongs to whom


def check_owner(machine: ApiMachine, sent: Sent) -> None:
    """Two actors who each made something with the same idempotency key have made two things."""
    request = sent.request
    if request.key is None or not request.operation.changes:
        return
    for other in machine.sent:
        same = other.request.operation is request.operation and other.request.key == request.key
        if same and other.actor is not sent.actor:
            _check_owners(machine, other, sent)


def _check_owners(machine: ApiMachine, first: Sent, second: Sent) -> None:
    """To an application that knows no users, another one is somebody who tries again."""
    if not (machine.tells_apart or second.request.operation.secured):
        return
    request, made = second.request, made_anew(second.request, second.answer)
    if made is not None and made_by(first.answer) == made:
        raise violated(
            request.operation,
            f"{second.actor.name} sent {request} with the idempotency key {request.key!r}, and was "
            f"answered with {made!r}, which {first.actor.name} had made with the same key: keys of "
            "different users are different keys",
            3,
        )
