"""Runs statements on the row path and on PostgreSQL, and compares.

Tables are made in PostgreSQL; the catalog for the row path is read back from there. Rows live in a plain dict behind a
transaction that is alone, so what is compared is planning, execution, constraints, messages and encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.pq import ExecStatus

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.functions.base import CallContext
from catalog.schema import (
    BOOTSTRAP_ROLE_OID,
    Column,
    Constraint,
    Index,
    IndexColumn,
    Layout,
    Role,
    Schema,
    SchemaObject,
    Table,
)
from catalog.schema import (
    Sequence as Seq,
)
from catalog.types import lookup
from catalog.types.base import DEFAULT_FORMAT, TypeRef
from engine.execute.context import ExecContext, RowPathFull
from engine.execute.planner import plan_row
from engine.sql.analyze import Environment, analyze
from engine.sql.parser import parse
from engine.txn.interface import NO_KEY_UPDATE, READ_COMMITTED, UPDATE


class LoneTransaction:
    """A transaction without company: snapshot, newest version and own writes are one dict."""

    isolation = READ_COMMITTED
    read_only = False
    snapshot_lsn = 0
    is_replica = False

    def __init__(self, rows: dict[bytes, bytes]) -> None:
        self.rows = rows
        self.get = rows.get
        self.newest = rows.get
        self.writes: dict[bytes, bytes | None] = {}
        self.locks: list[tuple[bytes, int]] = []

    def scan(self, low: bytes, high: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        for key in sorted((key for key in self.rows if low <= key < high), reverse=reverse):
            if key in self.rows:
                yield key, self.rows[key]

    scan_newest = scan

    def lock_table(self, oid: int, mode: int, wait: str = "block") -> None:
        """Nobody else is there."""

    def lock(self, key: bytes, strength: int, wait: str = "block") -> bool:
        self.locks.append((key, strength))
        return True

    def lock_unchanged(self, keys: Sequence[bytes], strength: int) -> bool:
        self.locks += [(key, strength) for key in keys]
        return True

    def get_locked(
        self,
        key: bytes,
        strength: int,
        wait: str = "block",
        same_key: Callable[[bytes, bytes], bool] | None = None,
        current: bool = False,
    ) -> bytes | None:
        self.locks.append((key, strength))
        return self.rows.get(key)

    def get_moved(self, key: bytes, strength: int, wait: str = "block") -> tuple[bytes, bytes | None]:
        return key, None

    def get_to_change(self, key: bytes, current: bool = False) -> bytes | None:
        return self.get_locked(key, NO_KEY_UPDATE)

    def strengthen(self, key: bytes) -> None:
        self.lock(key, UPDATE)

    def take_key(self, key: bytes, to_have: bool = True) -> bytes | None:
        self.lock(key, UPDATE)
        return self.rows.get(key)

    def wait_for_writer(self, key: bytes) -> None:
        """Nobody else is there."""

    def has_written(self, key: bytes) -> bool:
        return False

    def put(self, key: bytes, value: bytes) -> None:
        self.rows[key] = value

    def move(self, key: bytes, new_key: bytes, value: bytes) -> None:
        self.delete(key)
        self.put(new_key, value)

    def delete(self, key: bytes) -> None:
        self.rows.pop(key, None)

    def mark(self) -> int:
        return 0

    def rollback_to(self, mark: int) -> None:
        raise AssertionError


class LoneSession:
    """What functions ask of a session, as far as these tests go."""

    user_name = session_user_name = database_name = "postgres"
    process_id = 1
    search_path = ("public",)

    def __init__(self) -> None:
        self.sequences: dict[int, int] = {}

    def next_value(self, sequence: int) -> int:
        self.sequences[sequence] = self.sequences.get(sequence, 0) + 1
        return self.sequences[sequence]

    def setting(self, name: str) -> str:
        return ""


@dataclass
class Outcome:
    """Rows as text, and the number of the command tag; or the error as (SQLSTATE, message, detail)."""

    rows: list[tuple[str | None, ...]] | None = None
    count: int = 0
    error: tuple[str, str, str | None] | None = None


class Mirror:
    """A schema in both places. `statement` runs one in both and asserts that they agree."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        connection.execute("drop schema if exists mirror cascade; create schema mirror; set search_path = mirror")
        self.catalog = Catalog()
        self.rows: dict[bytes, bytes] = {}
        self.session = LoneSession()
        self._row_number = 0
        self.environment: Environment

    def ddl(self, sql: str) -> None:
        """Makes tables and indexes, before any of them has rows."""
        self.connection.execute(sql)  # type: ignore[arg-type]
        self.catalog = read_catalog(self.connection)
        self.connection.execute("set search_path = mirror")
        self.environment = Environment(self.catalog, ("mirror",))

    def empty(self) -> None:
        """Takes all rows away and starts sequences again, in both places."""
        names = ", ".join(table.name for table in self.catalog.tables())
        self.connection.execute(f"truncate {names} restart identity")  # type: ignore[arg-type]
        self.rows = {}
        self.session.sequences = {}

    def plan(self, sql: str, types: Sequence[int] = (), brief: bool = False) -> Any:
        statement = parse(sql)[0]
        analyzed = analyze(statement.tree, self.environment, types)
        return plan_row(analyzed, self.catalog, DEFAULT_FORMAT, brief)

    def context(self, rows: dict[bytes, bytes]) -> ExecContext:
        transaction = LoneTransaction(rows)
        call = CallContext(0, 0, "UTC", self.session)
        return ExecContext(transaction, transaction, call, self.catalog, DEFAULT_FORMAT, self._next_row_number)

    def _next_row_number(self, table: Table) -> int:
        self._row_number += 1
        return self._row_number

    def ours(self, sql: str, parameters: Sequence[str | None] = (), formats: int = 0) -> Outcome:
        try:
            plan = self.plan(sql)
            assert plan is not None, f"not on the row path: {sql}"
            types = [lookup(oid) for oid in plan.parameter_types]
            values = [
                None if text is None else type_.text_decoder(DEFAULT_FORMAT)(text)
                for type_, text in zip(types, parameters, strict=True)
            ]
            rows, sequences = dict(self.rows), dict(self.session.sequences)
            data, count = plan.make_encoder((formats,) * len(plan.fields))(self.context(rows), values)
            if plan.command == "SELECT" and not plan.writes and "random()" not in sql:
                after, self.session.sequences = self.session.sequences, dict(sequences)
                once = self.plan(sql, brief=True).make_encoder((formats,) * len(plan.fields))
                assert once(self.context(dict(self.rows)), values) == (data, count), sql
                self.session.sequences = after
            self.session.sequences = sequences
            again, same = plan.rows(self.context(dict(self.rows)), values)
            assert same == count
            assert not plan.fields or plan.command != "SELECT" or len(again) == count
            self.rows = rows
            return Outcome(split_rows(data), count)
        except SqlError as error:
            return Outcome(error=(error.sqlstate, error.message, error.detail))

    def theirs(self, sql: str, parameters: Sequence[str | None] = ()) -> Outcome:
        encoded = [None if text is None else text.encode() for text in parameters]
        result = self.connection.pgconn.exec_params(sql.encode(), encoded)
        if result.status == ExecStatus.FATAL_ERROR:
            from psycopg.pq import DiagnosticField

            fields = (DiagnosticField.SQLSTATE, DiagnosticField.MESSAGE_PRIMARY, DiagnosticField.MESSAGE_DETAIL)
            state, message, detail = (result.error_field(field) for field in fields)
            return Outcome(error=((state or b"").decode(), (message or b"").decode(), detail and detail.decode()))
        rows = [
            tuple(
                None if (value := result.get_value(row, column)) is None else value.decode()
                for column in range(result.nfields)
            )
            for row in range(result.ntuples)
        ]
        return Outcome(rows, result.command_tuples or 0)

    def statement(self, sql: str, *parameters: str | None, ordered: bool = False) -> Outcome:
        """Runs it in both, and asserts the same rows (in any order unless `ordered`), count or error."""
        ours, theirs = self.ours(sql, parameters), self.theirs(sql, parameters)
        if not ordered and ours.rows is not None and theirs.rows is not None:
            ours.rows.sort(key=repr)
            theirs.rows.sort(key=repr)
        assert ours == theirs, sql
        return ours


def split_rows(data: bytes) -> list[tuple[str | None, ...]]:
    """DataRow messages taken apart."""
    rows = []
    at = 0
    while at < len(data):
        kind, length, columns = struct.unpack_from(">BIH", data, at)
        assert kind == 68
        end, place, row = at + 1 + length, at + 7, []
        for _ in range(columns):
            (size,) = struct.unpack_from(">i", data, place)
            place += 4
            row.append(None if size < 0 else data[place : place + size].decode())
            place += max(size, 0)
        assert place == end
        rows.append(tuple(row))
        at = end
    return rows


# ---- the catalog, read back ------------------------------------------------------------------------------------------


def read_catalog(connection: psycopg.Connection[Any]) -> Catalog:
    """Our catalog objects for everything in schema `mirror`."""

    def query(sql: str, *values: object) -> list[tuple[Any, ...]]:
        connection.execute("set search_path = ''")  # so that the catalog's texts have qualified names
        return connection.execute(sql, values).fetchall()  # type: ignore[arg-type]

    schema = query("select 'mirror'::regnamespace::oid::int")[0][0]
    owner = Role(BOOTSTRAP_ROLE_OID, "postgres", superuser=True)
    objects: dict[int, SchemaObject | None] = {owner.oid: owner, schema: Schema(schema, 5, "mirror")}
    for oid, name in query("select oid::int, relname from pg_class where relkind = 'S' and relnamespace = %s", schema):
        objects[oid] = Seq(oid, schema, name, oid)
    for oid, name in query("select oid::int, relname from pg_class where relkind = 'r' and relnamespace = %s", schema):
        table = _table(query, schema, oid, name)
        objects[oid] = table
        for index in _indexes(query, schema, table):
            objects[index.oid] = index
    return Catalog().with_changes(objects)


def _table(query: Callable[..., list[tuple[Any, ...]]], schema: int, oid: int, name: str) -> Table:
    columns = tuple(
        Column(
            number, column, TypeRef(type_, typmod), not_null,
            None if generated else default, identity, default if generated else None,
            sequence,
        )
        for number, column, type_, typmod, not_null, default, identity, generated, sequence in query(
            "select a.attnum, attname, atttypid::int, atttypmod, attnotnull, pg_get_expr(adbin, adrelid),"
            " attidentity, attgenerated = 's',"
            " pg_get_serial_sequence(a.attrelid::regclass::text, attname)::regclass::int"
            " from pg_attribute a left join pg_attrdef d on adrelid = attrelid and adnum = attnum"
            " where attrelid = %s and a.attnum > 0 and not attisdropped order by a.attnum",
            oid,
        )
    )  # fmt: skip
    constraints = tuple(
        Constraint(
            coid, cname, kind, tuple(keys or ()), index or None, check, references or None, tuple(refkeys or ()),
            on_delete.strip() or "a", on_update.strip() or "a", match.strip() or "s",
        )
        for coid, cname, kind, keys, index, check, references, refkeys, on_delete, on_update, match in query(
            "select oid::int, conname, contype::text, conkey::int[], conindid::int,"
            " pg_get_expr(conbin, conrelid), confrelid::int, confkey::int[], confdeltype::text, confupdtype::text,"
            " confmatchtype::text from pg_constraint where conrelid = %s order by oid",
            oid,
        )
    )  # fmt: skip
    key = next((c.columns for c in constraints if c.kind == "p"), ())
    indexes = tuple(row[0] for row in query("select indexrelid::int from pg_index where indrelid = %s order by 1", oid))
    layout = Layout(1, tuple(c.number for c in columns), tuple(c.type for c in columns))
    return Table(oid, schema, name, columns, oid, key, (layout,), constraints, indexes)


def _indexes(query: Callable[..., list[tuple[Any, ...]]], schema: int, table: Table) -> Iterator[Index]:
    for oid, name, unique, primary, keys, predicate, nulls in query(
        "select indexrelid::int, relname, indisunique, indisprimary, indkey::int[], pg_get_expr(indpred, indrelid),"
        " indnullsnotdistinct"
        " from pg_index join pg_class c on c.oid = indexrelid where indrelid = %s",
        table.oid,
    ):
        columns = []
        for position, number in enumerate(keys):
            if number:
                columns.append(IndexColumn(number, type=table.column_by_number(number).type))
                continue
            text, type_ = query(
                "select pg_get_indexdef(%s, %s, true), (select atttypid::int from pg_attribute where attrelid = %s"
                " and attnum = %s)", oid, position + 1, oid, position + 1,
            )[0]  # fmt: skip
            columns.append(IndexColumn(0, text, type=TypeRef(type_)))
        yield Index(oid, schema, name, table.oid, tuple(columns), oid, unique, primary, nulls, predicate=predicate)


__all__ = ["LoneTransaction", "Mirror", "Outcome", "RowPathFull"]
