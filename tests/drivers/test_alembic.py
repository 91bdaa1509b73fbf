"""Alembic: what it finds between a database and an application's tables, the migration that it writes, and its run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata, produce_migrations, render_python_code
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy.dialects import postgresql as pg

from tests.drivers.conftest import AnyServer


@pytest.fixture
def engine(server: AnyServer, schema: str) -> Iterator[sa.Engine]:
    options = {"options": f"-c search_path={schema}"}
    made = sa.create_engine(f"postgresql+psycopg://postgres@127.0.0.1:{server.port}/postgres", connect_args=options)
    yield made
    made.dispose()


def _first() -> sa.MetaData:
    metadata = sa.MetaData()
    sa.Table(
        "people",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(40), nullable=False, unique=True, comment="as on the letter"),
        sa.Column("balance", sa.Numeric(12, 2), server_default="0", nullable=False),
        sa.Column("tags", pg.ARRAY(sa.Text)),
        sa.Column("more", pg.JSONB),
        sa.Column("born", sa.Date),
        sa.CheckConstraint("balance >= 0", name="not_negative"),
        comment="who buys",
    )
    sa.Table(
        "orders",
        metadata,
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column(
            "person", sa.Integer, sa.ForeignKey("people.id", ondelete="CASCADE", name="of_person"), nullable=False
        ),
        sa.Column("placed", sa.DateTime(timezone=True), server_default=sa.func.now()),
        sa.Index("by_person", "person", "placed"),
    )
    return metadata


def _second() -> sa.MetaData:
    """The same after some work: columns, types, indexes, keys and tables come, go and change."""
    metadata = sa.MetaData()
    sa.Table(
        "people",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(80), nullable=False, unique=True, comment="in full"),
        sa.Column("balance", sa.Numeric(14, 2), server_default="0", nullable=False),
        sa.Column("tags", pg.ARRAY(sa.Text)),
        sa.Column("more", pg.JSONB),
        sa.Column("email", sa.Text, nullable=True),
        sa.UniqueConstraint("email", name="one_email"),
        comment="who buys",
    )
    sa.Table(
        "orders",
        metadata,
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("person", sa.Integer, sa.ForeignKey("people.id", name="of_person_2"), nullable=True),
        sa.Column("placed", sa.DateTime(timezone=True), server_default=sa.func.now()),
        sa.Index("by_placed", "placed", unique=False),
    )
    sa.Table("notes", metadata, sa.Column("id", sa.Uuid, primary_key=True), sa.Column("body", sa.Text))
    return metadata


def _context(connection: sa.Connection) -> MigrationContext:
    return MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})


def _kinds(differences: list[Any]) -> list[str]:
    found = []
    for difference in differences:
        for item in difference if isinstance(difference, list) else [difference]:
            subject = item[1] if hasattr(item[1], "name") else item[3]
            found.append(f"{item[0]} {getattr(subject, 'name', subject)}")
    return sorted(found)


def _migrate(connection: sa.Connection, metadata: sa.MetaData) -> str:
    """Writes the migration to these tables and runs it; its text."""
    context = _context(connection)
    script = produce_migrations(context, metadata)
    upgrade = script.upgrade_ops
    assert upgrade is not None
    text = render_python_code(upgrade)
    # Alembic writes the items of an ARRAY without their module.
    names = {"Text": sa.Text, "op": Operations(context), "sa": sa, "postgresql": pg}
    body = "\n".join(line.removeprefix("    ") for line in text.splitlines())
    exec(compile(body, "<migration>", "exec"), names)
    return text


def test_tables_made_by_a_migration_are_those_of_the_application(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        _migrate(connection, _first())
        assert compare_metadata(_context(connection), _first()) == []
        connection.execute(sa.text("INSERT INTO people (id, name) VALUES (1, 'Ann')"))
        assert connection.scalar(sa.text("INSERT INTO orders (person) VALUES (1) RETURNING id")) == 1


def test_changes_are_found_written_and_made(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        _first().create_all(connection)
        connection.execute(sa.text("INSERT INTO people (id, name, balance) VALUES (1, 'Ann', 2.50)"))
    with engine.begin() as connection:
        found = _kinds(compare_metadata(_context(connection), _second()))
        assert found == [
            "add_column email", "add_constraint one_email", "add_fk of_person_2", "add_index by_placed",
            "add_table notes", "modify_comment name", "modify_nullable person", "modify_type balance",
            "modify_type name", "remove_column born", "remove_fk of_person", "remove_index by_person",
        ]  # fmt: skip
        text = _migrate(connection, _second())
        assert "op.alter_column('people', 'name'" in text
    with engine.begin() as connection:
        assert compare_metadata(_context(connection), _second()) == []
        assert connection.execute(sa.text("SELECT name, balance::text, email FROM people")).one() == (
            "Ann",
            "2.50",
            None,
        )
        back = _kinds(compare_metadata(_context(connection), _first()))
        assert "remove_table notes" in back and "add_column born" in back
