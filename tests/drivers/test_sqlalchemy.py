"""SQLAlchemy over psycopg: core with every type, the ORM, reflection."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload

from tests.drivers.values import BY_TYPE, same
from tests.oracle import PostgresServer
from tests.server import ShoalServer

TYPES: dict[str, sa.types.TypeEngine[Any]] = {
    "bool": sa.Boolean(),
    "int2": sa.SmallInteger(),
    "int4": sa.Integer(),
    "int8": sa.BigInteger(),
    "float4": sa.REAL(),
    "float8": sa.Double(),
    "numeric(12,4)": sa.Numeric(12, 4),
    "text": sa.Text(),
    "varchar(20)": sa.String(20),
    "char(5)": sa.CHAR(5),
    "bytea": sa.LargeBinary(),
    "date": sa.Date(),
    "time": sa.Time(),
    "timestamp": sa.DateTime(),
    "timestamptz": sa.DateTime(timezone=True),
    "interval": sa.Interval(),
    "uuid": sa.Uuid(),
}


@pytest.fixture
def engine(server: ShoalServer | PostgresServer, schema: str) -> Iterator[sa.Engine]:
    options = {"options": f"-c search_path={schema} -c TimeZone=UTC"}
    made = sa.create_engine(f"postgresql+psycopg://postgres@127.0.0.1:{server.port}/postgres", connect_args=options)
    yield made
    made.dispose()


@pytest.mark.parametrize("name", TYPES)
def test_core_values_come_back(engine: sa.Engine, name: str) -> None:
    case = BY_TYPE[name]
    table = sa.Table(
        "t",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("v", TYPES[name]),
        sa.Column("a", pg.ARRAY(TYPES[name])),
    )
    with engine.begin() as connection:
        table.create(connection)
        rows = [{"id": number, "v": value, "a": [value, None]} for number, value in enumerate(case.values)]
        connection.execute(table.insert(), [*rows, {"id": 1000, "v": None, "a": None}])
    with engine.connect() as connection:
        found = connection.execute(sa.select(table.c.v, table.c.a).order_by(table.c.id)).all()
        expected = [(value, [value, None]) for value in case.expected] + [(None, None)]
        for row, wanted in zip(found, expected, strict=True):
            assert same(tuple(row), wanted)
        first = case.expected[0]
        count = connection.scalar(sa.select(sa.func.count()).where(table.c.v == first))
        assert count is not None and count >= 1


def test_json_by_path(engine: sa.Engine) -> None:
    table = sa.Table("t", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("v", pg.JSONB))
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(table.insert(), [{"id": 1, "v": {"a": {"b": [1, 2]}}}, {"id": 2, "v": {"a": "x"}}])
        assert connection.scalar(sa.select(table.c.v["a"]["b"][1].as_integer()).where(table.c.id == 1)) == 2
        assert connection.scalars(sa.select(table.c.id).where(table.c.v["a"].as_string() == "x")).all() == [2]


def test_core_statements(engine: sa.Engine) -> None:
    metadata = sa.MetaData()
    items = sa.Table(
        "items",
        metadata,
        sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("name", sa.String(40), nullable=False, unique=True),
        sa.Column("price", sa.Numeric(10, 2), server_default="0"),
        sa.CheckConstraint("price >= 0", name="not_negative"),
    )
    metadata.create_all(engine)
    with engine.begin() as connection:
        made = connection.execute(items.insert().returning(items.c.id), [{"name": f"item {n}"} for n in range(30)])
        assert sorted(made.scalars()) == list(range(1, 31))
        upsert = pg.insert(items).values(name="item 3", price=5)
        upsert = upsert.on_conflict_do_update(index_elements=["name"], set_={"price": upsert.excluded.price})
        connection.execute(upsert)
        changed = connection.execute(
            items.update().where(items.c.id > 25).values(price=items.c.price + Decimal("1.25"))
        )
        assert changed.rowcount == 5
        totals = sa.select(sa.func.sum(items.c.price), sa.func.count(), sa.func.max(items.c.name))
        assert connection.execute(totals).one() == (Decimal("11.25"), 30, "item 9")
        ranked = sa.select(items.c.id, sa.func.row_number().over(order_by=items.c.price.desc())).limit(1)
        assert connection.execute(ranked).one() == (4, 1)
        assert connection.execute(items.delete().where(items.c.price == 0)).rowcount == 24
    with pytest.raises(exc.IntegrityError), engine.begin() as connection:
        connection.execute(items.insert().values(name="bad", price=-1))
    metadata.drop_all(engine)


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "authors"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(50), index=True)
    born: Mapped[dt.date | None]
    books: Mapped[list[Book]] = relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "books"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    author_id: Mapped[int] = mapped_column(sa.ForeignKey("authors.id", ondelete="CASCADE"))
    author: Mapped[Author] = relationship(back_populates="books")


def test_the_orm(engine: sa.Engine) -> None:
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        for number in range(20):
            books = [Book(title=f"Volume {part}") for part in range(number % 3)]
            session.add(Author(name=f"Author {number:02}", born=dt.date(1900 + number, 1, 1), books=books))
        session.commit()
        query = sa.select(Author).options(selectinload(Author.books)).order_by(Author.name)
        authors = session.scalars(query).all()
        assert [len(author.books) for author in authors] == [number % 3 for number in range(20)]
        joined = sa.select(Author.name, sa.func.count(Book.id)).join(Book, isouter=True).group_by(Author.id)
        assert len(session.execute(joined.having(sa.func.count(Book.id) == 2)).all()) == 6
        authors[2].books.pop()
        authors[5].name = "Renamed"
        session.delete(authors[8])
        session.flush()
        with session.begin_nested() as nested:
            session.add(Author(name="never"))
            session.flush()
            nested.rollback()
        session.commit()
        assert session.scalar(sa.select(sa.func.count()).select_from(Author)) == 19
        assert session.scalar(sa.select(sa.func.count()).select_from(Book)) == sum(n % 3 for n in range(20)) - 3
        found = session.scalars(sa.select(Author).where(Author.books.any(Book.title == "Volume 1"))).all()
        assert len(found) == 4
    Base.metadata.drop_all(engine)


def test_reflection(engine: sa.Engine, schema: str) -> None:
    Base.metadata.create_all(engine)
    inspector = sa.inspect(engine)
    assert set(inspector.get_table_names()) == {"authors", "books"}
    columns = {column["name"]: column for column in inspector.get_columns("authors")}
    assert isinstance(columns["name"]["type"], sa.VARCHAR) and columns["name"]["type"].length == 50
    assert columns["born"]["nullable"] and not columns["name"]["nullable"]
    assert inspector.get_pk_constraint("books")["constrained_columns"] == ["id"]
    (key,) = inspector.get_foreign_keys("books")
    assert (key["referred_table"], key["referred_columns"], key["options"]) == (
        "authors",
        ["id"],
        {"ondelete": "CASCADE"},
    )
    assert [index["column_names"] for index in inspector.get_indexes("authors")] == [["name"]]
    reflected = sa.MetaData()
    reflected.reflect(engine)
    assert set(reflected.tables) == {"authors", "books"}
    Base.metadata.drop_all(engine)


def test_server_side_streaming(engine: sa.Engine) -> None:
    with engine.connect().execution_options(stream_results=True, max_row_buffer=100) as connection:
        rows = connection.execute(sa.text("SELECT g FROM generate_series(1, :many) g"), {"many": 5000})
        assert sum(row.g for row in rows) == 5000 * 5001 // 2
