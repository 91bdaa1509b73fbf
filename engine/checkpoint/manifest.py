"""The manifest: the list of a checkpoint's files. It is written last, so a folder without a manifest is not a
checkpoint.

    <root>/checkpoint-<lsn:020>/manifest.json
                               catalog-<attempt>.json
                               <database>.<schema>.<table>-<oid>/<number>-<attempt>.parquet
                                                                <number>-<attempt>.exact
                               other-<attempt>.parquet
                               partial-<bytes:020>-<attempt>.json      files of an interrupted attempt: write.py

The writer chooses `<attempt>`, so the files of an interrupted attempt are never mistaken for those of the next one, and
do not conflict with them. Names in the manifest are relative to the root. A checkpoint refers to files in folders of
older checkpoints for ranges of a table that have not changed. So a folder must not be deleted as a whole; `removable`
lists the files that may be deleted.

The manifest is a JSON object whose first field is the CRC32C (8 hexadecimal digits) of the JSON of the other fields.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import google_crc32c
import orjson

from catalog.errors import SqlError

FORMAT = 1
MANIFEST = "manifest.json"
_FOLDER = re.compile(r"checkpoint-([0-9]{20})\Z")
_UNSAFE = re.compile(r"[^a-zA-Z0-9_]")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a checkpoint."""

    name: str  # relative to the root
    bytes: int
    crc32c: str  # 8 hexadecimal digits


@dataclass(frozen=True, slots=True)
class RangeFile:
    """The rows of one range of a table's key order.

    The range reaches from its cut `low` ('' for the first range) to the cut of the next range. `first` and `last` are
    the lowest and highest key in it. All are storage keys without the storage id, in hexadecimal. `content` is the hash
    of the stored keys and rows (engine/checkpoint/exact.py). `exact`: the file of exceptions. `nulled`: the number of
    NULLs of a column for values that its Parquet type cannot hold.
    """

    file: StoredFile
    rows: int
    stored_bytes: int
    low: str
    first: str
    last: str
    content: str
    exact: StoredFile | None = None
    exact_rows: int = 0
    nulled: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnEntry:
    number: int
    name: str
    type: str  # as SQL writes it: 'numeric(12,2)'
    not_null: bool


@dataclass(frozen=True, slots=True)
class TableEntry:
    """`shape` identifies everything that decides how rows become columns. Files are shared between equal shapes
    only."""

    oid: int
    database: str
    schema: str
    name: str
    storage_id: int
    layout: int  # version of the row layout that rows are restored in where `exact` does not say otherwise
    shape: str
    columns: tuple[ColumnEntry, ...]
    key: tuple[str, ...]  # the primary key's columns; () where rows are in the order of a hidden number
    row_number: str  # the Parquet column with that number, '' for none
    persistence: str
    files: tuple[RangeFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A checkpoint: the exact state of a tablespace at `lsn`."""

    format: int
    tablespace: str  # id, 32 hexadecimal digits
    lsn: int
    entry_hash: str  # of the changelog entry at the LSN, hexadecimal
    commit_time: int  # of that entry, microseconds since 2000-01-01 UTC
    created: int  # microseconds since 2000-01-01 UTC
    folder: str  # relative to the root
    previous: int  # LSN of the checkpoint that it was made from, 0 for none
    catalog: StoredFile
    other: StoredFile | None  # keys of storage ids that no table or index of the catalog owns
    other_rows: int
    tables: tuple[TableEntry, ...]

    def files(self) -> Iterable[StoredFile]:
        """Every file except the manifest, including those in older folders."""
        yield self.catalog
        if self.other is not None:
            yield self.other
        for table in self.tables:
            for item in table.files:
                yield item.file
                if item.exact is not None:
                    yield item.exact

    def table_rows(self) -> int:
        return sum(table.rows for table in self.tables)

    def total_bytes(self) -> int:
        """The size of all files in bytes, including those in older folders."""
        return sum(file.bytes for file in self.files())

    def name(self) -> str:
        return manifest_name(self.folder)


def damage_error(what: str) -> SqlError:
    """XX001 for a damaged checkpoint."""
    return SqlError("XX001", f"checkpoint is damaged: {what}")


def folder_name(lsn: int) -> str:
    return f"checkpoint-{lsn:020}"


def manifest_name(folder: str) -> str:
    return f"{folder}/{MANIFEST}"


def partial_name(folder: str, written: int, attempt: str) -> str:
    """The name of a partial manifest. A later one with more content sorts after it."""
    return f"{folder}/partial-{written:020}-{attempt}.json"


def is_partial(name: str) -> bool:
    """Whether a name (relative to the root) is a partial manifest's."""
    return folder_lsn(name) is not None and name.partition("/")[2].startswith("partial-")


def folder_lsn(name: str) -> int | None:
    """The LSN of the checkpoint whose folder contains a file (name relative to the root); None for any other name."""
    match = _FOLDER.match(name.partition("/")[0])
    return int(match[1]) if match else None


def table_folder(database: str, schema: str, table: str, oid: int) -> str:
    """The folder of a table within a checkpoint's: readable, safe, and unique because it contains the OID."""
    safe = ".".join(_UNSAFE.sub("_", part)[:60] for part in (database, schema, table))
    return f"{safe}-{oid}"


def encode(manifest: Manifest) -> bytes:
    """The content of the manifest's file."""
    return seal(dataclasses.asdict(manifest))


def decode(data: bytes) -> Manifest:
    """Decodes a manifest. Raises XX001 for a damaged one, or one of a newer format."""
    try:
        version, right, found = unseal(data)
    except ValueError as error:
        raise damage_error("its manifest cannot be read") from error
    if version > FORMAT:
        raise SqlError("XX001", f"checkpoint has format {version}, this release reads up to {FORMAT}")
    if not right:
        raise damage_error("its manifest has another checksum")
    return typing.cast(Manifest, build(Manifest, found))


def seal(fields: dict[str, Any]) -> bytes:
    """A JSON object whose first field is the checksum of the rest; `fields` has a `format`."""
    body = _body(fields)
    return b'{\n  "crc32c": "' + _crc(body) + b'",' + body[1:] + b"\n"


def unseal(data: bytes) -> tuple[int, bool, dict[str, Any]]:
    """The format of such an object, whether its checksum matches, and its fields. Raises ValueError for anything
    else."""
    try:
        found = orjson.loads(data)
        crc = found.pop("crc32c")
        return int(found["format"]), _crc(_body(found)).decode() == crc, found
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("no sealed object") from error


def removable(dropped: Sequence[Manifest], kept: Iterable[Manifest]) -> list[str]:
    """The files that may be deleted when these checkpoints are removed, in the order of deletion.

    The manifests come first, so that no reader finds a checkpoint without its files. Files of a kept checkpoint are not
    included.
    """
    needed = {file.name for manifest in kept for file in manifest.files()}
    gone = dict.fromkeys(file.name for manifest in dropped for file in manifest.files() if file.name not in needed)
    return [manifest.name() for manifest in dropped] + list(gone)


def leftovers(names: Iterable[str], manifests: Sequence[Manifest], below: int) -> list[str]:
    """The names (of all files below the root) that interrupted attempts have left: files in folders of checkpoints
    below an LSN that no manifest refers to. At and above `below`, an attempt may be running."""
    needed = {file.name for manifest in manifests for file in manifest.files()}
    needed.update(manifest.name() for manifest in manifests)
    return [name for name in names if name not in needed and (lsn := folder_lsn(name)) is not None and lsn < below]


def _body(fields: dict[str, Any]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_INDENT_2)


def _crc(data: bytes) -> bytes:
    return b"%08x" % google_crc32c.value(data)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def build(kind: Any, value: Any) -> Any:
    """Converts JSON to the declared type. Unknown fields, of a later release with the same format, are ignored."""
    if value is None:
        return None
    if dataclasses.is_dataclass(kind):
        hints = _hints(typing.cast(type, kind))
        known = {name: build(hints[name], item) for name, item in value.items() if name in hints}
        return typing.cast(Any, kind)(**known)
    if typing.get_origin(kind) is tuple:
        arguments = typing.get_args(kind)
        if arguments[-1] is Ellipsis:
            return tuple(build(arguments[0], item) for item in value)
        return tuple(build(argument, item) for argument, item in zip(arguments, value, strict=True))
    inner = [argument for argument in typing.get_args(kind) if argument is not type(None)]
    return build(inner[0], value) if inner else value
