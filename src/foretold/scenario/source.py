"""The text of a scenario file as a tree whose parts know where they stand.

YAML, TOML and JSON give the same tree: mappings with text as keys, lists, text, numbers, true,
false and null. YAML is read as version 1.2 means it (`no` and `on` are text, `1:30` is text, `True`
is true), without anchors, aliases, tags, directives and merge keys. A number that versions of YAML
read differently (`010`) is an error. A key that stands twice is an error in all three.
"""

from __future__ import annotations

import json.decoder
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from foretold.errors import ScenarioError

SUFFIXES = (".scenario.yaml", ".scenario.yml", ".scenario.toml", ".scenario.json")
BYTES_MAX = 1_000_000
DEPTH_MAX = 60
_HALF = re.compile("[\ud800-\udfff]")


class Mark(NamedTuple):
    """A place in a file; both are counted from 1."""

    line: int
    column: int


@dataclass(slots=True)
class Node:
    """A value and where it stands."""

    value: Any
    """A scalar, a list of nodes, or a dict of nodes."""
    mark: Mark
    keys: dict[str, Mark] = field(default_factory=dict)
    """Of a mapping: where its keys stand."""

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


def is_scenario(name: str) -> bool:
    """Whether a path is that of a scenario file."""
    return name.endswith(SUFFIXES)


def problem(file: str, mark: Mark, what: str) -> ScenarioError:
    """A sentence about one place of a file."""
    return ScenarioError(f"{file}:{mark.line}:{mark.column}: {what}")


def parse(text: str, file: str) -> Node:
    """The tree of a file's text. Its name says how it is written."""
    reader = _reader_for(file)
    try:
        root = reader(text, file)
    except RecursionError:
        raise too_deep(file, Mark(1, 1)) from None
    _check_tree(root, file)
    return root


def too_deep(file: str, mark: Mark) -> ScenarioError:
    """Nobody writes such a file by hand, and to read it may take for ever."""
    return problem(file, mark, f"values lie more than {DEPTH_MAX} deep in each other")


def _reader_for(file: str) -> Callable[[str, str], Node]:
    if file.endswith(".toml"):
        from foretold.scenario.toml import parse_toml

        return parse_toml
    return parse_json if file.endswith(".json") else parse_yaml


def _check_tree(root: Node, file: str) -> None:
    todo = [(root, 1)]
    while todo:
        node, depth = todo.pop()
        if depth > DEPTH_MAX:
            raise too_deep(file, node.mark)
        value = node.value
        for text in (value, *node.keys) if isinstance(value, str | dict) else ():
            if isinstance(text, str) and _HALF.search(text):
                mark = node.keys.get(text, node.mark)
                raise problem(
                    file,
                    mark,
                    "this text holds half a surrogate pair, which cannot be written or compared",
                )
        if isinstance(value, dict | list):
            inner = value.values() if isinstance(value, dict) else value
            todo += [(each, depth + 1) for each in inner]


def read_text(path: Path) -> str:
    """The text of a file, or a sentence why there is none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ScenarioError(f"{path}: it cannot be read: {error.strerror or error}") from None
    if len(data) > BYTES_MAX:
        raise ScenarioError(f"{path}: it has {len(data):,} bytes, and may have {BYTES_MAX:,}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        mark = mark_at(before, len(before))
        raise problem(str(path), mark, "this is not UTF-8: save the file as UTF-8") from None


def mark_at(text: str, position: int) -> Mark:
    """Line and column of a position."""
    line_start = text.rfind("\n", 0, position) + 1
    return Mark(text.count("\n", 0, position) + 1, position - line_start + 1)


# YAML

_RESOLVERS = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
)
_NO_NUMBER = re.compile(r"[-+]?\.(?:inf|nan)", re.IGNORECASE)
_OCTAL = re.compile(r"[-+]?0[0-9]+")
_PLAIN: dict[str, Callable[[str], Any]] = {
    "str": str,
    "bool": lambda text: text.lower() == "true",
    "null": lambda text: None,
    "int": lambda text: int(text, 0),
    "float": float,
}


def parse_yaml(text: str, file: str) -> Node:
    """YAML 1.2 without what makes one text mean several things."""
    try:
        import yaml
    except ImportError:
        raise ScenarioError(
            f"{file}: reading YAML takes PyYAML: pip install 'foretold[scenarios]'. TOML and JSON "
            "need nothing"
        ) from None

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML ships no type hints
        yaml_implicit_resolvers: ClassVar[dict[Any, Any]] = {}

    for tag, pattern, first in _RESOLVERS:
        Loader.add_implicit_resolver(
            f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})\Z"), list(first)
        )
    try:
        depth = 0
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            _refuse_token(token, file)
            depth += _deeper(type(token).__name__)
            if depth > DEPTH_MAX:
                raise too_deep(file, _mark_of(token))
        found = yaml.compose(text, Loader=Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(filter(None, (error.context, error.problem)))
        where = Mark(mark.line + 1, mark.column + 1) if mark else Mark(1, 1)
        raise problem(file, where, f"this is not YAML: {said}") from None
    except yaml.reader.ReaderError as error:
        where = mark_at(text, int(error.position))
        raise problem(file, where, f"this is not YAML: {error.reason}") from None
    if found is None:
        raise problem(file, Mark(1, 1), "the file is empty: a scenario has a name and steps")
    return _of_yaml(found, file)


def _refuse_token(token: Any, file: str) -> None:
    kind = type(token).__name__
    refused = {
        "AnchorToken": "an anchor (&) has no meaning here: write the value out",
        "AliasToken": "an alias (*) has no meaning here: write the value out",
        "TagToken": "a tag (!) has no meaning here: leave it out",
        "DirectiveToken": "a directive (%) has no meaning here: leave it out",
    }
    if kind in refused:
        raise problem(file, _mark_of(token), refused[kind])


def _mark_of(part: Any) -> Mark:
    return Mark(part.start_mark.line + 1, part.start_mark.column + 1)


def _deeper(token: str) -> int:
    opens = token.endswith(("SequenceStartToken", "MappingStartToken"))
    closes = token.endswith(("SequenceEndToken", "MappingEndToken", "BlockEndToken"))
    return opens - closes


def _of_yaml(node: Any, file: str) -> Node:
    mark = _mark_of(node)
    if node.id == "sequence":
        return Node([_of_yaml(each, file) for each in node.value], mark)
    if node.id == "mapping":
        made = Node({}, mark)
        for key, value in node.value:
            place = _mark_of(key)
            if key.id != "scalar":
                raise problem(file, place, "a key is text, not a list or a mapping")
            if key.value == "<<" and key.style is None:
                raise problem(file, place, "a merge key (<<) has no meaning here: write it out")
            add_key(made, key.value, place, _of_yaml(value, file), file)
        return made
    kind = node.tag.rpartition(":")[2]
    return Node(_number_or_text(_PLAIN[kind], node.value, mark, file), mark)


def add_key(mapping: Node, key: str, mark: Mark, value: Node, file: str) -> None:
    """One more key, which is not there yet."""
    if key in mapping.keys:
        first = mapping.keys[key]
        raise problem(file, mark, f"the key {key!r} stands twice, first in line {first.line}")
    mapping.value[key], mapping.keys[key] = value, mark


def _number_or_text(read: Callable[[str], Any], text: str, mark: Mark, file: str) -> Any:
    if read is not str and _NO_NUMBER.fullmatch(text):
        raise problem(file, mark, f"{text} has no meaning here: write text or numbers")
    if read is not str and _OCTAL.fullmatch(text):
        what = "has two meanings in YAML: write it without the 0 before it, or in quotation marks"
        raise problem(file, mark, f"{text[:20]} {what}")
    try:
        value = read(text)
    except ValueError:
        raise problem(file, mark, f"{text[:20]}… is not a number that can be read") from None
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise problem(file, mark, f"{text[:20]} is too large for a number")
    return value


# JSON

_BLANK = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None}


def parse_json(text: str, file: str) -> Node:
    """JSON as its standard has it: no comments, no trailing commas, no NaN."""
    reader = _Json(text, file)
    root = reader.value()
    reader.skip()
    if reader.at < len(text):
        raise reader.error("the file goes on after its value")
    return root


class _Json:
    """Reads JSON from left to right."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file, self.at = text, file, 0
        self.depth = 0

    def error(self, what: str, at: int | None = None) -> ScenarioError:
        return problem(self.file, self.mark(at), f"this is not JSON: {what}")

    def mark(self, at: int | None = None) -> Mark:
        return mark_at(self.text, self.at if at is None else at)

    def skip(self) -> str:
        """Go to what comes next, and return its first character."""
        found = _BLANK.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.text[self.at : self.at + 1]

    def value(self) -> Node:
        char, mark = self.skip(), self.mark()
        if char in ("{", "["):
            self.depth += 1
            if self.depth > DEPTH_MAX:
                raise too_deep(self.file, mark)
            made = self._mapping(mark) if char == "{" else self._list(mark)
            self.depth -= 1
            return made
        if char == '"':
            return Node(self._string(), mark)
        for word, value in _WORDS.items():
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return Node(value, mark)
        number = _NUMBER.match(self.text, self.at)
        if number is None:
            raise self.error("a value is missing here" if char else "the file ends too early")
        self.at = number.end()
        read = float if number[1] or number[2] else int
        return Node(_number_or_text(read, number[0], mark, self.file), mark)

    def _string(self) -> str:
        try:
            value, self.at = json.decoder.scanstring(self.text, self.at + 1, True)  # type: ignore[attr-defined]  # no stub
        except json.JSONDecodeError as error:
            raise self.error(error.msg, error.pos) from None
        return str(value)

    def _list(self, mark: Mark) -> Node:
        items: list[Node] = []
        self.at += 1
        while self.skip() != "]" or items:
            items.append(self.value())
            if not self._goes_on("]"):
                return Node(items, mark)
        self.at += 1
        return Node(items, mark)

    def _mapping(self, mark: Mark) -> Node:
        made = Node({}, mark)
        self.at += 1
        while self.skip() != "}" or made.value:
            if self.skip() != '"':
                raise self.error('a key is text in quotation marks, such as "name"')
            place = self.mark()
            key = self._string()
            if self.skip() != ":":
                raise self.error(f"a colon is missing after the key {key!r}")
            self.at += 1
            add_key(made, key, place, self.value(), self.file)
            if not self._goes_on("}"):
                return made
        self.at += 1
        return made

    def _goes_on(self, end: str) -> bool:
        """Whether a comma follows; otherwise it is the end of the list or mapping."""
        char = self.skip()
        if char not in (",", end):
            raise self.error(f"expected a comma or {end} here" if char else "it ends too early")
        self.at += 1
        return char == ","
