"""Reads the definition of a table from its server, and creates the table on another one.

It copies columns, their types (enums are created), NOT NULL, defaults, identity, generated columns, primary key,
UNIQUE, CHECK and EXCLUDE, and after the rows indexes and foreign keys. A default that the target cannot evaluate, and
an index or a foreign key that it refuses, is left out and reported. `serial` becomes an identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from shoal_spark.options import quote_name

Connection = psycopg.Connection[Any]
_TABLES = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname = %s ORDER BY 2
"""
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid), a.attidentity,
       a.attgenerated, y.typname, a.atttypmod, y.typtype,
       (SELECT array_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = y.oid)
FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_CONSTRAINTS = """
SELECT conname, contype, pg_get_constraintdef(oid), confrelid::regclass::text FROM pg_constraint
WHERE conrelid = %s::regclass AND contype IN ('p', 'u', 'c', 'x', 'f') ORDER BY contype <> 'p', conname
"""
_INDEXES = """
SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i WHERE i.indrelid = %s::regclass
  AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid AND c.conrelid = i.indrelid)
"""
_SEQUENCE = """
SELECT setval(pg_get_serial_sequence(%s, %s), greatest((SELECT max({column}) FROM {table}), 1))
WHERE EXISTS (SELECT 1 FROM {table})
"""
_INTEGERS = ("int2", "int4", "int8")


@dataclass(frozen=True)
class SourceColumn:
    name: str
    type: str
    not_null: bool
    default: str | None
    identity: str  # '', 'a', 'd'
    generated: bool
    type_name: str  # pg_type's
    modifier: int
    kind: str  # pg_type.typtype
    labels: Sequence[str] | None = None

    @property
    def counts(self) -> bool:
        """Whether the column's values come from a sequence."""
        return bool(self.identity) or (
            self.type_name in _INTEGERS and self.default is not None and self.default.startswith("nextval(")
        )


@dataclass
class TableDefinition:
    """A table of the source."""

    schema: str
    table: str
    columns: list[SourceColumn] = field(default_factory=list)
    constraints: list[tuple[str, str, str, str | None]] = field(default_factory=list)  # name, kind, text, referred to
    indexes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{quote_name(self.schema)}.{quote_name(self.table)}"

    @property
    def data_columns(self) -> list[SourceColumn]:
        """Columns whose values are copied."""
        return [column for column in self.columns if not column.generated]


def tables_of(connection: Connection, schema: str) -> list[tuple[str, str]]:
    """Schema and name of the tables of a schema, without partitions, which belong to their tables."""
    return [(row[0], row[1]) for row in connection.execute(_TABLES, (schema,)).fetchall()]


def definition_of(connection: Connection, schema: str, table: str) -> TableDefinition:
    found = TableDefinition(schema, table)
    connection.execute("SET search_path TO ''")  # names come with their schemas
    found.columns = [
        SourceColumn(name, kind, not_null, default, identity, generated != "", type_name, modifier, form, labels)
        for name, kind, not_null, default, identity, generated, type_name, modifier, form, labels in connection.execute(
            _COLUMNS, (found.name,)
        ).fetchall()
    ]
    found.constraints = [tuple(row) for row in connection.execute(_CONSTRAINTS, (found.name,)).fetchall()]
    found.indexes = [row[0] for row in connection.execute(_INDEXES, (found.name,)).fetchall()]
    return found


def create_table(target: Connection, source: TableDefinition, left_out: list[str]) -> None:
    """Creates the table, empty. Raises psycopg.Error."""
    target.execute(f"CREATE SCHEMA IF NOT EXISTS {quote_name(source.schema)}")
    for column in source.columns:
        if column.labels and target.execute("SELECT to_regtype(%s)", (column.type,)).fetchone() == (None,):
            labels = ", ".join("'" + label.replace("'", "''") + "'" for label in column.labels)
            target.execute(f"CREATE TYPE {column.type} AS ENUM ({labels})")
    items = [_column(target, source, column, left_out) for column in source.columns]
    items += [f"CONSTRAINT {quote_name(name)} {text}" for name, kind, text, _ in source.constraints if kind != "f"]
    target.execute(f"CREATE TABLE {source.name} ({', '.join(items)})")


def _column(target: Connection, source: TableDefinition, column: SourceColumn, left_out: list[str]) -> str:
    text = f"{quote_name(column.name)} {column.type}"
    if column.generated:
        return f"{text} GENERATED ALWAYS AS ({column.default}) STORED{' NOT NULL' if column.not_null else ''}"
    if column.counts:
        return f"{text} GENERATED {'ALWAYS' if column.identity == 'a' else 'BY DEFAULT'} AS IDENTITY"
    if column.default is not None:
        if _is_accepted(target, f"SELECT {column.default}"):
            text += f" DEFAULT {column.default}"
        else:
            left_out.append(f"default of {source.schema}.{source.table}.{column.name}: {column.default}")
    return text + (" NOT NULL" if column.not_null else "")


def _is_accepted(target: Connection, statement: str) -> bool:
    try:
        with target.transaction(force_rollback=True):
            target.execute(statement)
    except psycopg.Error:
        return False
    return True


def create_indexes(target: Connection, source: TableDefinition, left_out: list[str]) -> None:
    """Sets the positions of sequences and creates indexes, after the rows."""
    for column in source.columns:
        if column.counts:
            statement = _SEQUENCE.format(column=quote_name(column.name), table=source.name)
            target.execute(statement, (source.name, column.name))
    for text in source.indexes:
        _run_or_leave_out(target, text, left_out)


def create_foreign_keys(target: Connection, source: TableDefinition, left_out: list[str]) -> None:
    """Creates the foreign keys, after all tables."""
    for name, kind, text, _ in source.constraints:
        if kind == "f":
            _run_or_leave_out(target, f"ALTER TABLE {source.name} ADD CONSTRAINT {quote_name(name)} {text}", left_out)


def _run_or_leave_out(target: Connection, statement: str, left_out: list[str]) -> None:
    try:
        target.execute(statement)
    except psycopg.Error as error:
        left_out.append(f"{statement}: {error.diag.message_primary or error}")


def select_columns(source: TableDefinition, native: Sequence[str]) -> Iterator[str]:
    """The select list that reads the columns without loss: unchanged if Spark has their type, else as text."""
    for column in source.data_columns:
        name = quote_name(column.name)
        if column.type_name in native and not (
            column.type_name == "numeric" and not _fits_spark_decimal(column.modifier)
        ):
            finite = column.type_name in ("date", "timestamp", "timestamptz")
            said = "'infinite value in column " + column.name.replace("'", "''") + "'"
            # An infinite time would come as another one; this fails, and says so.
            guarded = f"CASE WHEN NOT isfinite({name}) THEN (left({name}::text, 0) || {said})::{column.type_name}"
            yield f"{guarded} ELSE {name} END AS {name}" if finite else name
        else:
            yield f"{name}::text AS {name}"


def _fits_spark_decimal(modifier: int) -> bool:
    """Whether it is the modifier of a numeric of up to 38 digits."""
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    return modifier >= 4 and scale <= precision <= 38
