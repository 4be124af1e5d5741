"""A failing tape as a scenario file, which a colleague can read, edit and keep.

Of a machine the calls become steps, with their arguments and with names for what earlier calls have
made. Of a scenario the values that were drawn become values. What remains on the tape (order,
faults, bytes) goes into the file as it is, under `replay`. A text is given out only if playing it
fails in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from foretold.errors import ScenarioError, TapeError, UsageError
from foretold.harness.factory import Harness
from foretold.harness.machines import steps_of, words_of
from foretold.harness.program import ScenarioProgram, options_of
from foretold.harness.replays import replay_text
from foretold.scenario.model import read_scenario
from foretold.scenario.source import Mark, Node, parse, read_text
from foretold.scenario.values import DRAWN
from foretold.scenario.writing import scenario_text
from foretold.search.checking.plays import run_replay
from foretold.search.workers.warming import run_warm
from foretold.spec.machine.course import STREAM
from foretold.spec.machine.machine import Machine
from foretold.story.signature import text_of
from foretold.tape import Tape, TapeFile
from foretold.world.run import Run, bind_main
from foretold.world.settings import Settings

WRITTEN = "written.scenario.yaml"
ABOUT_CHARS_MAX = 200
_PLACE = re.compile(r"^\S+\.scenario\.\w+:\d+(?::\d+)?: ")


def scenario_of(file: TapeFile, target: Any) -> str:
    """The text of a scenario that fails as this tape does on `target`, which its target names."""
    done = _run(file.tape, bind_main(target))
    if done.error is None:
        raise UsageError("this tape holds here: a scenario is written from a run that fails")
    tape = done.tape.recorded() if file.tape.origin == "seeded" else file.tape
    said = []
    for written in _ways(file.target, target, tape):
        text = scenario_text(written, _comment(file.target, done.error))
        played = target.target if isinstance(target, ScenarioProgram) else target
        try:
            again = run_replay(ScenarioProgram(read_scenario(text, WRITTEN), played))
        except (ScenarioError, TapeError) as error:
            said.append(str(error))
            continue
        if again is not None and again.error is not None and _same(done.error, again.error):
            return text
        seen = None if again is None else again.error
        said.append("it holds" if seen is None else f"{type(seen).__name__}: {text_of(seen)[:200]}")
    raise UsageError(
        "this run could not be written as a scenario that fails in the same way. Written so, "
        f"{' and '.join(said)}. The tape itself replays"
    )


def _run(tape: Tape, main: Callable[..., Any]) -> Run:
    settings = Settings.from_tape(tape.settings)
    return run_warm(main, tape, settings, recording=tape.origin == "seeded")


def _same(one: BaseException, other: BaseException) -> bool:
    """The same kind of exception, which says the same but for the line of the scenario."""
    same_kind = type(one) is type(other)
    return same_kind and _PLACE.sub("", text_of(one)) == _PLACE.sub("", text_of(other))


def _comment(target: str, error: BaseException) -> str:
    first = text_of(error).strip().partition("\n")[0]
    said = f"{type(error).__name__}: {_PLACE.sub('', first)}"[:ABOUT_CHARS_MAX]
    return f"Written by `foretold show --as-scenario` from a failing run of {target}:\n  {said}"


def _ways(name: str, target: Any, tape: Tape) -> Iterator[dict[str, Any]]:
    """The scenario in words, the most readable first."""
    if isinstance(target, ScenarioProgram):
        yield from _of_scenario(target, tape)
    elif isinstance(target, type) and issubclass(target, Machine):
        yield _of_machine(name, target, tape)
    else:
        yield {
            "name": f"a run of {name}",
            "harness": name,
            "steps": [],
            "replay": replay_text(tape),
        }


def _of_machine(name: str, cls: type[Machine], tape: Tape) -> dict[str, Any]:
    main, steps, drawn = steps_of(cls)
    _run(tape, main)
    written = [_tidy(step) for step in _in_order(steps)]
    kept = {f"{STREAM}/{number}" for number in drawn}
    choices = {
        stream: given
        for stream, given in tape.choices.items()
        if not stream.startswith(f"{STREAM}/")
        or stream in kept
        or not stream.removeprefix(f"{STREAM}/").isdecimal()
    }
    rest = tape.derived(choices=choices)
    actors = words_of(cls, str(tape.settings.get("machine", ""))).actors or ()
    return {
        "name": f"a run of {cls.__name__}",
        "harness": name,
        "actors": [each for each in actors if any(s.get("actor") == each for s in written)]
        or list(actors),
        "steps": written,
        "replay": replay_text(rest),
    }


def _in_order(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A look that belongs to a call whose arguments stay on the tape is made by that call."""
    drawn = {step["slot"] for step in steps if step.get("drawn")}
    return [step for step in steps if step["kind"] != "look" or step["slot"] not in drawn]


def _tidy(step: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in step.items() if k != "slot"} if step["kind"] == "look" else step


def _of_scenario(program: ScenarioProgram, tape: Tape) -> Iterator[dict[str, Any]]:
    _run(tape, bind_main(program))
    file = program.scenario.file
    tree = parse(read_text(Path(file)), file)
    left = ("runs", "seed", "golden", "load", "wiring", "replay", "stagger")
    load, wiring = 1, ""
    if isinstance(program.target, Harness):
        load, wiring = options_of(str(tape.settings.get("machine", "")))
    whole: dict[str, Any] = {"name": program.scenario.name, "harness": program.scenario.harness}
    whole |= {"wiring": wiring} if wiring else {}
    whole |= {"load": load} if load > 1 else {}
    values = {mark: found[0] for mark, found in program.drawn.items() if len(found) == 1}
    plain = _concrete(tree, values)
    without = {name: given for name, given in tape.choices.items() if name != "workload"}
    for tried, choices in ((plain, without), (tree.plain(), dict(tape.choices))):
        steps = {key: value for key, value in tried.items() if key not in left and key not in whole}
        if load > 1 and "stagger" in tried:
            steps = {"stagger": tried["stagger"], **steps}
        yield {**whole, **steps, "replay": replay_text(tape.derived(choices=choices))}


def _concrete(node: Node, values: dict[Mark, Any]) -> Any:
    """The tree with what was drawn instead of how it is drawn."""
    if isinstance(node.value, list):
        return [_concrete(each, values) for each in node.value]
    if not isinstance(node.value, dict):
        return node.value
    marked = next((key for key in node.value if key in DRAWN), None)
    if marked is not None and node.keys[marked] in values:
        return values[node.keys[marked]]
    return {key: _concrete(each, values) for key, each in node.value.items()}
