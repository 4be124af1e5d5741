"""How a story calls things: the names of the program for ids, one word for a common folder."""

from __future__ import annotations

from pathlib import Path

from foretold.story.wording import Wording, common_folder
from foretold.trace import Place
from foretold.trace.events import Event, Resumed

ID = "00000003-0000-4000-8000-000000000007"


def test_ids_are_called_by_their_names() -> None:
    """In paths, in lists, in quotes; and never inside of a longer word."""
    called = Wording({ID: "proposals_7", "actor1.claim-12": "actor1.claim"})
    assert (
        called(f"POST /api/proposals/{ID}/validate") == "POST /api/proposals/proposals_7/validate"
    )
    assert called(f"lost: [('{ID}', 1)]") == "lost: [('proposals_7', 1)]"
    assert called(f"{ID}0 and x{ID}") == f"{ID}0 and x{ID}"
    assert called("actor1.claim-12 and actor1.claim-123") == "actor1.claim and actor1.claim-123"


def test_which_id_it_is_is_said_once() -> None:
    """Of those that stand in the story and were not explained; a task's number is no news."""
    called = Wording({ID: "proposals_7", "abcdefg-1": "worlds_1", "actor1.go-3": "actor1.go"})
    called(f"GET /{ID} by actor1.go-3")
    assert called.legend("nothing yet") == [f"Names: proposals_7 is {ID}."]
    assert called.legend(f"proposals_7, which is {ID!r}") == []


def test_without_names_nothing_changes() -> None:
    """Most programs have no bundles."""
    assert Wording()("app/x.py:1 and 1") == "app/x.py:1 and 1"
    assert Wording().legend("") == []


def at(file: str) -> Event:
    """A step there."""
    return Resumed(0, "main", "task", 1, Place(file, 1, "f"))


def test_a_common_folder_is_said_once() -> None:
    """If files are in several folders below it; libraries do not count."""
    shop = [at("examples/shop/app/a.py"), at("examples/shop/tests/b.py")]
    folder = common_folder([*shop, at(str(Path(__file__).parents[2] / "src/foretold/x.py"))])
    assert folder == "examples/shop/"
    called = Wording(folder=folder)
    assert called("at examples/shop/app/a.py:3") == "at app/a.py:3"
    assert called("at old/examples/shop/app/a.py:3") == "at old/examples/shop/app/a.py:3"
    assert called.legend("") == ["Files are in examples/shop/."]


def test_one_folder_is_no_common_one() -> None:
    """`bank.py:12` beside `shop.py:3` needs no explanation, and neither do folders apart."""
    assert common_folder([at("examples/a.py"), at("examples/b.py")]) == ""
    assert common_folder([at("one/a.py"), at("two/b.py")]) == ""
    assert common_folder([at("/one/a.py"), at("two/b.py")]) == ""


def test_an_actor_is_called_by_its_name() -> None:
    """In a value that was chosen, too: `who else = (<actor actor2>, …)`."""
    assert Wording()("who else = (<actor actor2>, 'x')") == "who else = (actor2, 'x')"
