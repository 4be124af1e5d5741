"""The settings that type checkers know are those that calls take at run time.

`keywords.py` repeats their names, since a checker reads no table. Each comparison fails if one side
has a name that the other has not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import foretold
from foretold import keywords
from foretold.pytest_support.simulation import SETTINGS
from foretold.services.postgres import server as postgres
from foretold.services.web import server as web
from foretold.spec.openapi import machine

OF_THE_ENGINE = {"cold", "machine", "profile"}
"""Settings of a run that only the search sets."""


def names_of(settings: Any) -> set[str]:
    """The keys of a TypedDict."""
    return set(settings.__required_keys__ | settings.__optional_keys__)


def by_name(function: Callable[..., Any]) -> set[str]:
    """The parameters that can only be given by name."""
    parameters = inspect.signature(function).parameters.values()
    return {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}


@pytest.mark.parametrize(
    ("known", "taken"),
    [
        (keywords.PostgresSettings, by_name(postgres.begin)),
        (keywords.WebSettings, by_name(web.begin)),
        (keywords.ApiSettings, by_name(machine.openapi)),
        (keywords.ClientOptions, by_name(httpx.AsyncClient) - set(web.NOT_OURS)),
        (keywords.OneRun, by_name(foretold.run) | names_of(keywords.Own)),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_checkers_know_what_calls_take(known: Any, taken: set[str]) -> None:
    """One name more or less on either side is a call that a checker judges wrongly."""
    assert names_of(known) == taken


def test_checkers_know_what_searches_take() -> None:
    """`explore` takes what a run takes, but for the tape; `simulate` what a search takes, with the
    names that it has as parameters itself."""
    of_explore = by_name(foretold.explore) | names_of(keywords.RunSettings)
    assert names_of(keywords.OneRun) - of_explore == {"tape"}
    assert not by_name(foretold.explore) & names_of(keywords.RunSettings)
    of_simulate = names_of(keywords.FunctionSearch)
    assert of_simulate == (SETTINGS - OF_THE_ENGINE) | {"vacuity", "runs", "seed"}
    of_machines = names_of(keywords.SearchSettings) - names_of(keywords.OfMachine)
    assert of_machines == of_simulate
