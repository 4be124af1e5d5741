"""The folder `.foretold`: what is kept where, what is tried first, what becomes of fixed ones."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import pytest

import foretold
from foretold.search.failures import store as module
from foretold.search.failures.store import Store
from tests.search import campaign_programs

TEST = "tests/test_bank.py::TestTransfers::test_no_money_is_lost[3-über]"


def put(store: Store, test: str, name: str, age_s: int = 0) -> Path:
    """A stand-in for a tape, so many seconds old."""
    path = store.folder_of(test) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("tape", "utf-8")
    os.utime(path, (1_000_000 - age_s, 1_000_000 - age_s))
    return path


def test_a_folder_is_named_after_its_test(tmp_path: Path):
    """A person finds it by the name; two tests of the same name do not share it."""
    store = Store(tmp_path)
    folder = store.folder_of(TEST)
    assert folder.parent == tmp_path / ".foretold" / "failures"
    assert folder.name.startswith("test_no_money_is_lost-3-ber-")
    assert folder != store.folder_of(TEST.replace("test_bank", "test_shop"))
    assert store.folder_of("bank:transfer").name.startswith("transfer-")


@pytest.mark.parametrize("test", ["x::" + "y" * 500, "x::../../etc", "x::", "", "a\x00b\ud800"])
def test_a_folder_has_a_name_for_any_test(tmp_path: Path, test: str):
    """Whatever ids people make up: one plain name of bearable length, below the folder."""
    folder = Store(tmp_path).folder_of(test)
    assert folder.parent == tmp_path / ".foretold" / "failures"
    assert len(folder.name) < 100
    folder.mkdir(parents=True)
    assert folder.resolve().parent == tmp_path.resolve() / ".foretold" / "failures"


def test_the_newest_failure_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What failed last is most likely to fail again; the number of tries is bounded."""
    store = Store(tmp_path)
    assert store.saved(TEST) == []
    old, new, middle = (put(store, TEST, f"{age}.tape", age) for age in (30, 10, 20))
    other = put(store, "other", "x.tape", 5)
    (store.folder_of(TEST) / "notes.txt").write_text("not a tape", "utf-8")
    assert store.saved(TEST) == [new, middle, old]
    assert store.all_saved() == [other, new, middle, old]
    monkeypatch.setattr(module, "SAVED_MAX", 2)
    assert store.saved(TEST) == [new, middle]


def test_git_ignores_the_folder(tmp_path: Path):
    """One line in a file of its own; what a user wrote into it stays."""
    store = Store(tmp_path)
    assert not store.root.exists(), "nothing is made before there is something to keep"
    store.keep_out_of_git()
    marker = store.root / ".gitignore"
    assert marker.read_text("utf-8").splitlines()[-1] == "*"
    marker.write_text("mine\n", "utf-8")
    store.keep_out_of_git()
    assert marker.read_text("utf-8") == "mine\n"


def test_a_fixed_failure_is_set_aside(tmp_path: Path):
    """It is tried no more, yet not lost; its empty folder goes."""
    store = Store(tmp_path)
    path = put(store, TEST, "AssertionError-7.tape")
    moved = store.set_aside(path)
    assert store.saved(TEST) == []
    assert not path.parent.exists()
    assert moved.parent == store.root / "fixed"
    assert moved.name.endswith("-AssertionError-7.tape")
    assert moved.read_text("utf-8") == "tape"


def test_of_fixed_failures_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing grows without a limit."""
    monkeypatch.setattr(module, "FIXED_MAX", 3)
    store = Store(tmp_path)
    for number in range(5):
        moved = store.set_aside(put(store, f"test_{number}", "x.tape"))
        os.utime(moved, (1_000 + number, 1_000 + number))
    kept = sorted(path.name[:6] for path in (store.root / "fixed").iterdir())
    assert kept == ["test_2", "test_3", "test_4"]


def test_what_cannot_be_moved_stays(tmp_path: Path):
    """A folder in which nothing can be made is no reason to fail a test that holds."""
    store = Store(tmp_path)
    path = put(store, TEST, "x.tape")
    (store.root / "fixed").write_text("in the way", "utf-8")
    assert store.set_aside(path) == path
    assert store.saved(TEST) == [path]


def test_discarding_forgets_without_a_trace(tmp_path: Path):
    """For what was saved and turned out to be no failure; twice does no harm."""
    store = Store(tmp_path)
    path = put(store, TEST, "x.tape")
    store.discard(path)
    store.discard(path)
    assert not path.parent.exists()


def test_whether_it_can_be_written(tmp_path: Path):
    """A missing folder can be made; a file in its place is in the way."""
    assert Store(tmp_path).is_writable()
    assert Store(tmp_path / "not" / "yet").is_writable()
    (tmp_path / ".foretold").write_text("", "utf-8")
    assert not Store(tmp_path).is_writable()


def test_the_history_of_a_test(tmp_path: Path) -> None:
    """One line for each search, those of others apart; nonsense in the file is left out."""
    store = Store(tmp_path)
    assert store.history("bank:main") == []
    store.remember("bank:main", {"runs": 1})
    store.remember("bank:other", {"runs": 2})
    path = store.root / "history.jsonl"
    path.write_text(f"{path.read_text()}nonsense\n[1]\n{'[' * 100_000}\n", "utf-8")
    store.remember("bank:main", {"runs": 3})
    assert [each["runs"] for each in store.history("bank:main")] == [1, 3]
    assert (store.root / ".gitignore").exists()


def test_what_was_reached_is_tried_first_next_time(tmp_path: Path) -> None:
    """A search that came near a bug and ended leaves tapes; the next one goes on from there, and
    the same is found by two workers. A damaged tape is left out."""
    folder = tmp_path / "corpus"
    search = partial(foretold.explore, campaign_programs.ladder, shrink=False, confirm=False)
    first = search(runs=150, seed=1, corpus=folder)
    assert first.failure is None
    assert first.coverage.reached > 3
    tapes = sorted(folder.glob("*.tape"))
    assert tapes
    (folder / "broken.tape").write_text("nonsense", "utf-8")
    kept = tmp_path / "kept"
    shutil.copytree(folder, kept)
    alone = search(runs=len(tapes), seed=10**6, corpus=folder)
    assert alone.coverage.reached >= first.coverage.reached - 3
    assert search(runs=len(tapes), seed=10**6, corpus=kept, workers=2).coverage == alone.coverage
    assert not (folder / "broken.tape").exists()
