"""The content of a checkpoint other than tables: the catalog's rows, counters, and states of sequences, in one JSON
file.

    {"rows": [{"key": "<hexadecimal>", "kind": "Table", "value": {...}},                    a schema object
              {"key": "...", "sequence": "public.s", "last_value": 33, "is_called": true},  a sequence's state
              {"key": "...", "bytes": "<hexadecimal>"}]}                                    anything else

A value that cannot be restored exactly from its readable form is stored as bytes. The file contains the password
verifiers of the catalog, so protect a checkpoint like the data directory.

This is pg_default's file. Another tablespace has no catalog, but its rows need one. So its file contains the schema
objects of the moment of the checkpoint, for readers of the tables and for index entries. They are not restored, and
roles are not included.

    {"tablespace": <OID>, "schema": [{"key": "...", "kind": "Table", "value": {...}}, ...], "rows": []}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from catalog import rows as system_rows
from catalog import schema
from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import DEFAULT_TABLESPACE_OID, Database, Role, SchemaObject, Table
from engine.checkpoint.exact import OpenTable
from engine.checkpoint.manifest import damage_error
from engine.storage.keys import PREFIX_BYTES
from engine.txn.sequences import decode_state, encode_state

Pairs = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class TableName:
    database: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


class System:
    """The schema objects, and the storage ids of one tablespace (OID)."""

    def __init__(self, objects: Iterable[SchemaObject], tablespace: int = DEFAULT_TABLESPACE_OID) -> None:
        self.objects: Mapping[int, SchemaObject] = {item.oid: item for item in objects}
        self.tablespace = tablespace
        kinds = self.objects.values()
        self.tables: dict[int, Table] = {
            item.storage_id: item for item in kinds if isinstance(item, Table) and item.tablespace == tablespace
        }
        here = {table.oid for table in self.tables.values()}
        self.indexes = frozenset(
            item.storage_id for item in kinds if isinstance(item, schema.Index) and item.table in here
        )
        self.sequences: dict[int, schema.Sequence] = {
            item.storage_id: item for item in kinds if isinstance(item, schema.Sequence)
        }
        self._catalogs: dict[int, Catalog] = {}

    @classmethod
    def of_rows(cls, pairs: Iterable[tuple[bytes, bytes]], tablespace: int = DEFAULT_TABLESPACE_OID) -> System:
        """Makes a System from rows of the system tables. Other pairs are ignored."""
        found = [system_rows.decode(key, value) for key, value in pairs if key[:4] in system_rows.SYSTEM_PREFIXES]
        return cls(found, tablespace)

    def holds(self, storage_id: int) -> bool:
        """Whether keys of this storage id belong in this file."""
        return storage_id < system_rows.FIRST_USER_STORAGE or storage_id in self.sequences

    def name_of(self, table: Table) -> TableName:
        found = self._schema_of(table)
        return TableName(self._database_name(found), "" if found is None else found.name, table.name)

    def _schema_of(self, item: Table | schema.Sequence) -> schema.Schema | None:
        found = self.objects.get(item.schema)
        return found if isinstance(found, schema.Schema) else None

    def _database_name(self, found: schema.Schema | None) -> str:
        database = None if found is None else self.objects.get(found.database)
        return database.name if isinstance(database, Database) else ""

    def catalog_of(self, table: Table) -> Catalog:
        """The catalog of the table's database."""
        found = self._schema_of(table)
        database = found.database if found is not None else schema.POSTGRES_DATABASE_OID
        catalog = self._catalogs.get(database)
        if catalog is None:
            catalog = self._catalogs[database] = Catalog(database=database).with_changes(self.objects)
        return catalog

    def open_table(self, table: Table) -> OpenTable:
        """The conversion of the table's rows to columns. It needs the table's catalog, which defines the user-defined
        types."""
        self.catalog_of(table)
        return OpenTable(table)

    # --- the file ------------------------------------------------------------------------------------------------

    def encode(self, pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
        """The file for these pairs."""
        content: dict[str, Any] = {"rows": [self._row(key, value) for key, value in pairs]}
        if self.tablespace != DEFAULT_TABLESPACE_OID:
            told = (item for item in self.objects.values() if not isinstance(item, Role))
            rows = [self._row(system_rows.object_key(item), system_rows.encode(item)) for item in told]
            content = {"tablespace": self.tablespace, "schema": rows, **content}
        return orjson.dumps(content, option=orjson.OPT_INDENT_2)

    def _row(self, key: bytes, value: bytes) -> dict[str, Any]:
        row: dict[str, Any] = {"key": key.hex()}
        sequence = self.sequences.get(int.from_bytes(key[:PREFIX_BYTES], "big"))
        if sequence is not None and len(key) == PREFIX_BYTES:
            last, is_called = decode_state(value)
            found = self._schema_of(sequence)
            name = sequence.name if found is None else f"{found.name}.{sequence.name}"
            row |= {"sequence": name, "last_value": last, "is_called": is_called}
        elif key[:PREFIX_BYTES] in system_rows.SYSTEM_PREFIXES:
            kind = system_rows.KINDS[int.from_bytes(key[:PREFIX_BYTES], "big")]
            row |= {"kind": kind.__name__, "value": orjson.loads(value[len(system_rows.FORMAT) :])}
        if _value(row) != value:
            row = {"key": key.hex(), "bytes": value.hex()}
        return row


def decode(data: bytes) -> tuple[System, Pairs]:
    """The schema objects and the pairs in such a file. Raises XX001."""
    try:
        content = orjson.loads(data)
        tablespace = content.get("tablespace", DEFAULT_TABLESPACE_OID)
        told, pairs = _pairs(content.get("schema", ())), _pairs(content["rows"])
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise damage_error("its catalog cannot be read") from error
    return System.of_rows([*told, *pairs], tablespace), pairs


def _pairs(rows: Iterable[Mapping[str, Any]]) -> Pairs:
    found = []
    for row in rows:
        value = _value(row)
        if value is None:
            raise SqlError("XX001", "checkpoint has catalog rows that this release cannot read")
        found.append((bytes.fromhex(row["key"]), value))
    return found


def _value(row: Mapping[str, Any]) -> bytes | None:
    if "bytes" in row:
        return bytes.fromhex(row["bytes"])
    if "last_value" in row:
        return encode_state(row["last_value"], row["is_called"])
    if "value" in row:
        return system_rows.FORMAT + orjson.dumps(row["value"])
    return None
