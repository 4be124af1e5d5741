"""What the whole shop keeps. (`model.py` has the three tables of the small one.)"""

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.schema import CreateTable


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customer"

    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str] = mapped_column(unique=True)


class Item(Base):
    __tablename__ = "item"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    price: Mapped[int]
    received: Mapped[int]
    """So many pieces the shop has ever had."""
    stock: Mapped[int]
    visits: Mapped[int] = mapped_column(default=0)


class Visit(Base):
    __tablename__ = "visit"

    id: Mapped[int] = mapped_column(primary_key=True)
    item_id: Mapped[int] = mapped_column(ForeignKey("item.id"))
    customer_id: Mapped[int] = mapped_column(ForeignKey("customer.id"))


class Order(Base):
    __tablename__ = "orders"
    __table_args__ = (UniqueConstraint("customer_id", "key"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int] = mapped_column(ForeignKey("customer.id"))
    item_id: Mapped[int] = mapped_column(ForeignKey("item.id"))
    quantity: Mapped[int]
    amount: Mapped[int]
    state: Mapped[str]
    key: Mapped[str | None]


class Passage(Base):
    """An order has passed from one state to another."""

    __tablename__ = "passage"

    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"))
    before: Mapped[str]
    after: Mapped[str]


class Charge(Base):
    """Money from a customer, or back to them."""

    __tablename__ = "charge"

    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"))
    amount: Mapped[int]
    basket: Mapped[str | None]
    """As it stands on the customer's bank statement."""


class Mail(Base):
    __tablename__ = "mail"

    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"), unique=True)
    text: Mapped[str]


def schema(*statements: str) -> str:
    """The tables as SQL, and what is in them from the beginning."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy has no hint for it
    tables = [str(CreateTable(t).compile(dialect=dialect)) for t in Base.metadata.sorted_tables]
    return ";\n".join([*tables, *statements])
