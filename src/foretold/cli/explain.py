"""`foretold explain` and `foretold shrink`: more about one tape."""

from __future__ import annotations

import sys

import click

from foretold.cli.group import HELD, VIOLATED, app
from foretold.cli.options import target_option
from foretold.cli.targets import is_node_id, load_target, output_dropped, run_tape, with_target
from foretold.errors import UsageError
from foretold.pytest_support import child
from foretold.report.explained import ONE_COLD_RUN, explanation_text
from foretold.report.tapes import changed_text, story_text, verdict_text
from foretold.report.terminal import put, say
from foretold.report.text import exception_text, failure_note
from foretold.search.checking.replayers import FreshReplayer
from foretold.search.explore import resume
from foretold.search.failures.examiner import look, seen_of
from foretold.search.failures.explain import CONTINUATIONS, explain
from foretold.search.failures.pair import what_decides
from foretold.search.failures.workout import DECIDED_CPU_S, DECIDED_RUNS
from foretold.search.planning.allowance import Allowance
from foretold.story.signature import signature_of
from foretold.tape import TapeFile
from foretold.tape.file import load
from foretold.world.run import bind_main
from foretold.world.settings import Settings


@app.command("explain")
@click.argument("file")
@target_option
@click.option(
    "--continuations",
    type=click.IntRange(min=1),
    default=CONTINUATIONS,
    show_default=True,
    help="So many runs go on from each point.",
)
def explain_command(file: str, target: str | None, continuations: int) -> None:
    """Why does the run of a tape FILE fail? Its story, the two steps that decide it, and how likely
    the failure was at each point of the run."""
    loaded = _loaded(file, target)
    if is_node_id(loaded.target):
        sys.exit(child.replay_file(file, loaded.target, continuations=continuations))
    with output_dropped():
        text = _explained(loaded, continuations)
    put(f"{text}\nReplay it: foretold replay {file}")


def _loaded(name: str, target: str | None) -> TapeFile:
    file = with_target(load(name), target)
    if not file.target:
        raise UsageError(
            f"{name} does not say what it was recorded for: it was saved from a function that "
            "cannot be imported by name"
        )
    return file


def _explained(file: TapeFile, continuations: int) -> str:
    done = run_tape(file)
    if done.error is None:
        return verdict_text(file, done)
    main, tape = bind_main(load_target(file.target)[0]), file.tape
    settings = Settings.from_tape(tape.settings)
    if settings.cold:
        return f"{story_text(done)}\n\n{ONE_COLD_RUN}"
    decision = None
    if tape.scheduled_by_key:
        decision = what_decides(
            lambda other, watched: look(main, other, settings, watched),
            tape,
            signature_of(done.error),
            Allowance(DECIDED_RUNS, DECIDED_CPU_S),
            seen_of(done),
        )
    warning = changed_text(file, done)
    parts = [*([f"{warning}\n"] if warning else []), story_text(done, decision), ""]
    parts.append(explanation_text(explain(main, tape, continuations=continuations)))
    return "\n".join(parts)


@app.command("shrink")
@click.argument("file")
@target_option
def shrink_command(file: str, target: str | None) -> None:
    """Go on shrinking a tape FILE that a search saved before it was interrupted.

    FILE is written anew with the smaller tape.
    """
    loaded = _loaded(file, target)
    if is_node_id(loaded.target):
        raise UsageError(
            f"this tape belongs to a pytest test: run `pytest {loaded.target}`, which tries saved "
            "failures first and continues to shrink them"
        )
    main, _ = load_target(loaded.target)
    with output_dropped():
        found = resume(main, file, replayer=FreshReplayer(loaded.target))
    if found is None:
        say("The failure is gone: the run holds. The file is as it was.")
        sys.exit(HELD)
    note = failure_note(found, runs=1, command=f"foretold replay {file}")
    _, _, rest = note.partition("\n")  # the first line says how a search found it
    put(f"{exception_text(found.exception)}\n\n{rest}")
    sys.exit(VIOLATED)
