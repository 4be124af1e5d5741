"""What must hold, and when it is looked at: `@foretold.invariant`.

    @invariant()                    after every step: sync, cheap, in memory
    @invariant(when="instant")      after everything that happens, on any host: as above
    @invariant(when="quiet")        at moments when nobody is at work; may be async
    @invariant(when="end")          when all is over; may be async
    @invariant(sql="select …")      in the database, after every commit that touched its tables
    @invariant(within_s=60)         faults stopped: within so much virtual time it becomes true

One that returns a number, 0 included, says over how many things it ranged: one that is never over
anything proves nothing. One that returns False does not hold; with `within_s`, not yet.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from foretold.arguments import check_number, check_word, signature_of
from foretold.errors import PropertyViolated, UsageError
from foretold.spec.machine.rules import Precondition, found_once, preconditions_of, rule_of
from foretold.trace import Place

F = TypeVar("F", bound=Callable[..., Any])

STEP, QUIET, END, COMMIT, LIVENESS = "step", "quiet", "end", "commit", "liveness"
INSTANT = "instant"
_INVARIANT = "foretold_invariant"


@dataclass(frozen=True, eq=False)
class Invariant:
    function: Callable[..., Any]
    when: str
    sql: str = ""
    over: str = ""
    host: str = ""
    within_s: float = 0.0
    called: str = ""
    """Its name in the class, if that is another one."""

    @found_once
    def name(self) -> str:
        return self.called or self.function.__name__

    @property
    def spoken(self) -> str:
        """In messages."""
        return f"the invariant {self.name}"

    written = "@foretold.invariant"

    @found_once
    def preconditions(self) -> tuple[Precondition, ...]:
        return preconditions_of(self.function)

    @property
    def words(self) -> str:
        """What it says in its docstring, or its name."""
        told = inspect.getdoc(self.function) or ""
        return told.split("\n\n")[0].replace("\n", " ") or self.name.replace("_", " ")

    @property
    def place(self) -> Place:
        code = self.function.__code__
        return Place(code.co_filename, code.co_firstlineno, code.co_qualname)

    def violated(self, said: str) -> PropertyViolated:
        """The failure of one whose function has raised nothing itself."""
        error = PropertyViolated(said)
        error.place = self.place
        return error


def invariant(
    *,
    when: str | None = None,
    sql: str | None = None,
    over: str | None = None,
    host: str | None = None,
    within_s: float | None = None,
) -> Callable[[F], F]:
    """Decorate a method of a `foretold.Machine` that raises (`assert …`) if something is wrong.

    `when`: "step" (the default), "instant", "quiet" or "end". `sql` is a query that must give no
    rows after any commit; the method gets the rows if there are some, and its docstring is the
    message. `over` is a query for how many things it ranges over; `host` the server's, if there are
    several.
    `within_s`: it need not hold always, but once faults have stopped it must become true within so
    much virtual time.
    """
    _check_arguments(when, sql, over, host, within_s)
    moment = COMMIT if sql is not None else LIVENESS if within_s is not None else when or STEP

    def decorate(function: F) -> F:
        _check_method(moment, function)
        vars(function)[_INVARIANT] = Invariant(
            function, moment, (sql or "").strip().rstrip(";"), (over or "").strip().rstrip(";"),
            host or "", within_s or 0.0,
        )  # fmt: skip
        return function

    return decorate


def invariant_of(function: object) -> Invariant | None:
    """What `invariant` has written on a function."""
    found: Invariant | None = getattr(function, _INVARIANT, None)
    return found


def _check_arguments(
    when: object, sql: object, over: object, host: object, within_s: object
) -> None:
    if callable(when):
        raise UsageError("write @foretold.invariant() with parentheses")
    if when is not None:
        check_word("when", when, [STEP, INSTANT, QUIET, END])
    given = [f"{k}=" for k, v in (("when", when), ("sql", sql), ("within_s", within_s)) if v]
    if len(given) > 1:
        raise UsageError(f"an invariant takes {' or '.join(given)}, not both. Write two invariants")
    for name, text in (("sql", sql), ("over", over)):
        if text is not None and (not isinstance(text, str) or not text.strip()):
            raise UsageError(
                f'invariant({name}=…) is a query, such as "select * from orders where qty < 0"; '
                f"got {text!r}"
            )
    if sql is None and (over is not None or host is not None):
        raise UsageError("over= and host= belong to sql=: @foretold.invariant(sql=…, over=…)")
    if within_s is not None:
        check_number("within_s", within_s, above=0)


def _check_method(moment: str, function: Any) -> None:
    if not inspect.isfunction(function):
        raise UsageError(
            f"@foretold.invariant decorates a method of a foretold.Machine; got {function!r}"
        )
    name = function.__name__
    if rule_of(function) is not None:
        raise UsageError(f"{name} is a rule: an invariant is a method of its own")
    parameters = list(signature_of(function).parameters)
    wanted = ["self", "rows"] if moment == COMMIT else ["self"]
    if len(parameters) != len(wanted):
        raise UsageError(
            f"the invariant {name} takes ({', '.join(wanted)}), this one takes "
            f"({', '.join(parameters)}).\n  right: def {name}({', '.join(wanted)})"
        )
    if moment in (STEP, INSTANT, COMMIT) and inspect.iscoroutinefunction(function):
        instead = (
            'Write @foretold.invariant(when="quiet") for one that has to wait for something.'
            if moment != COMMIT
            else f"The rows are there already: def {name}(self, rows)."
        )
        raise UsageError(
            f"the invariant {name} is async, but it is checked after every {moment} and must not "
            f"wait. {instead}"
        )
