"""How a story calls things: by the names that the program of rules gives them.

An id in a path (`POST /api/proposals/00000003-0000-4000-8000-000000000007/validate`) tells a reader
nothing and fills the line; `proposals_7` is what the program calls it. Paths of files have a folder
in common, which is said once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from foretold.kernel.waiting import is_library
from foretold.story.words import short_path
from foretold.trace.events import Event

_FOLDERS_MIN = 2
"""In files of one folder, its name is part of where one is."""

_ACTOR = re.compile(r"<actor ([\w.]+)>")


class Wording:
    """Text with names for ids, and without the folder that all files have in common."""

    def __init__(self, names: Mapping[str, str] | None = None, folder: str = "") -> None:
        self._names = dict(names or {})
        self.folder = folder
        self._folder = re.compile(rf"(?<![\w/.-]){re.escape(folder)}") if folder else None
        longest_first = sorted(self._names, key=len, reverse=True)
        known = "|".join(map(re.escape, longest_first))
        self._known = re.compile(rf"(?<![\w-])(?:{known})(?![\w-])") if known else None
        self.used: dict[str, str] = {}
        """The ids that were replaced so far."""

    def __call__(self, text: str) -> str:
        """The same in better words."""
        text = _ACTOR.sub(r"\1", text)
        if self._known is not None:
            text = self._known.sub(self._name, text)
        return text if self._folder is None else self._folder.sub("", text)

    def _name(self, found: re.Match[str]) -> str:
        name = self._names[found[0]]
        self.used[found[0]] = name
        return name

    def legend(self, said: str) -> list[str]:
        """What else has to be said once; `said` is what the reader has read already."""
        ids = [
            f"{name} is {text}"
            for text, name in self.used.items()
            if not (text.startswith(f"{name}-") or _is_explained(name, text, said))
        ]
        lines = [f"Names: {', '.join(ids)}."] if ids else []
        return [*lines, f"Files are in {self.folder}."] if self.folder else lines


def _is_explained(name: str, text: str, said: str) -> bool:
    """Whether both stand on one line."""
    return any(name in line and text in line for line in said.splitlines())


def common_folder(events: Iterable[Event]) -> str:
    """The folder, with a slash, in which all of the user's own files are; empty if it is not worth
    a word."""
    places = (place for event in events for place in (event.place, *event.callers))
    files = {place.file for place in places if place is not None}
    own = {os.path.dirname(short_path(file)) for file in files if not is_library(file)}
    if len(own) < _FOLDERS_MIN or any(os.path.isabs(folder) for folder in own):
        return ""
    common = os.path.commonpath(own)
    return f"{common}{os.sep}" if common else ""
