"""Imports point only downward through the layers of foretold.

The kernel must stay readable without the world, the world without the search. A single import in
the wrong direction ends that, and nobody notices in review. So the sources are parsed, not
imported: imports inside functions count as well, and so does `import_module("foretold.…")`.
Imports under `TYPE_CHECKING` are free, since nothing runs through them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.style.sources import tree_of

SRC = Path(__file__).parents[2] / "src"

# From the bottom to the top. A part may import itself and whatever stands on an earlier line.
# Parts on one line are strangers to each other.
LAYERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ("errors", "_version")),
    ("", ("arguments", "platforms", "keywords", "handles")),
    ("L0", ("tape", "trace")),
    ("L1", ("kernel",)),
    ("L2", ("world",)),
    ("L3", ("services", "spec")),
    ("L3", ("models",)),
    ("L3", ("scenario",)),
    ("L3", ("harness",)),
    ("L4", ("story",)),
    ("L4", ("search",)),
    ("L5", ("report",)),
    ("L6", ("pytest_support",)),
    ("L6", ("engine", "keywords")),
    ("L6", ("cli", "__main__")),
)

HEIGHT = {part: height for height, (_, parts) in enumerate(LAYERS) for part in parts}
FACADE = "foretold"  # the package's own __init__: re-exports everything, so only L6 may import it
HEIGHT_OF_FACADE = len(LAYERS) - 1


def is_type_checking(test: ast.expr) -> bool:
    """Whether the condition is `TYPE_CHECKING` or `typing.TYPE_CHECKING`."""
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def running_nodes(node: ast.AST, *, into_functions: bool = True) -> Iterator[ast.AST]:
    """All nodes below `node`, without those that only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and is_type_checking(child.test):
            yield from running_nodes(ast.Module(child.orelse, []), into_functions=into_functions)
            continue
        yield child
        if into_functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from running_nodes(child, into_functions=into_functions)


def absolute(node: ast.ImportFrom, package: list[str]) -> str:
    """The module that a `from … import` names, with its leading dots resolved."""
    if not node.level:
        return node.module or ""
    base = package[: len(package) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)


def imported_names(node: ast.AST, package: list[str]) -> list[str]:
    """Dotted names that one node imports; none for nodes that import nothing."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        module = absolute(node, package)
        return [f"{module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = ast.unparse(node.func).rpartition(".")[2]
        if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
            return [node.args[0].value]
    return []


def part_of(name: str) -> str | None:
    """The part of foretold that a dotted name belongs to; None for other people's modules."""
    top, _, rest = name.partition(".")
    if top == "_foretold_pytest":
        return top
    if top != "foretold":
        return None
    part = rest.partition(".")[0]
    return part if part in HEIGHT else FACADE


def complaint(importer: str, imported: str) -> str | None:
    """Why `importer` may not import `imported`, or None if it may."""
    if imported == "_foretold_pytest":
        return f"{importer} imports the pytest plugin, which stands above everything"
    if imported == importer or (importer, imported) == ("__main__", "cli"):
        return None
    if imported == FACADE:
        if HEIGHT[importer] == HEIGHT_OF_FACADE:
            return None
        return f"{importer} imports the package itself; import the part that defines the name"
    if HEIGHT[imported] < HEIGHT[importer]:
        return None
    direction = "sideways" if HEIGHT[imported] == HEIGHT[importer] else "upward"
    return f"{importer} imports {imported}: that points {direction}"


def violations(src: Path) -> list[str]:
    """Every import below `src`/foretold that the layer table forbids."""
    found = []
    for path in sorted((src / "foretold").rglob("*.py")):
        module = path.relative_to(src).with_suffix("").parts
        if module == ("foretold", "__init__"):
            continue
        if module[1] not in HEIGHT:
            found.append(f"{path.relative_to(src)}: not in the layer table; give it a layer")
            continue
        for node in running_nodes(tree_of(path)):
            for name in imported_names(node, list(module[:-1])):
                part = part_of(name)
                reason = part and complaint(module[1], part)
                if reason:
                    line = getattr(node, "lineno", 0)
                    found.append(f"{path.relative_to(src)}:{line}: {reason}")
    return found


def eager_imports(plugin: Path) -> list[str]:
    """Imports of foretold that run as soon as pytest loads the plugin."""
    tree = ast.parse(plugin.read_text(encoding="utf-8"))
    return [
        f"{plugin.name}:{getattr(node, 'lineno', 0)}: imports {name} at load time"
        for node in running_nodes(tree, into_functions=False)
        for name in imported_names(node, [])
        if part_of(name)
    ]


def missing_from_map(docstring: str) -> list[str]:
    """Layers and parts of the table that the package's docstring does not mention."""
    expected = [word for label, parts in LAYERS for word in (label, *parts) if word]
    return [
        word
        for word in expected
        if word != "__main__" and not re.search(rf"\b{re.escape(word)}\b", docstring)
    ]


def plant(src: Path, **files: str) -> None:
    """Write a made-up package; `kernel__loop="…"` becomes src/foretold/kernel/loop.py."""
    for name, text in files.items():
        path = src / "foretold" / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_imports_point_downward() -> None:
    """The property itself, for all modules of foretold; there must be some to look at."""
    assert list((SRC / "foretold").rglob("*.py")), "no sources found: the test would be vacuous"
    assert violations(SRC) == []


def test_the_package_docstring_shows_the_layers() -> None:
    """The map that people read must not fall behind the table that is enforced."""
    tree = ast.parse((SRC / "foretold" / "__init__.py").read_text(encoding="utf-8"))
    assert missing_from_map(ast.get_docstring(tree) or "") == []


def test_the_plugin_loads_without_foretold() -> None:
    """pytest loads the plugin wherever foretold is installed: that must cost nothing."""
    assert eager_imports(SRC / "_foretold_pytest.py") == []


def test_upward_and_sideways_imports_are_caught(tmp_path: Path) -> None:
    """Planted: each way of writing a forbidden import, each found on its own line."""
    plant(
        tmp_path,
        kernel__loop="import foretold.world.network\n",
        kernel__clock="from ..search import campaign\n",
        kernel__entropy="def lazy():\n    from foretold import report\n",
        world__disk="import importlib\n\nimportlib.import_module('foretold.cli')\n",
        trace="from .tape import Tape\n",
        errors="from . import trace\n",
        spec__rule="import foretold\n",
        search__corpus="from foretold import run\n",
        report__text="import _foretold_pytest\n",
    )
    assert [text.split(": ", 1)[0] for text in violations(tmp_path)] == [
        "foretold/errors.py:1",
        "foretold/kernel/clock.py:1",
        "foretold/kernel/entropy.py:2",
        "foretold/kernel/loop.py:1",
        "foretold/report/text.py:1",
        "foretold/search/corpus.py:1",
        "foretold/spec/rule.py:1",
        "foretold/trace.py:1",
        "foretold/world/disk.py:3",
    ]
    assert "foretold/trace.py:1: trace imports tape: that points sideways" in violations(tmp_path)


def test_a_module_without_a_layer_is_caught(tmp_path: Path) -> None:
    """Planted: a new top-level module escapes the rule unless it has to be entered in the table."""
    plant(tmp_path, helpers="")
    assert violations(tmp_path) == ["foretold/helpers.py: not in the layer table; give it a layer"]


def test_allowed_imports_pass(tmp_path: Path) -> None:
    """Planted: downward, within a part, for the type checker only, and L6 on the whole package."""
    plant(
        tmp_path,
        __init__="from .cli import main\n",
        kernel__loop="from . import clock\nfrom ..tape import Tape\nfrom .. import errors\n",
        kernel____init__="from .loop import Loop\nimport asyncio\n",
        tape__file=(
            "import typing\n"
            "if typing.TYPE_CHECKING:\n"
            "    from foretold.world import World\n"
            "else:\n"
            "    import foretold.errors\n"
        ),
        cli="import foretold\nfrom foretold import explore, report\n",
    )
    assert violations(tmp_path) == []


def test_the_else_of_type_checking_runs(tmp_path: Path) -> None:
    """Planted: an import in the `else` branch does run, and is caught."""
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    pass\nelse:\n    {}\n"
    plant(tmp_path, tape__file=text.format("from foretold.world import World"))
    assert violations(tmp_path) == [
        "foretold/tape/file.py:5: tape imports world: that points upward"
    ]


def test_an_eager_plugin_is_caught(tmp_path: Path) -> None:
    """Planted: imports at the top and in a class body run at load time, those in a hook do not."""
    plugin = tmp_path / "_foretold_pytest.py"
    plugin.write_text(
        "import foretold\n"
        "class Hooks:\n"
        "    from foretold.search import campaign\n"
        "def pytest_configure():\n"
        "    import foretold.report\n",
        encoding="utf-8",
    )
    assert eager_imports(plugin) == [
        "_foretold_pytest.py:1: imports foretold at load time",
        "_foretold_pytest.py:3: imports foretold.search.campaign at load time",
    ]


def test_an_incomplete_map_is_caught() -> None:
    """Planted: a docstring that forgets one part and one layer; a longer word is not the part."""
    words = [word for label, parts in LAYERS for word in (label, *parts)]
    assert missing_from_map(" ".join(words)) == []
    words.remove("L5")
    words[words.index("spec")] = "specs"
    assert missing_from_map(" ".join(words)) == ["spec", "L5"]
