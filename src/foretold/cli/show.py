"""`foretold show`: the story of a tape."""

from __future__ import annotations

import click

from foretold.cli.group import app
from foretold.cli.options import target_option
from foretold.cli.targets import (
    decision_of,
    is_node_id,
    load_target,
    output_dropped,
    run_tape,
    with_target,
)
from foretold.errors import UsageError
from foretold.report.tapes import (
    changed_text,
    header_text,
    is_same_failure,
    schedule_text,
    story_text,
    verdict_text,
)
from foretold.report.terminal import put
from foretold.search.failures.as_scenario import scenario_of
from foretold.tape import TapeFile
from foretold.tape.file import load


@app.command("show")
@click.argument("file")
@target_option
@click.option(
    "--as-scenario",
    is_flag=True,
    help="Write it as a scenario that fails in the same way: to read, edit and keep.",
)
def show_command(file: str, target: str | None, as_scenario: bool) -> None:
    """Tell the story of a tape FILE."""
    loaded = load(file)
    if as_scenario:
        put(_scenario_of(with_target(loaded, target)).rstrip())
        return
    put(f"{header_text(loaded, file)}\n")
    try:
        put(_story_of(loaded, target))
    except UsageError as error:
        put(f"{schedule_text(loaded.tape)}\n(It cannot be run here: {error})")
    put(f"Replay it: foretold replay {file}")


def _scenario_of(file: TapeFile) -> str:
    if not file.target or is_node_id(file.target):
        raise UsageError(
            "a scenario names what it is played on, and this tape was recorded for "
            f"{file.target or 'nothing that has a name'}. Name the function, machine or scenario: "
            "--target module:Machine"
        )
    main, _ = load_target(file.target)
    with output_dropped():
        return scenario_of(file, main)


def _story_of(file: TapeFile, target: str | None) -> str:
    file = with_target(file, target)
    if not file.target:
        return schedule_text(file.tape)
    if is_node_id(file.target):
        return f"{schedule_text(file.tape)}\n(pytest runs this one, and a replay tells all of it.)"
    with output_dropped():
        done = run_tape(file)
        decision = decision_of(file, done)
    warning = changed_text(file, done)
    parts = [f"{warning}\n"] if warning else []
    if done.error is None or (file.failure and not is_same_failure(file.failure, done.error)):
        parts.append(verdict_text(file, done))
    if done.error is not None:
        parts.append(story_text(done, decision))
    return "\n".join(parts)
