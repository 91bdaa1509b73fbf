"""Composite types: rows whose fields have names and types. Internal form: a tuple of the fields' internal forms.

The text form is that of record_in and record_out, the binary form that of record_recv and record_send (PostgreSQL 16
manual, 8.16). The stored form consists of the fields' stored forms, each after its length, so that it does not depend
on labels of enums.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from catalog.errors import SqlError
from catalog.types.base import DEFAULT_FORMAT, FormatSettings, SqlType, Storage, TypeRef
from catalog.types.incomparable import has_equality, has_order, row_key
from catalog.types.pseudo import record_binary_encoder, record_text_encoder
from catalog.types.registry import format_type, lookup
from catalog.types.texts import WHITESPACE, read_part

_LENGTH = struct.Struct("<i")
_FIELD = struct.Struct(">Ii")
_COUNT = struct.Struct(">i")
_STABLE_OIDS = 10000  # smaller OIDs are the same in every database, so only these are checked


def _malformed_error(text: str, detail: str) -> SqlError:
    return SqlError("22P02", f'malformed record literal: "{text}"', detail=detail)


def read_fields(text: str, count: int) -> list[str | None]:
    """Returns the texts of a row's fields, such as '(1,"a b",)', None for NULL. Raises 22P02."""
    at = len(text) - len(text.lstrip(WHITESPACE))
    if not text.startswith("(", at):
        raise _malformed_error(text, "Missing left parenthesis.")
    at += 1
    found: list[str | None] = []
    for number in range(count):
        if number:
            if not text.startswith(",", at):
                raise _malformed_error(text, "Too few columns.")
            at += 1
        value, at = read_part(text, at, ",)", _malformed_error)
        found.append(value)
    if not text.startswith(")", at):
        raise _malformed_error(text, "Too many columns.")
    if text[at + 1 :].strip(WHITESPACE):
        raise _malformed_error(text, "Junk after right parenthesis.")
    return found


class CompositeType(SqlType):
    """One composite type. `fields`: (name, type), in order."""

    category = "C"
    preferred = False
    length = -1

    def __init__(self, oid: int, array_oid: int, name: str, fields: Sequence[tuple[str, TypeRef]]) -> None:
        self.oid = oid
        self.array_oid = array_oid
        self.name = self.sql_name = name
        self.fields = tuple(fields)
        self.storage = Storage(None, self._store, self._load)
        self._storages: tuple[Storage, ...] | None = None

    @property
    def types(self) -> tuple[SqlType, ...]:
        """The current types of the fields; user-defined types can change."""
        return tuple(lookup(reference.oid) for _, reference in self.fields)

    @property
    def _declared_oids(self) -> tuple[int, ...]:
        """The OIDs of the fields' types in the binary form: for a domain, that of the domain."""
        return tuple(reference.declared for _, reference in self.fields)

    @property
    def storages(self) -> tuple[Storage, ...]:
        """The storage of the fields, which never changes."""
        if self._storages is None:
            self._storages = tuple(known.storage for known in self.types)
        return self._storages

    # ---- text and binary ----

    def input_function(self, settings: FormatSettings = DEFAULT_FORMAT, typmod: int = -1) -> Callable[[str], object]:
        decoders = [
            known.input_function(settings, reference.typmod)
            for known, (_, reference) in zip(self.types, self.fields, strict=True)
        ]

        def decode(text: str) -> object:
            fields = read_fields(text, len(decoders))
            return tuple(
                [
                    None if item is None else decode_item(item)
                    for decode_item, item in zip(decoders, fields, strict=True)
                ]
            )

        return decode

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        return record_text_encoder(self.types, settings)

    def receive_function(self, typmod: int = -1) -> Callable[[bytes], object]:
        declared = self._declared_oids
        decoders = [
            known.receive_function(reference.typmod)
            for known, (_, reference) in zip(self.types, self.fields, strict=True)
        ]

        def decode(data: bytes) -> object:
            try:
                (count,) = _COUNT.unpack_from(data)
                if count != len(declared):
                    raise SqlError("42804", f"wrong number of columns: {count}, expected {len(declared)}")
                at = _COUNT.size
                values: list[object] = []
                for wanted, decode_item in zip(declared, decoders, strict=True):
                    oid, length = _FIELD.unpack_from(data, at)
                    at += _FIELD.size
                    if oid != wanted and max(oid, wanted) < _STABLE_OIDS:
                        raise SqlError("42804", _wrong_type(oid, wanted, len(values) + 1))
                    if length == -1:
                        values.append(None)
                        continue
                    if length < -1 or at + length > len(data):
                        raise SqlError("22P03", "insufficient data left in message")
                    values.append(decode_item(data[at : at + length]))
                    at += length
            except struct.error:
                raise SqlError("08P01", "insufficient data left in message") from None
            if at != len(data):
                raise SqlError("22P03", "incorrect binary data format")
            return tuple(values)

        return decode

    def binary_encoder(self) -> Callable[[Any], bytes]:
        return record_binary_encoder(self.types, self._declared_oids)

    # ---- stored ----

    def _store(self, value: Any) -> bytes:
        parts = []
        for storage, item in zip(self.storages, value, strict=True):
            if item is None:
                parts.append(_LENGTH.pack(-1))
                continue
            stored = storage.to_storage(item) if storage.to_storage is not None else item
            code = storage.struct_code
            data = stored if code is None or code == "16s" else struct.pack("<" + code, stored)
            assert isinstance(data, bytes)
            parts.append(_LENGTH.pack(len(data)) + data)
        return b"".join(parts)

    def _load(self, data: Any) -> object:
        values: list[object] = []
        at = 0
        for storage in self.storages:
            (length,) = _LENGTH.unpack_from(data, at)
            at += _LENGTH.size
            if length < 0:
                values.append(None)
                continue
            code = storage.struct_code
            stored: Any = bytes(data[at : at + length])
            if code is not None and code != "16s":
                (stored,) = struct.unpack("<" + code, stored)
            values.append(storage.from_storage(stored) if storage.from_storage is not None else stored)
            at += length
        return tuple(values)

    # ---- order ----

    def sort_key(self) -> Callable[[Any], object]:
        """Compares field by field; NULL is the greatest value and equal to NULL."""
        return row_key(self.types, equality=not has_order(self) and has_equality(self))

    def equality_key(self) -> Callable[[Any], object]:
        return row_key(self.types, equality=True)

    def key_encoder(self) -> Callable[[Any], bytes] | None:
        encoders = [known.key_encoder() for known in self.types]
        if None in encoders:
            return None

        def encode(value: Any) -> bytes:
            return b"".join(
                [
                    b"\x02" if item is None else b"\x01" + make(item)  # type: ignore[misc]
                    for make, item in zip(encoders, value, strict=True)
                ]
            )

        return encode

    def duckdb_type(self, typmod: int = -1) -> str:
        return "VARCHAR"


def _wrong_type(oid: int, wanted: int, column: int) -> str:
    found = f"binary data has type {oid} ({format_type(oid)})"
    return f"{found} instead of expected {wanted} ({format_type(wanted)}) in record column {column}"
