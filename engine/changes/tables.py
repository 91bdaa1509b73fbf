"""The captured tables, and the tables of their changes, by the schema objects alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from catalog.schema import ChangeStream, Schema, SchemaObject, Table

HIDDEN_SCHEMA = "pg_toast"  # which clients hide, and pg_dump passes over
_LOG = "pg_changes_"


def log_name(tablespace: int) -> str:
    """The name of the table of changes in a tablespace (OID)."""
    return f"{_LOG}{tablespace}"


def log_of(objects: Mapping[int, SchemaObject], database: int, tablespace: int) -> Table | None:
    """The table of changes of a database."""
    name = log_name(tablespace)
    for item in objects.values():
        if isinstance(item, Table) and item.name == name and item.tablespace == tablespace:
            schema = objects.get(item.schema)
            if isinstance(schema, Schema) and schema.name == HIDDEN_SCHEMA and schema.database == database:
                return item
    return None


def can_be_in_streams(objects: Mapping[int, SchemaObject], table: Table, hidden: bool = False) -> bool:
    """Whether a table has permanent rows of its own. `hidden`: for a table of changes."""
    schema = objects.get(table.schema)
    if not isinstance(schema, Schema) or (schema.name == HIDDEN_SCHEMA) != hidden:
        return False
    return table.persistence != "t" and table.query is None and table.partitioning is None


def find_streamed(objects: Mapping[int, SchemaObject]) -> dict[int, tuple[ChangeStream, ...]]:
    """The tables that are in streams: OID -> the streams, in the order of their OIDs."""
    streams = sorted((item for item in objects.values() if isinstance(item, ChangeStream)), key=lambda item: item.oid)
    if not streams:
        return {}
    tables = [item for item in objects.values() if isinstance(item, Table) and can_be_in_streams(objects, item)]
    found: dict[int, tuple[ChangeStream, ...]] = {}
    for table in tables:
        schema = objects[table.schema]
        assert isinstance(schema, Schema)
        named = {table.oid, *_above(objects, table)}
        wanted = tuple(
            stream
            for stream in streams
            if stream.database == schema.database
            and stream.tablespace == table.tablespace
            and (stream.all_tables or not named.isdisjoint(stream.tables))
        )
        if wanted:
            found[table.oid] = wanted
    return found


def _above(objects: Mapping[int, SchemaObject], table: Table) -> Iterable[int]:
    """All its partitioned tables and parents, direct and indirect."""
    pending = list(table.parents)
    while pending:
        oid = pending.pop()
        yield oid
        parent = objects.get(oid)
        if isinstance(parent, Table):
            pending += parent.parents
