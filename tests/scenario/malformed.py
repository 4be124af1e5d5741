"""Scenario files with one mistake each. The sentence about each stands in `malformed.json`."""

from __future__ import annotations

HEAD = """name: x
harness: examples.kitchen.harness:kitchen
actors: [waiter, chef]
"""


def steps(*lines: str) -> str:
    """A file whose steps are these lines."""
    return HEAD + "steps:\n" + "".join(f"  {line}\n" for line in lines)


def act(rest: str) -> str:
    """A file with one act."""
    return steps(f"- {{kind: act, {rest}}}")


ORDER = "actor: waiter, intent: PlaceOrder"
SAVED = "- {kind: act, actor: waiter, intent: PlaceOrder, payload: {items: [coke]}, save: ticket}"

YAML: dict[str, str] = {
    # The language itself
    "empty": "",
    "only a comment": "# nothing\n",
    "a list": "- 1\n",
    "text": "just text\n",
    "unclosed bracket": "name: [x\nsteps: []\n",
    "unclosed quote": 'name: "x\nsteps: []\n',
    "a tab": "name: x\nsteps:\n\t- {kind: look}\n",
    "bad indentation": "name: x\n steps: []\n",
    "two documents": "name: x\nsteps: []\n---\nname: y\nsteps: []\n",
    "an anchor": "name: &n x\nsteps: []\n",
    "an alias": "name: *n\nsteps: []\n",
    "a tag": "name: !!python/object:os.system x\nsteps: []\n",
    "a key twice": "name: x\nname: y\nsteps: []\n",
    "a list as key": "? [a, b]\n: 1\nname: x\nsteps: []\n",
    "a control character": "name: x\x07\nsteps: []\n",
    "too deep": "name: x\nsteps: " + "[" * 80 + "]" * 80 + "\n",
    "a huge number": "name: x\nseed: " + "9" * 5_000 + "\nsteps: []\n",
    "an infinite number": "name: x\nsteps:\n  - {kind: wait, ms: 1e999}\n",
    "a directive": "%YAML 1.1\n---\nname: x\nsteps: []\n",
    "a merge key": "name: x\nsteps:\n  - {<<: {kind: look}}\n",
    "a number with two meanings": "name: x\nseed: 010\nsteps: []\n",
    "not a number": "name: x\nsteps:\n  - {kind: wait, ms: .NaN}\n",
    "infinity": "name: x\nsteps:\n  - {kind: wait, ms: -.inf}\n",
    "half a character": 'name: "\\ud800"\nsteps: []\n',
    "half a character as key": '"\\udfff": 1\nname: x\nsteps: []\n',
    "too deep to be read": "name: x\nsteps: " + "[" * 400_000 + "\n",
    "blocks that are too deep": "name: x\nsteps:\n" + "".join(" " * i + "-\n" for i in range(80)),
    "a name of two lines": 'name: "x\\ny"\nsteps: []\n',
    # Keys of a scenario
    "no name": "steps: []\n",
    "no steps": "name: x\n",
    "an empty name": "name: '  '\nsteps: []\n",
    "a name that is a number": "name: 7\nsteps: []\n",
    "an unknown key": HEAD + "acters: [x]\nsteps: []\n",
    "steps are a mapping": HEAD + "steps: {kind: look}\n",
    "steps are nothing": HEAD + "steps:\n",
    "a seed that is text": HEAD + "seed: one\nsteps: []\n",
    "a seed below zero": HEAD + "seed: -1\nsteps: []\n",
    "a seed that is true": HEAD + "seed: true\nsteps: []\n",
    "no seeds": HEAD + "seed: []\nsteps: []\n",
    "a load of zero": HEAD + "load: 0\nsteps: []\n",
    "a load of a million": HEAD + "load: [1, 1000000]\nsteps: []\n",
    "no runs": HEAD + "runs: 0\nsteps: []\n",
    "a seed of 200 bits": HEAD + "seed: " + "9" * 60 + "\nsteps: []\n",
    "a golden file elsewhere": HEAD + "golden: ../../etc/motd\nsteps: []\n",
    "a golden file at the root": HEAD + "golden: /etc/motd\nsteps: []\n",
    "nothing to do": HEAD + "steps: []\n",
    "a stagger without unit": HEAD + "stagger: 5\nsteps: []\n",
    "an actor twice": "name: x\nharness: examples.kitchen.harness:kitchen\n"
    "actors: [waiter, waiter]\nsteps: []\n",
    "an actor that nobody knows": "name: x\nharness: examples.kitchen.harness:kitchen\n"
    "actors: [waitress]\nsteps: []\n",
    "an unknown wiring": HEAD + "wiring: memroy\nsteps: []\n",
    "an unknown fault": HEAD + "faults: netwrok\nsteps: []\n",
    "no harness": "name: x\nsteps: []\n",
    "a harness that is not there": "name: x\nharness: examples.kitchen.harness:kitchn\nsteps: []\n",
    "a harness that is a function": "name: x\nharness: examples.kitchen.harness:smtp_mail\n"
    "steps: []\n",
    "a harness outside of the project": "name: x\nharness: os:system\nsteps: []\n",
    "a damaged replay": HEAD + "steps: []\nreplay: |\n  seed 1\n\n  [stream workload]\n  5/2 x\n",
    # Steps
    "a step without a kind": steps("- {ms: 5}"),
    "an unknown kind": steps("- {kind: wiat, ms: 5}"),
    "a step that is text": steps("- wait"),
    "a wait without a time": steps("- {kind: wait}"),
    "a wait with two times": steps("- {kind: wait, ms: 5, minutes: 1}"),
    "a wait below zero": steps("- {kind: wait, ms: -5}"),
    "a wait that is text": steps("- {kind: wait, ms: soon}"),
    "a wait that is a mapping": steps("- {kind: wait, ms: {a: 1}}"),
    "a wait that is drawn and no number": steps("- {kind: wait, ms: {$choose: [5, soon]}}"),
    "a wait that is drawn below zero": steps("- {kind: wait, ms: {$between: [-5, 5]}}"),
    "a wait for ever": steps("- {kind: wait, minutes: 1e300}"),
    "an act without an actor": act("intent: PlaceOrder"),
    "an act without an intent": act("actor: waiter"),
    "an actor that is not listed": act("actor: expo, intent: CloseTicket"),
    "an unknown intent": act("actor: waiter, intent: PlaceOder"),
    "an unknown parameter": act(ORDER + ", payload: {itmes: [coke]}"),
    "a missing parameter": act("actor: chef, intent: StartCooking"),
    "a payload that is a list": act(ORDER + ", payload: [coke]"),
    "a misspelt key of an act": act(ORDER + ", paylod: {items: [coke]}"),
    "a name that cannot be saved": act(ORDER + ", save: My Ticket"),
    "both expectations": act(ORDER + ", expect: 1, expect_error: Refused"),
    "an unknown key of an error": act(ORDER + ", expect_error: {kind: Refused}"),
    "a reference to nothing": act("actor: chef, intent: StartCooking, payload: {ticket: $tikcet}"),
    "a reference to a later step": steps(
        "- {kind: act, actor: chef, intent: StartCooking, payload: {ticket: $ticket}}", SAVED
    ),
    "a reference without a name": act(ORDER + ", payload: {items: [$]}"),
    "an unknown way to draw": act(ORDER + ", payload: {items: [{$chose: [a]}]}"),
    "a draw with another key": act(ORDER + ", payload: {items: [{$choose: [a], b: 1}]}"),
    "a choice of nothing": act(ORDER + ", payload: {items: [{$choose: []}]}"),
    "bounds in the wrong order": act(ORDER + ", payload: {items: [{$between: [5, 1]}]}"),
    "bounds that are no numbers": act(ORDER + ", payload: {items: [{$between: [a, b]}]}"),
    "an unknown strategy": act(ORDER + ", payload: {items: [{$draw: dihs}]}"),
    "a slot without a machine": act(ORDER + ", slot: 3"),
    "a query without an expectation": steps("- {kind: assert, query: Board}"),
    "an assert of nothing": steps("- {kind: assert}"),
    "an unknown query": steps("- {kind: assert, query: Bord, expect: {}}"),
    "an unknown comparison": steps("- {kind: assert, query: Board, expect: {$grt: 3}}"),
    "a comparison with another key": steps(
        "- {kind: assert, query: Board, expect: {$gt: 3, a: 1}}"
    ),
    "a subset of a list": steps("- {kind: assert, query: Board, expect: {$subset: [1]}}"),
    "no events": steps("- {kind: assert, expect_events: []}"),
    "an event without a name": steps("- {kind: assert, expect_events: [{at: {ms: 5}}]}"),
    "a drawn instant": steps(
        "- {kind: assert, expect_events: [{event: A, at: {ms: {$between: [1, 2]}}}]}"
    ),
    "a silence that ends first": steps("- {kind: assert, silence: {from: {ms: 5}, to: {ms: 5}}}"),
    "one branch": steps("- {kind: parallel, branches: [[{kind: look}]]}"),
    "a repeat below zero": steps("- {kind: repeat, times: -1, steps: []}"),
    "a repeat of half a time": steps("- {kind: repeat, times: {$choose: [0.5]}, steps: []}"),
    "a repeat without end": steps(
        "- {kind: repeat, times: 10000, steps: [{kind: repeat, times: 10000, steps: []}]}"
    ),
    "no port that fails": steps("- {kind: faults, ports: {}}"),
    "an unknown method of a port": steps("- {kind: faults, ports: {store.apend: 0.5}}"),
    "a healing that is a number": steps("- {kind: faults, heal: 1}"),
    "a probability of two": steps("- {kind: faults, ports: {mail: 2}}"),
    "an unknown port": steps("- {kind: faults, ports: {male: 0.5}}"),
    "a reaction that nobody can do": HEAD + "steps: []\nreactions:\n"
    "  - {after: ItemStarted, actor: chef, intent: Shout}\n",
}

TOML: dict[str, str] = {
    "no TOML": 'name = "x\nsteps = []\n',
    "a date in TOML": 'name = "x"\nsteps = []\ngolden = 2026-01-01\n',
    "TOML that is too deep": 'name = "x"\nsteps = ' + "[" * 5_000 + "]" * 5_000 + "\n",
    "a huge number in TOML": 'name = "x"\nseed = ' + "9" * 5_000 + "\nsteps = []\n",
    "an unknown key in TOML": 'name = "x"\n[[steps]]\nkind = "wait"\nmss = 5\n',
    "an unknown intent in TOML": 'name = "x"\nharness = "examples.kitchen.harness:kitchen"\n'
    'actors = ["waiter"]\n\n[[steps]]\nkind = "act"\nactor = "waiter"\nintent = "Order"\n',
}

JSON: dict[str, str] = {
    "a trailing comma in JSON": '{"name": "x", "steps": [],}',
    "a comment in JSON": '{"name": "x", // no\n"steps": []}',
    "an unclosed JSON": '{"name": "x", "steps": [',
    "two values in JSON": '{"name": "x", "steps": []} {}',
    "a key twice in JSON": '{"name": "x",\n "name": "y", "steps": []}',
    "JSON that is too deep": '{"name": "x",\n"steps": ' + "[" * 5_000 + "]" * 5_000 + "}",
    "half a character in JSON": '{"name": "x\\ud83c", "steps": []}',
    "NaN in JSON": '{"name": "x", "steps": [{"kind": "wait", "ms": NaN}]}',
    "a key that is like one for editors": '{"name": "x", "steps": [], "schema": "y"}',
    "an unknown key in JSON": '{\n  "name": "x",\n  "stesp": []\n}',
}

ALL = {
    **{name: (text, "yaml") for name, text in YAML.items()},
    **{name: (text, "toml") for name, text in TOML.items()},
    **{name: (text, "json") for name, text in JSON.items()},
}
