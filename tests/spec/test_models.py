"""`from_model`: strategies from the models of an application, and `drift`: do the two agree?"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal, TypedDict

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, StringConstraints

import foretold
from foretold.errors import UsageError
from foretold.spec.hypothesis_adapter import CalmSource, draw
from foretold.tape import Tape


class Colour(enum.Enum):
    """Of anything."""

    RED = "red"
    BLUE = "blue"


class Cat(BaseModel):
    """One kind of pet."""

    kind: Literal["cat"]
    lives: int = Field(ge=1, le=9)


class Dog(BaseModel):
    """The other kind."""

    kind: Literal["dog"]
    name: str = Field(min_length=1, max_length=5)


class Node(BaseModel):
    """A class that contains itself."""

    value: int
    children: list[Node] = []
    other: Node | None = None


class Wide(BaseModel):
    """A field of each sort that is promised."""

    at_least: int = Field(ge=1, lt=10)
    five: Annotated[int, Field(multiple_of=5, gt=7, le=100)]
    share: float = Field(gt=0, lt=1)
    tenth: float = Field(multiple_of=0.5, ge=-1, le=1)
    price: Decimal = Field(max_digits=6, decimal_places=2, ge=0)
    any_price: Decimal
    code: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}-\d+$", max_length=9)]
    short: str = Field(min_length=2, max_length=4)
    raw: bytes = Field(max_length=3)
    colour: Colour
    colours: set[Colour] = Field(min_length=1)
    some: list[Annotated[int, Field(ge=3)]] = Field(min_length=1, max_length=3)
    pair: tuple[int, str]
    by_name: dict[str, bool] = Field(max_length=2)
    pet: Cat | Dog = Field(discriminator="kind")
    tree: Node
    key: uuid.UUID
    version_4: pydantic.UUID4
    url: pydantic.HttpUrl
    mail: pydantic.EmailStr
    secret: pydantic.SecretStr
    numbers: pydantic.Json[list[int]]
    address: pydantic.IPvAnyAddress
    when: datetime.datetime = Field(ge=datetime.datetime(2020, 1, 1))
    aware: pydantic.AwareDatetime
    later: pydantic.FutureDate
    lasts: datetime.timedelta
    maybe: int | None = None
    renamed: int = Field(alias="otherName")


def samples(strategy: st.SearchStrategy[Any], number: int = 60) -> list[Any]:
    """Values by seeded tapes."""
    return [draw(strategy, Tape.seeded(n).stream("x")) for n in range(number)]


def test_values_are_valid_whatever_a_field_demands() -> None:
    """The model is its own checker: it validates each value. Equal tapes give equal values."""
    first = samples(foretold.from_model(Wide))
    assert all(isinstance(value, Wide) for value in first)
    assert first == samples(foretold.from_model(Wide))
    assert {value.pet.kind for value in first} == {"cat", "dog"}
    assert {value.maybe is None for value in first} == {True, False}
    assert {"maybe" in value.model_fields_set for value in first} == {True, False}
    assert any(value.tree.children for value in first)


def test_the_calm_tape_gives_the_simplest_value() -> None:
    """Shrinking goes there: least numbers, shortest texts, defaults left out."""
    value = draw(foretold.from_model(Cat), CalmSource())
    assert value == Cat(kind="cat", lives=1)
    assert draw(foretold.from_model(Node), CalmSource()).model_fields_set == {"value"}


class Letter(BaseModel):
    """Its texts and lists may be long."""

    text: str = Field(min_length=5, max_length=10_000)
    code: str = Field(max_length=300, pattern=r"^[^\x00]*$")
    pair: str = Field(max_length=300, pattern=r"^[a-z]+ [a-z]+$")
    lines: list[int] = Field(max_length=50)


def test_the_greatest_lengths_are_reached() -> None:
    """A column that is too narrow shows only there. What a pattern forbids is not made longer."""
    values = samples(foretold.from_model(Letter), 120)
    assert max(len(value.text) for value in values) == 10_000
    assert max(len(value.code) for value in values) == 300
    assert max(len(value.lines) for value in values) == 50
    assert sum(len(value.text) < 1_000 for value in values) > 60
    assert all(len(value.pair.split(" ")) == 2 for value in values)
    pairs = st.sampled_from(["a b", f"a {'b' * 298}"])
    assert not (found := foretold.drift(foretold.from_model(Letter, pair=pairs), Letter)), found


def test_overrides_replace_the_strategy_of_a_field() -> None:
    """Also of one that has a default: who gives a strategy wants it used."""
    values = samples(foretold.from_model(Wide, maybe=st.just(7), at_least=st.sampled_from([2, 3])))
    assert {value.maybe for value in values} == {7}
    assert {value.at_least for value in values} == {2, 3}


@given(foretold.from_model(Cat))
def test_the_strategy_works_in_hypothesis_itself(cat: Cat) -> None:
    """It is a strategy like any other."""
    assert 1 <= cat.lives <= 9


class Booking(BaseModel):
    """A validator over two fields."""

    start: int = Field(ge=0, le=100)
    end: int = Field(ge=0, le=100)

    @pydantic.model_validator(mode="after")
    def it_ends_later(self) -> Booking:
        if self.end <= self.start:
            raise ValueError("a booking ends after it starts")
        return self


class Hopeless(BaseModel):
    """What nobody guesses."""

    number: int
    check: int

    @pydantic.field_validator("check")
    @classmethod
    def digits(cls, value: int, info: Any) -> int:
        if value != info.data["number"] * 7919 + 3:
            raise ValueError("the check digits are wrong")
        return value


def test_what_validators_refuse_is_drawn_again() -> None:
    """Half of all pairs are refused, and no draw gives up."""
    assert all(booking.start < booking.end for booking in samples(foretold.from_model(Booking)))


def test_a_hopeless_model_is_refused_with_the_validators_own_words() -> None:
    """Not in the middle of a run: where the strategy is made."""
    with pytest.raises(UsageError, match="the check digits are wrong"):
        foretold.from_model(Hopeless)
    right = st.just(3)
    assert samples(foretold.from_model(Hopeless, number=st.just(0), check=right), 3)


@dataclasses.dataclass
class Plain:
    """A dataclass of the standard library."""

    count: Annotated[int, Field(ge=2, le=4)]
    names: list[str] = dataclasses.field(default_factory=list)


class Row(TypedDict, total=False):
    """A dictionary."""

    count: Annotated[int, Field(ge=2, le=4)]


def test_dataclasses_and_typed_dicts_are_models_too() -> None:
    """With the same constraints."""
    assert {value.count for value in samples(foretold.from_model(Plain))} == {2, 3, 4}
    assert {row.get("count") for row in samples(foretold.from_model(Row))} == {None, 2, 3, 4}


class Odd(BaseModel):
    """A field that nothing is known about."""

    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    thing: json.JSONEncoder


class Endless(BaseModel):
    """There is no value of it."""

    other: Endless


class Vast(BaseModel):
    """More than Hypothesis can make."""

    letters: str = Field(min_length=100_000)


class Unread(BaseModel):
    """A pattern that Python's `re` has no words for."""

    name: Annotated[str, Field(pattern=r"^\p{Script=Latin}+$")]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Endless, "Endless contains itself without end"),
        (Vast, "no value for the field 'letters'.*min_size is larger"),
        (Unread, "no value for the field 'name'.*Script=Latin.*from_model.Unread, name=st"),
    ],
)
def test_a_model_without_values_is_refused_by_name(model: type, said: str) -> None:
    """Before anything is drawn, with the field and what to write instead."""
    with pytest.raises(UsageError, match=said):
        foretold.from_model(model)


class Foreign(BaseModel):
    """Patterns as Rust writes them, and Python does not."""

    name: str = Field(pattern=r"^\p{Lu}[\p{Ll}\p{Nd}_-]{1,5}$")
    rest: str = Field(pattern=r"^(?<first>\PL)\x{e4}\z", min_length=2)


def test_patterns_of_other_languages_are_translated() -> None:
    """The model itself, which has a reader of its own for patterns, takes what is drawn."""
    strategy = foretold.from_model(Foreign)
    drawn = [draw(strategy, Tape.seeded(n).stream("x")) for n in range(30)]
    assert all(each.rest[1] == "ä" and not each.rest[0].isalpha() for each in drawn)
    assert len({each.name for each in drawn}) > 20


def test_mistakes_are_named() -> None:
    """What is no model, a field that is not there, no strategy, a type that nobody can make."""
    with pytest.raises(UsageError, match="takes a Pydantic model"):
        foretold.from_model(int)
    with pytest.raises(UsageError, match=r"'lifes'.*lives"):
        foretold.from_model(Cat, lifes=st.just(3))
    with pytest.raises(UsageError, match="takes a strategy, such as"):
        foretold.from_model(Cat, lives=3)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(UsageError, match="'thing' of type JSONEncoder"):
        foretold.from_model(Odd)


class Order(BaseModel):
    """A request."""

    item: int = Field(ge=1, le=50)
    quantity: int = Field(ge=1, le=1000)
    gift: bool = False
    colour: Colour = Colour.RED
    note: str | None = Field(None, max_length=20)


GOOD = st.fixed_dictionaries(
    {"item": st.integers(1, 50), "quantity": st.integers(1, 1000)},
    optional={
        "gift": st.booleans(),
        "colour": st.sampled_from(["red", "blue"]),
        "note": st.none() | st.text("ab", max_size=20),
    },
)


def test_a_strategy_that_agrees_with_the_model_has_not_drifted() -> None:
    """Written by hand or made from the model: no false alarm, though bounds are rare."""
    assert not foretold.drift(GOOD, Order), str(foretold.drift(GOOD, Order))
    own = foretold.from_model(Order)
    assert not foretold.drift(own, Order), str(foretold.drift(own, Order))


def test_drift_names_what_is_refused_and_what_is_never_reached() -> None:
    """Planted: a strategy from the time when orders had no colour and up to 100 pieces of 60."""
    old = st.fixed_dictionaries(
        {"item": st.integers(1, 60), "quantity": st.integers(2, 100), "gift": st.just(False)}
    )
    found = foretold.drift(old, Order)
    assert found
    assert any("item: Input should be less than or equal to 50" in why for _, why in found.refused)
    assert "colour (it was never given)" in found.unreached
    assert "gift = True" in found.unreached
    assert "quantity = 1000, its upper bound (the greatest was 100)" in found.unreached
    assert "quantity = 1, its lower bound (the least was 2)" in found.unreached
    assert "have drifted apart" in str(found)
    assert "  never reached: gift = True" in str(found)


def test_drift_looks_into_nested_models() -> None:
    """A pet that is never a dog; a cat that never has nine lives."""

    class Owner(BaseModel):
        pet: Cat | Dog

    cats = st.fixed_dictionaries({"pet": st.builds(Cat, kind=st.just("cat"), lives=st.just(1))})
    found = foretold.drift(cats, Owner)
    assert "pet as Dog" in found.unreached
    assert "pet.lives = 9, its upper bound (the greatest was 1)" in found.unreached
