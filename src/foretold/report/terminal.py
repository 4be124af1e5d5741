"""What is printed, and the one place where it is made harmless.

A tape, an exception or a label may come from a stranger and hold anything. A terminal obeys escape
sequences, characters that hide or turn the direction of text mislead a reader, and GitHub's runner
takes lines that begin with `::` for commands. Here all of these are written as in a Python string,
and so is a character that the terminal cannot show: it must not cost the whole report.
"""

from __future__ import annotations

import os
import re
import sys

import click

# Control characters but for the end of a line and the tabulator; separators of lines that only some
# programs know; marks that turn the direction of text, that have no width, or that repeat a text
# invisibly; halves of characters.
_NOT_SHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
# GitHub's runner looks behind spaces, and for its old commands anywhere in a line.
_COMMAND = re.compile(r"^(\s*):(?=:)|#(?=#\[)", re.MULTILINE)

COMMANDS_VARIABLE = "FORETOLD_GITHUB"  # tells a process of ours what `expect_commands` was told
_is_expected = False


def in_github_actions() -> bool:
    """Whether GitHub's runner reads what is printed."""
    asked = _is_expected or os.environ.get(COMMANDS_VARIABLE) == "1"
    return asked or os.environ.get("GITHUB_ACTIONS") == "true"


def expect_commands(expected: bool = True) -> None:
    """From here on, what is printed is read by somebody who obeys commands: annotations were asked
    for, whether this looks like GitHub's machine or not."""
    global _is_expected
    _is_expected = expected


def harmless(text: str) -> str:
    """The text as it may be printed: what a terminal would obey or hide is written as `\\x1b`."""
    text = _NOT_SHOWN.sub(_spelt, text)
    return _COMMAND.sub(_spelt_colon, text) if in_github_actions() else text


def _spelt(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _spelt_colon(found: re.Match[str]) -> str:
    return r"\u0023" if found[0] == "#" else rf"{found[1]}\x3a"  # both are right in JSON as well


def put(text: str, *, err: bool = False) -> None:
    """Print a text of ours, whatever stands in it."""
    _write(harmless(text), err)


def put_command(line: str, *, err: bool = False) -> None:
    """Print a line for GitHub's runner, which escapes in its own way what it is told."""
    _write(_NOT_SHOWN.sub(_spelt, line), err)


def say(text: str) -> None:
    """To the person who watches, not into the output."""
    put(text, err=True)
    sys.stderr.flush()


def _write(text: str, err: bool) -> None:
    encoding = getattr(sys.stderr if err else sys.stdout, "encoding", None) or "utf-8"
    click.echo(text.encode(encoding, "backslashreplace").decode(encoding), err=err)
