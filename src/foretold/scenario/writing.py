"""A scenario as text: YAML that a person reads and edits."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_WORD = re.compile(r"[A-Za-z_$](?:[A-Za-z0-9_.$/ -]*[A-Za-z0-9_])?")
_NO_TEXT = ("true", "false", "null")
WIDTH = 100


def scenario_text(scenario: Mapping[str, Any], comment: str = "") -> str:
    """One key to a line, one step to a line; long steps get a line for each of their keys."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    for key, value in scenario.items():
        if key in ("steps", "reactions") and value:
            lines.append(f"{key}:")
            lines += [line for each in value for line in _step_lines(each)]
        elif key == "replay":  # its lines are plain, and the last one ends
            lines += [f"{key}: |", *(f"  {line}".rstrip() for line in value.splitlines())]
        else:
            lines.append(f"{key}: {_flow(value)}")
    return "\n".join(lines) + "\n"


def _step_lines(step: Mapping[str, Any]) -> list[str]:
    whole = f"  - {_flow(step)}"
    if len(whole) <= WIDTH:
        return [whole]
    pairs = [f"{_flow(key)}: {_flow(value)}" for key, value in step.items()]
    return [f"  - {pairs[0]}", *(f"    {pair}" for pair in pairs[1:])]


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(str(k))}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str):
        plain = _WORD.fullmatch(value) and value.lower() not in _NO_TEXT
        return value if plain else f'"{"".join(map(_escaped, value))}"'
    return json.dumps(value)


def _escaped(char: str) -> str:
    """As YAML has it: in JSON a character beyond the first 65,536 is two escapes."""
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
