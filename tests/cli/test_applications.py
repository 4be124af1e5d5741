"""`foretold explore MODULE:app`: a service that nobody has prepared is searched by one command."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import foretold
from tests.report import programs

SOLD_TWICE = """\
import asyncio

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

app = FastAPI()
LAMPS = {}


class Lamp(BaseModel):
    id: int
    is_sold: bool = False


@app.post("/lamps", status_code=201)
async def create() -> Lamp:
    lamp = LAMPS[len(LAMPS) + 1] = Lamp(id=len(LAMPS) + 1)
    return lamp


@app.post("/lamps/{lamp_id}/buy")
async def buy(lamp_id: int) -> Lamp:
    if lamp_id not in LAMPS:
        raise HTTPException(404, "no such lamp")
    if LAMPS[lamp_id].is_sold:
        raise HTTPException(409, "sold")
    await asyncio.sleep(0.01)  # the payment
    LAMPS[lamp_id].is_sold = True
    return LAMPS[lamp_id]
"""
WARNS = """\
import warnings

import foretold
from fastapi import FastAPI

app = FastAPI()


@app.post("/notes", status_code=201)
async def create() -> dict[str, int]:
    warnings.warn("this will change", FutureWarning)
    return {"id": 1}


Notes = foretold.openapi(app)
"""
MAKES = """\
from fastapi import FastAPI


def make_app()ANNOTATION:
    app = FastAPI()

    @app.post("/notes", status_code=201)
    async def create() -> dict[str, int]:
        return {"id": 1}

    return app
"""
PLAIN = """\
async def app(scope, receive, send):
    pass
"""


def test_a_race_is_found_and_replayed(tmp_path: Path) -> None:
    """What one run stores in the module is not there in the next one, nor when it is replayed."""
    programs.write(tmp_path, SOLD_TWICE, "lamps.py")
    options = ("--seed", "281050733090283", "--runs", "1", "--shrink-runs", "20")
    done = foretold(tmp_path, "explore", "lamps:app", *options)
    assert done.code == 1, done
    assert "What broke: NotSerial: " in done.out
    assert "Replayed in a fresh process: yes." in done.out
    command = done.out.splitlines()[-1].partition("foretold ")[2]
    again = foretold(tmp_path, *command.split())
    assert again.code == 1
    assert "It fails again, as recorded." in again.out


def test_it_is_deterministic_and_covered(tmp_path: Path) -> None:
    """Both make their runs in forks as well, and its operations are those of its document."""
    programs.write(tmp_path, SOLD_TWICE, "lamps.py")
    done = foretold(tmp_path, "check", "lamps:app", "--seed", "3", "--runs", "1")
    assert (done.code, "is deterministic" in done.out) == (0, True)
    covered = foretold(tmp_path, "covers", "lamps:app", "--seed", "3", "--runs", "4")
    assert "POST /lamps/{lamp_id}/buy" in covered.out


def test_a_function_that_makes_an_application(tmp_path: Path) -> None:
    """It is searched as the application if it says what it returns. If it says nothing, the error
    tells what to write."""
    programs.write(tmp_path, MAKES.replace("ANNOTATION", " -> FastAPI"), "said.py")
    done = foretold(tmp_path, "covers", "said:make_app", "--runs", "2", "--seed", "1")
    assert (done.code, "POST /notes" in done.out) == (0, True), done
    programs.write(tmp_path, MAKES.replace("ANNOTATION", ""), "silent.py")
    hint = "write what it returns: def make_app() -> FastAPI"
    done = foretold(tmp_path, "explore", "silent:make_app", "--seed", "1")
    assert (done.code, hint in done.out) == (4, True), done
    assert hint in foretold(tmp_path, "covers", "silent:make_app").err
    needs = MAKES.replace("make_app()", "make_app(dsn: str)").replace("ANNOTATION", " -> FastAPI")
    programs.write(tmp_path, needs, "needs.py")
    done = foretold(tmp_path, "explore", "needs:make_app", "--seed", "1")
    assert (done.code, "makes an application, but needs arguments" in done.err) == (2, True), done


def test_an_application_without_a_document(tmp_path: Path) -> None:
    """The error shows how it is served."""
    programs.write(tmp_path, PLAIN, "plain.py")
    done = foretold(tmp_path, "explore", "plain:app")
    assert done.code == 2
    assert "is an ASGI application" in done.err
    assert "await world.web(app)" in done.err


def test_a_warning_of_an_application_is_shown_once(tmp_path: Path) -> None:
    """However many forks are made to compare its runs with."""
    programs.write(tmp_path, WARNS, "noted.py")
    done = foretold(tmp_path, "explore", "noted:Notes", "--runs", "20", "--seed", "1")
    assert (done.code, done.err.count("FutureWarning: this will change")) == (0, 1)
