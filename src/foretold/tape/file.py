r"""The tape's file: text that a person can read and a program can trust.

    foretold tape 1
    foretold 0.1.0
    python 3.12.1 cpython
    platform linux
    hash-seed 0
    target tests/test_bank.py::test_no_money_is_lost
    origin recorded
    seed 7
    setting order "any"
    failure AssertionError "assert 95 == 100" at tests/test_bank.py:31
    digest 9f86d081884c7d659a2feaa0c55ad015
    decided steps main transfer 4 main transfer-2 3

    [schedule]
    hold main transfer-2 step 3 until transfer ended
    slow main poll step 5 by 3000000 ns
    late main poll step 9 by 700000 ns

    [stream workload]
    3/10 amount
    0/2 retry x12

    sha256 (64 hex digits over everything above)

A name that is no plain word is quoted, with the escapes \" \\ \n \r \t and \u{...}: JSON's own
\ud83d\ude00 could not tell two lone surrogates from one character. `x12` repeats a line twelve
times. Whole numbers of 128 bits and more are in hexadecimal, where reading takes linear time and
Python's limit on decimal digits does not apply.

A tape may come from a stranger's pull request. So the reader is strict, bounded in all that it
takes, and builds nothing but numbers and text. The checksum finds accidents, not forgers.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from foretold.arguments import SEED_BITS_MAX
from foretold.errors import TapeError
from foretold.tape.about import (
    DECIDED,
    DecidedNote,
    FailureNote,
    StockNote,
    TapeFile,
    decided_field,
    environment_differences,
)
from foretold.tape.schedule import ENDED, Exception_, Hold, Schedule, Slow
from foretold.tape.streams import Choice
from foretold.tape.tape import Setting, Tape

__all__ = [
    "FailureNote", "StockNote", "Tape", "TapeFile", "dumps", "environment_differences", "load",
    "loads", "save",
]  # fmt: skip  # one to a line would be half a page

MAGIC = "foretold tape "
FORMAT = 1

FILE_BYTES_MAX = 64 * 1024 * 1024
LINES_MAX = 2_000_000
LINE_CHARS_MAX = 65_536
ENTRIES_MAX = 5_000_000
"""Choices and exceptions in all: a short line with a large repeat must not fill the memory."""
HEX_DIGITS_MAX = 10_000
INTEGER_BITS_MAX = 4 * HEX_DIGITS_MAX
COUNT_BITS_MAX = 80
"""Of what counts something: steps, nanoseconds, tries. All of it can be shown, and added up."""

_DECIMAL_BELOW = 1 << 128
_ORIGINS = ("seeded", "recorded", "derived")
_REQUIRED = ("foretold", "python", "platform", "origin", "seed")

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[^ "]++')
# Possessive, and matched as a whole before it is cut up: a made-up line of nothing but quotation
# marks must not take quadratic time.
_LINE = re.compile(rf"(?:{_TOKEN.pattern})(?: (?:{_TOKEN.pattern}))*+")
_PLAIN = re.compile(r"[A-Za-z0-9_.:/,=()<>\[\]@+-]+")
# Words of the grammar. Quoted as names, so that a sentence reads one way for a person as well.
_GRAMMAR = re.compile(r"x[0-9]+|hold|slow|late|step|until|ended|by|ns|at")
_INTEGER = re.compile(rf"0|-?(?:[1-9][0-9]{{0,38}}|0x[1-9a-f][0-9a-f]{{0,{HEX_DIGITS_MAX - 1}}})")
_REPEAT = re.compile(r"x[1-9][0-9]{0,8}")
_FIRST_LINE = re.compile(rf"{MAGIC}([1-9][0-9]{{0,8}})\r?(?:\n|\Z)")
_CHECKSUM = re.compile(r"^sha256 [0-9a-f]{64}\n", re.MULTILINE)
_ESCAPE = re.compile(r"\\(?:([\"\\nrt])|u\{([0-9a-f]{1,6})\}|)")
# Control characters, and those that hide, break or turn a line round in an editor.
_HIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
_UNESCAPED = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPED = {char: f"\\{short}" for short, char in _UNESCAPED.items()}
_CONSTANTS: dict[str, Setting] = {"none": None, "true": True, "false": False}


# Writing


def dumps(file: TapeFile) -> str:
    """The file's text. Raises `TapeError` if the tape holds what no file can."""
    try:
        lines = [f"{MAGIC}{FORMAT}", *_header_lines(file), *_body_lines(file.tape), ""]
        body = "".join(f"{_of_fair_length(line)}\n" for line in lines)
        text = f"{body}sha256 {_checksum(body)}\n"
        _check_size(text)
    except _Malformed as error:
        raise TapeError(f"this tape cannot be written to a file: {error}") from None
    return text


def _header_lines(file: TapeFile) -> Iterator[str]:
    tape = file.tape
    if tape.origin == "enumerated":
        raise _Malformed(
            "an enumerated tape is a position in a loop. Save what was chosen there instead: run "
            "tape.fresh(recording=True), and save its .recorded()"
        )
    yield f"foretold {_name(file.foretold)}"
    yield f"python {_name(file.python)} {_name(file.implementation)}"
    yield f"platform {_name(file.platform)}"
    if file.hash_seed is not None:
        yield f"hash-seed {_count(file.hash_seed, low=0)}"
    if file.target:
        yield f"target {_name(file.target)}"
    yield f"origin {tape.origin}"
    yield f"seed {_integer(tape.seed, bits=SEED_BITS_MAX)}"
    for key, value in sorted(tape.settings.items()):
        yield f"setting {_name(key)} {_setting(value)}"
    if file.failure is not None:
        yield _failure_line(file.failure)
    if file.digest is not None:
        yield f"digest {_name(file.digest)}"
    if file.unfinished:
        yield "shrinking unfinished"
    if file.stock is not None:
        yield _stock_line(file.stock)
    if file.decided is not None:
        yield from (_decided_line(*each) for each in file.decided.sentences())


def _stock_line(stock: StockNote) -> str:
    if stock.possible is None:
        return f"stock unseen {_count(stock.tries, low=0)}"
    return "stock seen" if stock.possible else f"stock excluded {_quoted(stock.reason)}"


def _decided_line(word: str, values: Sequence[str | int]) -> str:
    said = (_name(each) if isinstance(each, str) else _count(each, low=0) for each in values)
    return " ".join(["decided", word, *said])


def _failure_line(failure: FailureNote) -> str:
    place = f" at {_name(failure.place)}" if failure.place else ""
    return f"failure {_name(failure.type_name)} {_quoted(failure.message)}{place}"


def _body_lines(tape: Tape) -> Iterator[str]:
    entries = len(tape.schedule) + sum(map(len, tape.choices.values()))
    _check_sections(tape.origin, entries)
    if len(tape.schedule):
        yield from ("", "[schedule]", *map(_sentence, tape.schedule))
    for name, choices in sorted(tape.choices.items()):
        yield from ("", f"[stream {_name(name)}]", *_choice_lines(choices))


def _sentence(entry: Exception_) -> str:
    who = f"{_name(entry.host)} {_name(entry.actor)} step {_count(entry.step, low=1)}"
    if isinstance(entry, Slow):
        word = "late" if entry.asleep else "slow"
        return f"{word} {who} by {_count(entry.ns, low=0)} ns"
    until = "ended" if entry.until_step == ENDED else f"step {_count(entry.until_step, low=1)}"
    return f"hold {who} until {_name(entry.until_actor)} {until}"


def _choice_lines(choices: Sequence[Choice]) -> Iterator[str]:
    for (value, bound, label), same in groupby(choices):
        times = sum(1 for _ in same)
        line = f"{_integer(value, low=0)}/{_integer(bound, low=value + 1)}"
        yield line + (f" {_name(label)}" if label else "") + (f" x{times}" if times > 1 else "")


def _name(text: str) -> str:
    if not isinstance(text, str):
        raise _Malformed(f"{_short(repr(text))} stands where a text is needed")
    if _PLAIN.fullmatch(text) and not _GRAMMAR.fullmatch(text):
        return text
    return _quoted(text)


def _quoted(text: str) -> str:
    return '"' + "".join(_ESCAPED.get(char) or _escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    return char if char.isprintable() else f"\\u{{{ord(char):x}}}"


def _count(value: int, *, low: int) -> str:
    return _integer(value, low=low, bits=COUNT_BITS_MAX)


def _integer(value: int, *, low: int | None = None, bits: int = INTEGER_BITS_MAX) -> str:
    if not isinstance(value, int):
        raise _Malformed(f"{_short(repr(value))} stands where a whole number is needed")
    if low is not None and value < low:
        raise _Malformed(f"{_integer(value)} is too small there: {_integer(low)} or more is needed")
    if value.bit_length() > bits:
        raise _Malformed(f"it holds a number with more than {bits} bits, where that is too large")
    return str(int(value)) if abs(value) < _DECIMAL_BELOW else hex(value)  # int(): True is one too


def _setting(value: Setting) -> str:
    if value is None or isinstance(value, bool):
        return repr(value).lower()
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int):
        return _integer(value, bits=SEED_BITS_MAX)
    if isinstance(value, float):
        # Infinities and -0.0 come back as they were; of a NaN, only that it is one.
        return repr(float(value))
    raise _Malformed(f"a setting is a text, a number, true, false or none, not {type(value)}")


# Reading


class _Malformed(Exception):
    """What is wrong with a line or a part of a tape. The callers say where."""


def loads(text: str, name: str = "<text>") -> TapeFile:
    """Read a file's text; `name` is what errors call it."""
    if complaint := _complaint(text):
        raise _error(name, *complaint)
    lines = text[:-1].split("\n")
    intact = lines[-1] == f"sha256 {_checksum(text[: -len(lines[-1]) - 1])}"
    reader = _Reader()
    try:
        for line in lines[1:-1]:
            reader.read(line)
        file = reader.finish()
    except _Malformed as error:
        raise _error(name, reader.line_number, f"{error}; {_remedy(intact)}") from None
    if not intact:
        what = "the checksum does not fit what stands above it"
        raise _error(name, len(lines), f"{what}; {_remedy(intact)}")
    return file


def _complaint(text: str) -> tuple[int, str] | None:
    """What keeps the text from being read line by line, and where; the most telling thing first."""
    if text.startswith("\ufeff"):
        return 1, "it begins with a byte order mark; save it as UTF-8 without one"
    version = _FIRST_LINE.match(text)
    if not version:
        return 1, f"not a foretold tape: those begin with the line `{MAGIC}{FORMAT}`"
    if int(version[1]) > FORMAT:
        return 1, (
            f"written by a newer foretold (tape format {version[1]}); "
            f"this one reads format {FORMAT}: upgrade"
        )
    if "\r" in text:
        return _line_of(text, text.index("\r")), (
            "carriage return at the end of a line; keep git from changing tapes with the line "
            "`*.tape -text` in .gitattributes, and check the file out again"
        )
    if hidden := _HIDDEN.search(text):
        what = f"unescaped character U+{ord(hidden[0]):04X}"
        return _line_of(text, hidden.start()), f"{what}; {_remedy(False)}"
    try:
        _check_size(text)
    except _Malformed as error:
        return 1, f"{error}; record the failure again, with a shorter run"
    return _complaint_about_end(text)


def _complaint_about_end(text: str) -> tuple[int, str] | None:
    last = _line_of(text, len(text) - 1)
    if not text.endswith("\n"):
        return last, f"the file was cut off in this line; {_remedy(False)}"
    ends = [found.end() for found in _CHECKSUM.finditer(text)]
    if not ends:
        return last, f"no checksum line at the end: the file was cut off; {_remedy(False)}"
    if ends[0] < len(text):
        at = _line_of(text, ends[0])
        return at, f"something stands behind the checksum line; {_remedy(False)}"
    return None


class _Reader:
    """Takes the lines between the first and the last; knows which section it is in."""

    def __init__(self) -> None:
        self.line_number = 1
        self.header: dict[str, Any] = {}
        self.settings: dict[str, Setting] = {}
        self.schedule = Schedule()
        self.choices: dict[str, list[Choice]] = {}
        self.entries = 0
        self._take: Callable[[str], None] = self._take_header
        self._stream: list[Choice] = []
        self._seen: dict[str, tuple[Choice, int]] = {}

    def read(self, line: str) -> None:
        self.line_number += 1
        if line.startswith("["):
            self._open_section(line)
        elif line:
            self._take(_of_fair_length(line))

    def _open_section(self, line: str) -> None:
        match _tokens(_of_fair_length(line)[1:-1]) if line.endswith("]") else []:
            case ["schedule"] if self._take == self._take_header:
                self._take = self._take_sentence
            case ["stream", name] if (stream := _read_name(name)) not in self.choices:
                self._stream = self.choices[stream] = []
                self._take = self._take_choice
            case _:
                raise _Malformed(f"{_short(line)} is not a section that is allowed here")

    def _take_header(self, line: str) -> None:
        match _tokens(line):
            case ["setting", name, value]:
                into, found = self.settings, {_read_name(name): _read_setting(value)}
            case tokens:
                into, found = self.header, _read_header(tokens)
        if found.keys() & into.keys():
            raise _Malformed("this was given before")
        into.update(found)

    def _take_sentence(self, line: str) -> None:
        entry = _read_sentence(_tokens(line))
        known = self.schedule.holds if isinstance(entry, Hold) else self.schedule.slows
        if entry.key in known:
            raise _Malformed("this step has such an exception already")
        self._count(1)
        self.schedule.add(entry)

    def _take_choice(self, line: str) -> None:
        if line not in self._seen:
            self._seen[line] = _read_choice(_tokens(line))
        choice, times = self._seen[line]
        self._count(times)
        self._stream.extend([choice] * times)

    def _count(self, entries: int) -> None:
        self.entries += entries
        _check_sections(self.header.get("origin", ""), self.entries)

    def finish(self) -> TapeFile:
        missing = [key for key in _REQUIRED if key not in self.header]
        if missing:
            raise _Malformed(f"the header does not say: {', '.join(missing)}")
        fields = {"hash_seed": None, **self.header}
        known = DecidedNote.__dataclass_fields__.keys() & fields.keys()
        decided = DecidedNote(**{name: fields.pop(name) for name in known}) if known else None
        tape = Tape(
            fields.pop("origin"),
            seed=fields.pop("seed"),
            settings=self.settings,
            choices=self.choices,
            schedule=self.schedule,
        )
        return TapeFile(tape, **fields, decided=decided)


def _tokens(line: str) -> list[str]:
    if not _LINE.fullmatch(line):
        raise _Malformed(f"{_short(line)} has a stray space or quotation mark")
    return _TOKEN.findall(line)


def _read_name(token: str) -> str:
    if token.startswith('"'):
        return _ESCAPE.sub(_unescaped, token[1:-1])
    if not _PLAIN.fullmatch(token):
        raise _Malformed(f"the name {_short(token)} needs quotation marks")
    return token


def _unescaped(found: re.Match[str]) -> str:
    short, code = found.groups()
    if short:
        return _UNESCAPED[short]
    if not code or int(code, 16) > 0x10FFFF:
        raise _Malformed("there is an unknown escape behind a backslash")
    return chr(int(code, 16))


def _read_integer(token: str, *, low: int | None = None, bits: int = INTEGER_BITS_MAX) -> int:
    if not _INTEGER.fullmatch(token):
        raise _Malformed(f"{_short(token)} is not a whole number, or has too many digits")
    value = int(token, 16 if "x" in token else 10)
    if low is not None and value < low:
        raise _Malformed(f"{_short(token)} is too small there")
    if value.bit_length() > bits:
        raise _Malformed(f"{_short(token)} is too large there: it has more than {bits} bits")
    return value


def _read_count(token: str, *, low: int) -> int:
    return _read_integer(token, low=low, bits=COUNT_BITS_MAX)


def _read_setting(token: str) -> Setting:
    if token.startswith('"'):
        return _read_name(token)
    if token in _CONSTANTS:
        return _CONSTANTS[token]
    # The detour over repr leaves one way to write a float: no 1e999, no 1_0.0, no infinity.
    with suppress(ValueError):
        if repr(value := float(token)) == token:
            return value
    return _read_integer(token, bits=SEED_BITS_MAX)


def _read_sentence(tokens: list[str]) -> Exception_:
    match tokens:
        case ["hold", host, actor, "step", step, "until", other, "ended"]:
            until = ENDED
        case ["hold", host, actor, "step", step, "until", other, "step", until_step]:
            until = _read_count(until_step, low=1)
        case ["slow" | "late" as word, host, actor, "step", step, "by", ns, "ns"]:
            names = _read_name(host), _read_name(actor)
            counts = _read_count(step, low=1), _read_count(ns, low=0)
            return Slow(*names, *counts, asleep=word == "late")
        case _:
            raise _Malformed(
                "a schedule has the sentences `hold HOST ACTOR step N until ACTOR ended`, "
                "`hold HOST ACTOR step N until ACTOR step N`, `slow HOST ACTOR step N by N ns`, "
                "`late HOST ACTOR step N by N ns`"
            )
    step_number = _read_count(step, low=1)
    return Hold(_read_name(host), _read_name(actor), step_number, _read_name(other), until)


def _read_choice(tokens: list[str]) -> tuple[Choice, int]:
    times = 1
    if len(tokens) > 1 and _REPEAT.fullmatch(tokens[-1]):
        times = int(tokens.pop()[1:])
    value, slash, bound = tokens[0].partition("/")
    if not slash or len(tokens) > 2:
        raise _Malformed("a choice has the form: value/bound label")
    number = _read_integer(value, low=0)
    label = _read_name(tokens[1]) if len(tokens) == 2 else ""
    return Choice(number, _read_integer(bound, low=number + 1), label), times


def _read_header(tokens: list[str]) -> dict[str, Any]:
    """One line of the header as fields of `TapeFile`; and the tape's origin and seed."""
    match tokens:
        case ["foretold" | "platform" | "target" | "digest" as key, text]:
            return {key: _read_name(text)}
        case ["python", version, implementation]:
            return {"python": _read_name(version), "implementation": _read_name(implementation)}
        case ["hash-seed", number]:
            return {"hash_seed": _read_count(number, low=0)}
        case ["seed", number]:
            return {"seed": _read_integer(number, bits=SEED_BITS_MAX)}
        case ["origin", origin] if origin in _ORIGINS:
            return {"origin": origin}
        case ["shrinking", "unfinished"]:
            return {"unfinished": True}
        case ["stock", "seen"]:
            return {"stock": StockNote(True)}
        case ["stock", "excluded", reason]:
            return {"stock": StockNote(False, reason=_read_name(reason))}
        case ["stock", "unseen", tries]:
            return {"stock": StockNote(None, tries=_read_count(tries, low=0))}
        case ["decided", word, *values] if word in DECIDED and len(values) == len(DECIDED[word]):
            kinds = zip(values, DECIDED[word], strict=True)
            read = [_read_name(v) if kind == "s" else _read_count(v, low=0) for v, kind in kinds]
            return decided_field(word, read)
        case ["failure", type_name, message]:
            return {"failure": FailureNote(_read_name(type_name), _read_name(message))}
        case ["failure", type_name, message, "at", place]:
            names = map(_read_name, (type_name, message, place))
            return {"failure": FailureNote(*names)}
    raise _Malformed(f"the header has no line such as {_short(' '.join(tokens))}")


# Both ways


def _check_size(text: str) -> None:
    if len(text) > FILE_BYTES_MAX or len(text.encode("utf-8", "replace")) > FILE_BYTES_MAX:
        raise _Malformed(f"more than {FILE_BYTES_MAX} bytes")
    if text.count("\n") > LINES_MAX:
        raise _Malformed(f"more than {LINES_MAX} lines")


def _of_fair_length(line: str) -> str:
    if len(line) > LINE_CHARS_MAX:
        raise _Malformed(f"a line with more than {LINE_CHARS_MAX} characters")
    return line


def _check_sections(origin: str, entries: int) -> None:
    if entries > ENTRIES_MAX:
        raise _Malformed(f"it has more than {ENTRIES_MAX} choices")
    if entries and origin == "seeded":
        raise _Malformed("a seeded tape has no choices and no schedule of its own, only the seed")


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _short(text: str) -> str:
    return repr(text) if len(text) <= 60 else f"{text[:60]!r}…"


def _remedy(intact: bool) -> str:
    if intact:
        return "the file is as it was written, by something else than foretold: record it again"
    return "the file was damaged or edited: get it again from its source, or record it again"


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _error(name: str, line: int, what: str) -> TapeError:
    return TapeError(f"{name}:{line}: {what}")


# Disk


def save(path: str | os.PathLike[str], file: TapeFile) -> None:
    """Write the file, whole or not at all; folders above it are made."""
    data = dumps(file).encode()
    target = Path(path)
    # A short name of its own: the target's may already be as long as the file system allows.
    part = target.parent / f".{secrets.token_hex(8)}.tape-part"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_through(part, data)
        os.replace(part, target)
    except (OSError, ValueError) as error:
        raise TapeError(f"{target}: the tape cannot be written there: {error}") from error
    finally:
        with suppress(OSError, ValueError):
            part.unlink(missing_ok=True)


def _write_through(path: Path, data: bytes) -> None:
    # Not mkstemp: its files are for their owner alone, and tapes are handed round.
    with open(path, "xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def load(path: str | os.PathLike[str]) -> TapeFile:
    """Read a file. Whatever is wrong with it comes as a `TapeError`."""
    name = os.fspath(path)
    try:
        # A pipe would block when it is opened, and a device may have no end.
        if not stat.S_ISREG(os.stat(name).st_mode):
            raise TapeError(f"{name}: not a file but a folder or a device; name one `.tape` file")
        with open(name, "rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise TapeError(f"{name}: the tape cannot be read: {error}; check the path") from error
    if len(data) > FILE_BYTES_MAX:
        raise TapeError(f"{name}:1: more than {FILE_BYTES_MAX} bytes; not a tape to be read here")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _error(name, line, f"not UTF-8 and so not a tape; {_remedy(False)}") from None
    return loads(text, name)
