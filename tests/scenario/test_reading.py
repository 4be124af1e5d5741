"""Scenario files: three languages say the same, and places in them are right."""

from __future__ import annotations

import json

import pytest

from foretold.scenario.source import Mark, parse
from foretold.scenario.writing import scenario_text

YAML = """\
# a comment
name: "x y"
about: no
load: [1, 10]
steps:
  - kind: wait
    minutes: 1.5
  - {kind: act, payload: {items: [a, 'b # c', null, true, -3]}}
"""
TOML = """\
name = "x y"  # a comment
about = 'no'
load = [1,
  10]

[[steps]]
kind = "wait"
minutes = 1.5

[[steps]]
kind = 'act'
payload.items = ["a", "b # c", {"none" = 1}, true, -3]
"""
JSON = """\
{"name": "x y", "about": "no", "load": [1, 10],
 "steps": [{"kind": "wait", "minutes": 1.5},
  {"kind": "act", "payload": {"items": ["a", "b # c", null, true, -3]}}]}
"""


def test_three_languages_say_the_same():
    """The same values; TOML has no null, so it says something else in that place."""
    yaml, js = (parse(t, f"x.scenario.{k}").plain() for t, k in ((YAML, "yaml"), (JSON, "json")))
    toml = parse(TOML, "x.scenario.toml").plain()
    assert yaml == js
    toml["steps"][1]["payload"]["items"][2] = None
    assert toml == js


@pytest.mark.parametrize(
    ("text", "kind", "key", "value", "entry"),
    [
        (YAML, "yaml", (4, 1), (4, 7), (8, 5)),
        (TOML, "toml", (3, 1), (3, 8), (10, 3)),
        (JSON, "json", (1, 32), (1, 40), (3, 3)),
    ],
)
def test_places_are_right(text, kind, key, value, entry):
    """Lines and columns of a key, of its value and of an entry of a list, counted from 1."""
    tree = parse(text, f"x.scenario.{kind}")
    assert tree.keys["load"] == Mark(*key)
    assert tree.value["load"].mark == Mark(*value)
    assert tree.value["steps"].value[1].mark == Mark(*entry)


@pytest.mark.parametrize("word", ["no", "on", "yes", "1:30", "1_000", "2026-01-01"])
def test_words_of_older_yaml_are_text(word):
    """`no` is Norway, and `1:30` is half past one; quoted or not."""
    assert parse(f"a: {word}\n", "x.scenario.yaml").plain() == {"a": word}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("True", True), ("FALSE", False), ("Null", None), ("NULL", None), ("tRUE", "tRUE"),
        ("0x1F", 31), ("0o17", 15), ("0", 0), ("+5", 5), ("-0.5", -0.5), ("'010'", "010"),
    ],
)  # fmt: skip
def test_words_of_yaml_1_2_are_what_it_says(word, value):
    """`expect: True` was compared with the text, and `0x1F` was one, without any word about it."""
    found = parse(f"a: {word}\n", "x.scenario.yaml").plain()["a"]
    assert found == value
    assert type(found) is type(value)


def test_toml_is_walked_as_tomllib_reads_it():
    """Strings of all kinds, dotted and quoted keys, tables and tables in lists."""
    import tomllib

    text = (
        'a."b c".d = """x\n"quoted" \\u00e9"""\n'
        "e = '''it's # no comment'''\n"
        "f = [ # comment\n  [1, 2], {x = 1, y.z = [true]}, ]\n"
        "[g.h]\ni = 1.5\n[[j]]\n[[j.k]]\nl = 'm'\n[[j]]\nn = 0x1F\n[j.o]\np = 1e3\n"
    )
    assert parse(text, "x.scenario.toml").plain() == tomllib.loads(text)


@pytest.mark.parametrize(
    "value",
    [
        "a",
        "",
        "true",
        "null",
        "1",
        "1.5",
        "a: b",
        "- a",
        "#x",
        "$ref",
        "ü\n\t\"'\\",
        " a",
        "a b",
        "~",
        "NULL",
        "010",
        "0x1F",
        ".nan",
        "<<",
        "caf\u00e9 \U0001f354",
        "\u2028\x85\ufeff\x7f\u202e",
    ],
)
def test_what_is_written_is_read_back(value):
    """Any text, as a value and as a key, in a step that is short and in one that is long."""
    steps = [{"kind": "act", "payload": {"k" + value: [value, 1, None, True, 0.5]}}]
    steps.append({"kind": "act", "payload": {"x": "long " * 30, "y": value}})
    given = {"name": value, "steps": steps, "replay": "seed 1\n\n[stream workload]\n1/2 x\n"}
    text = scenario_text(given, "a comment\nof two lines")
    assert parse(text, "x.scenario.yaml").plain() == given
    assert parse(json.dumps(given), "x.scenario.json").plain() == given
