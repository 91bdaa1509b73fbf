"""What a checkpoint keeps beside tables: the catalog's rows, the counters, and where sequences stand, in one JSON file.

    {"rows": [{"key": "<hexadecimal>", "kind": "Table", "value": {...}},                    a schema object
              {"key": "...", "sequence": "public.s", "last_value": 33, "is_called": true},  a sequence's state
              {"key": "...", "bytes": "<hexadecimal>"}]}                                    anything else

Whatever does not come back bit by bit from its readable form is kept as bytes. Passwords are in it as the verifiers
that the catalog holds: guard a checkpoint like the data directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from catalog import rows as system_rows
from catalog import schema
from catalog.errors import SqlError
from catalog.schema import Catalog, Database, SchemaObject, Table
from engine.checkpoint.manifest import damaged
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
    """The schema objects of a tablespace, by what their keys lie under."""

    def __init__(self, objects: Iterable[SchemaObject]) -> None:
        self.objects: Mapping[int, SchemaObject] = {item.oid: item for item in objects}
        kinds = self.objects.values()
        self.tables: dict[int, Table] = {item.storage_id: item for item in kinds if isinstance(item, Table)}
        self.indexes = frozenset(item.storage_id for item in kinds if isinstance(item, schema.Index))
        self.sequences: dict[int, schema.Sequence] = {
            item.storage_id: item for item in kinds if isinstance(item, schema.Sequence)
        }
        self._catalogs: dict[int, Catalog] = {}

    @classmethod
    def of_rows(cls, pairs: Iterable[tuple[bytes, bytes]]) -> System:
        """From the rows of the system tables; others among the pairs are passed over."""
        return cls(system_rows.decode(key, value) for key, value in pairs if key[:4] in system_rows.SYSTEM_PREFIXES)

    def holds(self, storage_id: int) -> bool:
        """Whether keys of this storage id belong into this file."""
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

    # --- the file ------------------------------------------------------------------------------------------------

    def encode(self, pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
        """The file that keeps these pairs."""
        rows = [self._row(key, value) for key, value in pairs]
        return orjson.dumps({"rows": rows}, option=orjson.OPT_INDENT_2)

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


def decode(data: bytes) -> Pairs:
    """The pairs of such a file. Raises XX001."""
    try:
        pairs = [(bytes.fromhex(row["key"]), _value(row)) for row in orjson.loads(data)["rows"]]
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise damaged("its catalog cannot be read") from error
    if any(value is None for _, value in pairs):
        raise SqlError("XX001", "checkpoint has catalog rows that this release cannot read")
    return [(key, value) for key, value in pairs if value is not None]


def _value(row: Mapping[str, Any]) -> bytes | None:
    if "bytes" in row:
        return bytes.fromhex(row["bytes"])
    if "last_value" in row:
        return encode_state(row["last_value"], row["is_called"])
    if "value" in row:
        return system_rows.FORMAT + orjson.dumps(row["value"])
    return None
