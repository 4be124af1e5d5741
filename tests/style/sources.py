"""The syntax trees of source files, each parsed once for all tests of this folder."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """The tree of a file. Tests that write a file write it before they ask for its tree."""
    return ast.parse(path.read_text("utf-8"))
