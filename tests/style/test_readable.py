"""The sources stay readable: documented, short, with a reason beside each exception to a rule.

These are habits that nobody breaks on purpose. They wear off a line at a time, and each single line
looks harmless in review. So they are counted.
"""

from __future__ import annotations

import ast
import io
import os
import re
import statistics
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.style.sources import tree_of

ROOT = Path(__file__).parents[2]

MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
FUNCTION_LINES_NINE_IN_TEN = 27
FUNCTION_LINES_MEDIAN = 10
FUNCTIONS_FOR_STATISTICS = 20  # of fewer, neither the median nor the ninth tenth says much

# Derived files, and the folders of tools.
SKIPPED = {".git", ".venv", "build", "dist", "__pycache__", ".hypothesis", ".foretold"}
SKIPPED_ENDINGS = (".egg-info", "_cache")

# Paths of the machine on which a line was written mean nothing to its readers. In two pieces, since
# this file is searched too.
FOREIGN_PATHS = ("/" + "work/", ".." + "/shared")

DIRECTIVE = re.compile(
    r"noqa(?:\s*:\s*[A-Z]+[0-9]+(?:[\s,]+[A-Z]+[0-9]+)*)?|type:\s*ignore(?:\[[^\]]*\])?"
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def files(root: Path, ending: str = "") -> Iterator[Path]:
    """All files of a tree that people wrote, in a fixed order."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name for name in folders if name not in SKIPPED and not name.endswith(SKIPPED_ENDINGS)
        )
        wanted = sorted(name for name in names if name.endswith(ending) and name not in SKIPPED)
        yield from (Path(folder, name) for name in wanted)


def modules(root: Path) -> Iterator[tuple[str, str, ast.Module]]:
    """Name, text and syntax tree of every Python file."""
    for path in files(root, ".py"):
        text = path.read_text(encoding="utf-8")
        yield path.relative_to(root).as_posix(), text, tree_of(path)


def code_lines(function: Function) -> int:
    """Lines of a function from `def` to its end. Its docstring is free: explain as you like."""
    assert function.end_lineno is not None
    total = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is None or first.end_lineno is None:
        return total
    return total - (first.end_lineno - first.lineno + 1)


def functions(tree: ast.Module) -> list[Function]:
    """All functions and methods of a module, nested ones included."""
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def without_docstring(root: Path) -> list[str]:
    """Modules that do not say why they exist."""
    return [name for name, _, tree in modules(root) if not ast.get_docstring(tree)]


def without_intent(root: Path) -> list[str]:
    """Test functions and methods without a docstring."""
    return [
        f"{name}:{function.lineno}: {function.name}"
        for name, _, tree in modules(root)
        if Path(name).name.startswith("test_")
        for function in functions(tree)
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ]


def too_long(root: Path) -> list[str]:
    """Modules and functions above their limits."""
    found = []
    for name, text, tree in modules(root):
        lines = len(text.splitlines())
        if lines > MODULE_LINES_MAX:
            found.append(f"{name}: {lines} lines, allowed {MODULE_LINES_MAX}")
        for function in functions(tree):
            if (lines := code_lines(function)) > FUNCTION_LINES_MAX:
                found.append(
                    f"{name}:{function.lineno}: {function.name} has {lines} lines, "
                    f"allowed {FUNCTION_LINES_MAX}"
                )
    return found


def drift(root: Path) -> list[str]:
    """How the functions as a whole have outgrown the habit, though each keeps its own limit."""
    lengths = sorted(code_lines(f) for _, _, tree in modules(root) for f in functions(tree))
    if len(lengths) < FUNCTIONS_FOR_STATISTICS:
        return []
    median, ninth = statistics.median(lengths), lengths[len(lengths) * 9 // 10 - 1]
    found = []
    if median > FUNCTION_LINES_MEDIAN:
        found.append(f"the median function has {median:g} lines, allowed {FUNCTION_LINES_MEDIAN}")
    if ninth > FUNCTION_LINES_NINE_IN_TEN:
        found.append(
            f"nine functions in ten have up to {ninth} lines, allowed {FUNCTION_LINES_NINE_IN_TEN}"
        )
    return found


def gives_reason(text: str) -> bool:
    """Whether a text has at least two words: one alone is hardly a reason."""
    return len(re.findall(r"[^\W\d_]{2,}", text)) >= 2


def without_reason(root: Path) -> list[str]:
    """Lint and type exceptions whose comment holds nothing but the directive."""
    found = []
    for path in files(root, ".py"):
        text = path.read_text(encoding="utf-8")
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type != tokenize.COMMENT or not DIRECTIVE.search(token.string):
                continue
            if not gives_reason(DIRECTIVE.sub("", token.string)):
                found.append(f"{path.relative_to(root).as_posix()}:{token.start[0]}")
    return found


def settings_without_reason(text: str) -> list[str]:
    """Lines of pyproject.toml that switch a rule off and do not say why."""
    found, section, in_ignore = [], "", False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("["):
            section, in_ignore = line.strip("[] "), False
        in_ignore = line.startswith("ignore = [") or (in_ignore and not line.startswith("]"))
        relaxes = (
            (in_ignore and re.search(r'"[A-Z]+[0-9]*"', line))
            or (section.endswith("per-file-ignores") and "=" in line)
            or (section == "tool.mypy.overrides" and re.search(r"= (true|false)", line))
            or re.match(r'\s*"ignore:', line)
        )
        if relaxes and not gives_reason(line.partition("#")[2]):
            found.append(f"{number}: {line.strip()}")
    return found


def foreign_paths(root: Path) -> list[str]:
    """Files that mention a path of the machine they were written on."""
    return [
        f"{path.relative_to(root).as_posix()}: {needle}"
        for path in files(root)
        for needle in FOREIGN_PATHS
        if needle.encode() in path.read_bytes()
    ]


def plant(root: Path, name: str, text: str) -> None:
    """Write one file of a made-up tree."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def function_of(lines: int, name: str = "f") -> str:
    """The text of a function with so many lines, its docstring not counted."""
    body = '    """First line.\n\n    Third line.\n    """\n' + "    x = 1\n" * (lines - 1)
    return f"def {name}():\n{body}\n"


def test_every_module_says_why_it_exists() -> None:
    """A reader who opens any file learns its purpose from the first lines."""
    assert without_docstring(ROOT) == []


def test_every_test_says_its_intent() -> None:
    """A red test must tell which property was lost, not only which line."""
    assert without_intent(ROOT / "tests") == []


def test_modules_and_functions_are_short() -> None:
    """No single function or file grows beyond what can be read in one go."""
    assert too_long(ROOT) == []


def test_functions_as_a_whole_are_short() -> None:
    """The limits above are for the exceptions; this guards the usual size, in the library alone."""
    assert drift(ROOT / "src") == []


def test_every_exception_to_a_rule_has_a_reason() -> None:
    """A suppressed warning without a reason cannot be judged later, so it stays forever."""
    assert without_reason(ROOT) == []


def test_every_relaxed_setting_has_a_reason() -> None:
    """The same for rules that are switched off for whole folders in pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert settings_without_reason(text) == []


def test_no_path_of_the_writers_machine() -> None:
    """The repository stands on its own: it names no file that others do not have."""
    assert foreign_paths(ROOT) == []


def test_a_missing_docstring_is_caught(tmp_path: Path) -> None:
    """Planted: one module with and one without; an installed environment is not looked at."""
    plant(tmp_path, "src/good.py", '"""Why."""\n')
    plant(tmp_path, "src/bad.py", "# a comment is no docstring\n")
    plant(tmp_path, "build/venv/site.py", "")
    assert without_docstring(tmp_path) == ["src/bad.py"]


def test_a_test_without_intent_is_caught(tmp_path: Path) -> None:
    """Planted: a function and a method, sync and async; helpers and documented tests pass."""
    plant(
        tmp_path,
        "tests/test_a.py",
        "def test_one(): pass\n"
        "class TestX:\n"
        "    async def test_two(self): pass\n"
        "def helper(): pass\n"
        'def test_three(): "Intent."\n',
    )
    assert without_intent(tmp_path) == [
        "tests/test_a.py:1: test_one",
        "tests/test_a.py:3: test_two",
    ]


def test_long_modules_and_functions_are_caught(tmp_path: Path) -> None:
    """Planted: exactly at a limit passes, one line more does not; docstrings are free."""
    plant(tmp_path, "at_limit.py", "x = 1\n" * MODULE_LINES_MAX)
    plant(tmp_path, "long_module.py", "x = 1\n" * (MODULE_LINES_MAX + 1))
    both = function_of(FUNCTION_LINES_MAX, "fits") + function_of(FUNCTION_LINES_MAX + 1, "over")
    plant(tmp_path, "with_functions.py", both)
    assert too_long(tmp_path) == [
        "long_module.py: 601 lines, allowed 600",
        "with_functions.py:76: over has 71 lines, allowed 70",
    ]


def test_drift_is_caught(tmp_path: Path) -> None:
    """Planted: functions that all keep their own limit but are, as a whole, too long."""
    plant(tmp_path, "short/a.py", function_of(10) * 18 + function_of(60) * 2)
    plant(tmp_path, "many/a.py", function_of(11) * 20)
    plant(tmp_path, "tail/a.py", function_of(5) * 17 + function_of(28) * 3)
    plant(tmp_path, "few/a.py", function_of(60) * 5)
    assert drift(tmp_path / "short") == []
    assert drift(tmp_path / "many") == ["the median function has 11 lines, allowed 10"]
    assert drift(tmp_path / "tail") == ["nine functions in ten have up to 28 lines, allowed 27"]
    assert drift(tmp_path / "few") == []


def test_an_exception_without_a_reason_is_caught(tmp_path: Path) -> None:
    """Planted: bare directives are found, also two on one line; text inside a string is none."""
    plant(
        tmp_path,
        "a.py",
        "a = 1  # noqa: E501\n"
        "b = 1  # type: ignore[attr-defined]\n"
        "c = 1  # noqa: E501, B008  # type: ignore[misc]\n"
        "d = 1  # noqa: E501 - why\n"
        "e = 1  # noqa: E501 - the address cannot be broken\n"
        "f = 1  # type: ignore[misc]  # the stub forgets this argument\n"
        "g = '# noqa'\n",
    )
    assert without_reason(tmp_path) == ["a.py:1", "a.py:2", "a.py:3", "a.py:4"]


def test_a_setting_without_a_reason_is_caught() -> None:
    """Planted: each kind of relaxed setting without a reason is found, with one it passes."""
    text = """
[tool.pytest.ini_options]
filterwarnings = [
    "error",
    "ignore:old:DeprecationWarning",
]
[[tool.mypy.overrides]]
ignore_missing_imports = true
strict_equality = false  # their stubs are wrong
[tool.ruff.lint]
select = ["E"]
ignore = [
    "N818",
    "PT012",  # has its reason
]
[tool.ruff.lint.per-file-ignores]
"a/**" = ["T20"]
"b/**" = ["T20"]  # programs may print
"""
    assert settings_without_reason(text) == [
        '5: "ignore:old:DeprecationWarning",',
        "8: ignore_missing_imports = true",
        '13: "N818",',
        '17: "a/**" = ["T20"]',
    ]


def test_a_path_of_the_writers_machine_is_caught(tmp_path: Path) -> None:
    """Planted: in a document and in a file that is no text; derived files are not looked at."""
    needle = FOREIGN_PATHS[0]
    plant(tmp_path, "docs/page.md", f"See {needle}notes.\n")
    plant(tmp_path, "build/log.txt", needle)
    plant(tmp_path, "framework/page.md", "a net" + "work/path is fine\n")
    (tmp_path / "image.png").write_bytes(b"\xff\x00" + FOREIGN_PATHS[1].encode())
    assert foreign_paths(tmp_path) == [
        f"image.png: {FOREIGN_PATHS[1]}",
        f"docs/page.md: {needle}",
    ]
