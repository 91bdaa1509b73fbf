"""Stored rows: one row at a time. Whole columns are in engine/storage/row_batches.py.

    0  layout version   u16
    2  null bitmap      1 bit a column of the layout, bit 0 of byte 0 first; set for NULL
       fixed columns    in layout order, `Storage.struct_code`; zeros for NULL
       end offsets      u32 for each variable column, from the start of the heap; nothing between ends is unused
       heap             the variable columns' bytes, in layout order

All little-endian without padding. Every column is in the row, key columns too.

Decoders and encoders are Python functions written for the table: a row without NULLs of the newest layout is one
`struct` call, slices, and conversions of columns whose stored form differs from the internal form. Rows of older
layouts are decoded to the current columns: columns added since have their `missing` value, dropped ones are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from catalog.errors import SqlError
from catalog.schema import Column, Layout, Table
from catalog.types import lookup
from catalog.types.base import Storage
from engine.storage.columns import whole_form
from engine.storage.row_batches import RowBatches

VERSION_BYTES = 2


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """The place of a column in a layout: the byte offset of a fixed one, or the ordinal among variable ones."""

    index: int  # position in the layout, and of its bit in the null bitmap
    number: int
    oid: int
    storage: Storage
    place: int


class RowShape:
    """The arithmetic of one layout."""

    def __init__(self, layout: Layout) -> None:
        self.version = layout.version
        self.bitmap_bytes = (len(layout.columns) + 7) // 8
        at = VERSION_BYTES + self.bitmap_bytes
        ordinal = 0
        self.columns: list[StoredColumn] = []
        for index, (number, type_ref) in enumerate(zip(layout.columns, layout.types, strict=True)):
            storage = lookup(type_ref.oid).storage
            if storage.struct_code is not None:
                self.columns.append(StoredColumn(index, number, type_ref.oid, storage, at))
                at += struct.calcsize("<" + storage.struct_code)
            else:
                self.columns.append(StoredColumn(index, number, type_ref.oid, storage, ordinal))
                ordinal += 1
        self.ends_at = at
        self.heap_at = at + 4 * ordinal
        self.by_number = {column.number: column for column in self.columns}
        self.fixed = [column for column in self.columns if column.storage.is_fixed]
        self.variable = [column for column in self.columns if not column.storage.is_fixed]

    @property
    def header_format(self) -> str:
        """The struct format of everything before the heap; the bitmap is an int if it is one byte, else bytes."""
        bits = "B" if self.bitmap_bytes == 1 else f"{self.bitmap_bytes}s"
        codes = "".join(str(column.storage.struct_code) for column in self.fixed)
        return f"<H{bits}{codes}{len(self.variable)}I"

    @property
    def no_nulls(self) -> int | bytes:
        return 0 if self.bitmap_bytes == 1 else bytes(self.bitmap_bytes)

    def null_test(self, column: StoredColumn) -> str:
        """Source of a test that the column is NULL, over the bitmap `bits`."""
        if self.bitmap_bytes == 1:
            return f"bits & {1 << column.index}"
        return f"bits[{column.index // 8}] & {1 << column.index % 8}"


CODECS_KEPT = 512
_codecs: dict[int, RowCodec] = {}


def codec_of(table: Table) -> RowCodec:
    """The codec of a table definition, cached: generating one takes half a millisecond, and planning needs it."""
    codec = _codecs.get(id(table))
    if codec is None or codec.table is not table:
        if len(_codecs) >= CODECS_KEPT:
            _codecs.clear()
        codec = _codecs[id(table)] = RowCodec(table)
    return codec


class RowCodec:
    """Rows of one table, in all its layouts. `table.layouts` is not empty; the last one is written."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.shapes = {layout.version: RowShape(layout) for layout in table.layouts}
        self.newest = self.shapes[table.layouts[-1].version]
        self._decoders: dict[int, Callable[[bytes], tuple[object, ...]]] = {}
        self._columns: dict[int, Callable[[bytes], Any]] = {}  # decode_column's, by attnum
        self.decode: Callable[[bytes], tuple[Any, ...]] = self._decoder(self.newest)
        """A stored row -> its values in internal form, in the order of `table.columns`. XX001 for no row of ours."""
        self.encode: Callable[[Sequence[object]], bytes] = self._encoder()
        """Values in internal form, in the order of `table.columns` -> the row in the newest layout."""

    @cached_property
    def batches(self) -> RowBatches:
        """Many rows at a time, as Arrow columns."""
        return RowBatches(self)

    @cached_property
    def whole_batches(self) -> RowBatches:
        """Many rows at a time, as Arrow columns; arrays of any shape as text."""
        return RowBatches(self, whole_form)

    def shape_of(self, version: int) -> RowShape:
        """Raises XX001 for a version that the table never had."""
        shape = self.shapes.get(version)
        if shape is None:
            raise SqlError("XX001", f'row of table "{self.table.name}" has unknown layout version {version}')
        return shape

    def missing(self, column: Column) -> object:
        """The value of the column in rows that were written before it was added."""
        if column.missing is None:
            return None
        return lookup(column.type.oid).text_decoder(typmod=column.type.typmod)(column.missing)

    # --- decoding ----------------------------------------------------------------------------------------------

    def _decode_other(self, row: bytes) -> tuple[object, ...]:
        version = int.from_bytes(row[:VERSION_BYTES], "little")
        decode = self._decoders.get(version)
        if decode is None:
            decode = self._decoders[version] = self._decoder(self.shape_of(version))
        return decode(row)

    def _decoder(self, shape: RowShape) -> Callable[[bytes], tuple[object, ...]]:
        names: dict[str, Any] = {"unpack": struct.Struct(shape.header_format).unpack_from, "other": self._decode_other}
        heads = [f"f{column.index}" for column in shape.fixed] + [f"e{column.index}" for column in shape.variable]
        plain = [self._value_source(shape, column, names, nullable=False) for column in self.table.columns]
        careful = [self._value_source(shape, column, names, nullable=True) for column in self.table.columns]
        lines = [
            "def decode(row):",
            *self._version_first(shape),
            f"    ({', '.join(['version', 'bits', *heads])},) = unpack(row)",
            f"    if version != {shape.version}: return other(row)",
            f"    if bits != {shape.no_nulls!r}: return ({_tuple(careful)})",
            f"    return ({_tuple(plain)})",
        ]
        exec("\n".join(lines), names)
        decode: Callable[[bytes], tuple[object, ...]] = names["decode"]
        return decode

    def _version_first(self, shape: RowShape) -> list[str]:
        """A row of another layout may be shorter than this one's head: with several layouts, check before unpacking.

        The test after unpacking stays for a layout that the table never had.
        """
        if len(self.shapes) == 1:
            return []
        return [
            f"    if row[:{VERSION_BYTES}] != {shape.version.to_bytes(VERSION_BYTES, 'little')!r}: return other(row)"
        ]

    def _value_source(self, shape: RowShape, column: Column, names: dict[str, Any], nullable: bool) -> str:
        stored = shape.by_number.get(column.number)
        if stored is None:
            names[f"m{column.number}"] = self.missing(column)
            return f"m{column.number}"
        if stored.storage.is_fixed:
            source = f"f{stored.index}"
        else:
            before = shape.variable[stored.place - 1].index if stored.place else None
            last = stored.place == len(shape.variable) - 1
            start = f"{shape.heap_at}" if before is None else f"{shape.heap_at} + e{before}"
            stop = "" if last else f"{shape.heap_at} + e{stored.index}"
            source = f"row[{start}:{stop}]"
        source = _conversion_source(source, stored, names)
        return f"(None if {shape.null_test(stored)} else {source})" if nullable else source

    def decode_column(self, number: int) -> Callable[[bytes], Any]:
        """A function from a stored row to one column's value: cheaper than `decode` for few columns of many."""
        known = self._columns.get(number)
        if known is not None:
            return known
        column = self.table.column_by_number(number)
        others: dict[int, Callable[[bytes], Any]] = {}

        def other(row: bytes) -> object:
            version = int.from_bytes(row[:VERSION_BYTES], "little")
            decode = others.get(version)
            if decode is None:
                decode = others[version] = self._column_decoder(self.shape_of(version), column, other)
            return decode(row)

        made = self._columns[number] = self._column_decoder(self.newest, column, other)
        return made

    def _column_decoder(
        self, shape: RowShape, column: Column, other: Callable[[bytes], object]
    ) -> Callable[[bytes], Any]:
        stored = shape.by_number.get(column.number)
        names: dict[str, Any] = {"other": other}
        if stored is None:
            names["missing"] = self.missing(column)
            names["unpack"] = struct.Struct("<H").unpack_from
            head, body = "(version,)", ["    return missing"]
        else:
            bit_at = VERSION_BYTES + stored.index // 8
            between = bit_at - VERSION_BYTES
            test = f"    if bits & {1 << stored.index % 8}: return None"
            if stored.storage.is_fixed:
                gap = stored.place - bit_at - 1
                names["unpack"] = struct.Struct(f"<H{between}xB{gap}x{stored.storage.struct_code}").unpack_from
                head, source = "(version, bits, value)", "value"
            elif stored.place == 0:
                names["unpack"] = struct.Struct(f"<H{between}xB{shape.ends_at - bit_at - 1}xI").unpack_from
                head, source = "(version, bits, end)", f"row[{shape.heap_at}:{shape.heap_at} + end]"
            else:
                gap = shape.ends_at + 4 * (stored.place - 1) - bit_at - 1
                names["unpack"] = struct.Struct(f"<H{between}xB{gap}xII").unpack_from
                head = "(version, bits, start, end)"
                source = f"row[{shape.heap_at} + start:{shape.heap_at} + end]"
            body = [test, f"    return {_conversion_source(source, stored, names)}"]
        lines = [
            "def decode(row):",
            *self._version_first(shape),
            f"    {head} = unpack(row)",
            f"    if version != {shape.version}: return other(row)",
            *body,
        ]
        exec("\n".join(lines), names)
        decode: Callable[[bytes], Any] = names["decode"]
        return decode

    # --- encoding ----------------------------------------------------------------------------------------------

    def _encoder(self) -> Callable[[Sequence[object]], bytes]:
        shape = self.newest
        names: dict[str, Any] = {"pack": struct.Struct(shape.header_format).pack}
        given = {column.number: f"v{column.number}" for column in self.table.columns}
        unpacked = "".join(f"v{column.number}, " for column in self.table.columns)
        present = [column for column in shape.columns if column.number in given]
        absent = sum(1 << column.index for column in shape.columns if column.number not in given)
        test = " or ".join(f"v{column.number} is None" for column in present) or "False"
        lines = ["def encode(values):", f"    ({unpacked}) = values"]
        if absent:
            lines += self._encode_source(shape, given, names, "    ", absent, nullable=True)
        else:
            lines.append(f"    if {test}:")
            lines += self._encode_source(shape, given, names, "        ", 0, nullable=True)
            lines += self._encode_source(shape, given, names, "    ", 0, nullable=False)
        exec("\n".join(lines), names)
        encode: Callable[[Sequence[object]], bytes] = names["encode"]
        return encode

    def _encode_source(
        self, shape: RowShape, given: dict[int, str], names: dict[str, Any], indent: str, absent: int, *, nullable: bool
    ) -> list[str]:
        lines = []
        fields: list[str] = []
        for column in shape.fixed:
            value = given.get(column.number)
            empty = repr(bytes(16)) if column.storage.struct_code == "16s" else "0"
            if value is None:
                fields.append(empty)
            elif nullable:
                fields.append(f"{empty} if {value} is None else {_stored_source(value, column, names)}")
            else:
                fields.append(_stored_source(value, column, names))
        heap = []
        end = ""
        for column in shape.variable:
            name, value = f"h{column.index}", given.get(column.number)
            source = "b''" if value is None else _stored_source(value, column, names)
            if nullable and value is not None:
                source = f"b'' if {value} is None else {source}"
            lines.append(f"{indent}{name} = {source}")
            lines.append(f"{indent}e{column.index} = {end}len({name})")
            end = f"e{column.index} + "
            fields.append(f"e{column.index}")
            heap.append(name)
        bits = repr(shape.no_nulls)
        if nullable:
            terms = [str(absent)] if absent else []
            terms += [
                f"({given[column.number]} is None) << {column.index}"
                for column in shape.columns
                if column.number in given
            ]
            bits = f"({' | '.join(terms) or 0})"
            if shape.bitmap_bytes > 1:
                bits += f".to_bytes({shape.bitmap_bytes}, 'little')"
        packed = f"pack({', '.join([str(shape.version), bits, *fields])})"
        lines.append(f"{indent}return {' + '.join([packed, *heap])}")
        return lines


def _tuple(sources: Sequence[str]) -> str:
    return "".join(f"{source}, " for source in sources)


def _conversion_source(source: str, column: StoredColumn, names: dict[str, Any]) -> str:
    """Source of the internal form of a stored value."""
    convert: Any = column.storage.from_storage
    if convert is None:
        return source
    if convert == bytes.decode and not column.storage.is_fixed:
        return f"{source}.decode()"
    names[f"from{column.index}"] = convert
    return f"from{column.index}({source})"


def _stored_source(source: str, column: StoredColumn, names: dict[str, Any]) -> str:
    """Source of the stored form of an internal value."""
    convert: Any = column.storage.to_storage
    if convert is None:
        return source
    if convert == str.encode:
        return f"{source}.encode()"
    names[f"to{column.index}"] = convert
    return f"to{column.index}({source})"
