"""Pages lead where they say: links between them, and the files that they name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_links_between_pages_lead_somewhere() -> None:
    """Files that a page names exist, and so do the headings behind `#`."""
    pages = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")]
    broken = []
    for page in pages:
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([\w./#:-]+)\)", text):
            file, _, anchor = target.partition("#")
            there = page if not file else page.parent / file
            if target.startswith("http"):
                continue
            if not there.exists() or (anchor and anchor not in anchors(there)):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []


def anchors(page: Path) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def test_files_that_the_architecture_names_exist() -> None:
    """A file that was moved or renamed takes its mention along. A name without a folder, or with
    the last of its folders, may lie anywhere in the sources."""
    there = [f"/{path.relative_to(ROOT)}" for path in (ROOT / "src").rglob("*.*")]
    there += [f"/{path.relative_to(ROOT)}" for path in (ROOT / "tests").rglob("*.*")]
    missing = []
    for page in (ROOT / "ARCHITECTURE.md", *(ROOT / "docs/architecture").rglob("*.md")):
        text = page.read_text("utf-8")
        for name in re.findall(r"`((?:\w+/)*\w+\.(?:py|c))(?::\d+)?`", text):
            if name != "os_unix.c" and not any(path.endswith(f"/{name}") for path in there):
                missing.append(f"{page.relative_to(ROOT)}: {name}")
        for folder in re.findall(r"`((?:\w+/)+)`", text):
            if not any(f"/{folder}" in path for path in there):
                missing.append(f"{page.relative_to(ROOT)}: {folder}")
    assert missing == []


EXAMPLE = ROOT / "examples/deep_sci_fi"


def places(text: str) -> list[tuple[Path, str]]:
    """The files that the tables name, and with each the names that are said to be in it: after a
    file, up to the next semicolon. A name without a folder lies beside the file before it."""
    found = []
    for line in re.findall(r"^\| S0\..*", text, re.MULTILINE):
        folder = EXAMPLE
        for said in line.split("|")[3].split(";"):
            file: Path | None = None
            for name in re.findall(r"`([^`]+)`", said):
                if re.fullmatch(r"[\w./]+(\.(py|yml|md)|/)", name):
                    beside = "/" not in name
                    tried = [folder / name] if beside else [EXAMPLE / name, ROOT / name]
                    file = next((each for each in tried if each.exists()), tried[0])
                    folder = file.parent
                    found.append((file, ""))
                elif file is not None and re.fullmatch(r"\w+", name):
                    found.append((file, name))
    return found


def test_places_of_the_example_exist() -> None:
    """docs/deep_sci_fi.md says where each requirement is met."""
    said = places((ROOT / "docs/deep_sci_fi.md").read_text("utf-8"))
    assert len(said) > 60
    missing = [
        f"{file.relative_to(ROOT)}: {name}"
        for file, name in said
        if not file.exists() or (name and name not in file.read_text("utf-8"))
    ]
    assert missing == []


def test_places_are_read_from_tables() -> None:
    """Planted: a file with two names, and one beside it."""
    line = "| S0.1 | asked | `machine/game.py`: `one`, `two`; `bounds.py`: `three` |"
    game, bounds = EXAMPLE / "machine/game.py", EXAMPLE / "machine/bounds.py"
    assert places(line) == [
        (game, ""),
        (game, "one"),
        (game, "two"),
        (bounds, ""),
        (bounds, "three"),
    ]


def test_anchors_are_those_of_github(tmp_path: Path) -> None:
    """Planted: code, colons and capitals in headings."""
    page = tmp_path / "page.md"
    page.write_text("# Run and search\n## `foretold.Run`: the result\n", "utf-8")
    assert anchors(page) == {"run-and-search", "foretoldrun-the-result"}
