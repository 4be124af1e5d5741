"""`foretold show`: the story of a tape."""

from __future__ import annotations

import click

from foretold.cli.group import app
from foretold.cli.targets import is_node_id, output_dropped, run_tape
from foretold.errors import UsageError
from foretold.report.tapes import (
    changed_text,
    header_text,
    is_same_failure,
    schedule_text,
    story_text,
    verdict_text,
)
from foretold.tape import TapeFile
from foretold.tape.file import load


@app.command("show")
@click.argument("file")
def show_command(file: str) -> None:
    """Tell the story of a tape FILE."""
    loaded = load(file)
    click.echo(f"{header_text(loaded, file)}\n")
    try:
        click.echo(_story_of(loaded))
    except UsageError as error:
        click.echo(f"{schedule_text(loaded.tape)}\n(It cannot be run here: {error})")
    click.echo(f"Replay it: foretold replay {file}")


def _story_of(file: TapeFile) -> str:
    if not file.target:
        return schedule_text(file.tape)
    if is_node_id(file.target):
        return f"{schedule_text(file.tape)}\n(pytest runs this one, and a replay tells all of it.)"
    with output_dropped():
        done = run_tape(file)
    warning = changed_text(file, done)
    parts = [f"{warning}\n"] if warning else []
    if done.error is None or (file.failure and not is_same_failure(file.failure, done.error)):
        parts.append(verdict_text(file, done))
    if done.error is not None:
        parts.append(story_text(done))
    return "\n".join(parts)
