"""Storage keys: the keys of rows and index entries.

    row          storage id (4 bytes, big-endian), then each key column in its type's order-preserving bytes
    row without  storage id, then the hidden row number as an int8 key
    a primary key
    index entry  the index's storage id, then for each column 0x01 + its bytes, or 0x02 for NULL (NULLs sort last), then
                 the row's key without storage id, unless the index is unique and no column is NULL (or NULLs are not
                 distinct). The entry's value is the row's key without storage id.

LMDB takes keys of at most 511 bytes. Of a longer one the first 495 bytes are kept and the rest is replaced by its
BLAKE2b-128 hash, so a key of 511 bytes is a cut one: still unique and findable, no longer in order beyond its head. The
row holds all columns in full.

Encoders are made once. Where all columns are integers or dates an encoder is a single `struct` call: the sign is
flipped by adding a bias (`Columns.key` in catalog/types/base.py). Whole Arrow columns are encoded by NumPy and Arrow,
value by value only for other types.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import SqlError
from catalog.types import Layout, columns_of, lookup, oids
from catalog.types.base import TypeRef
from engine.storage.columns import Column, Numbers, column_form, one_array, pack_slices, to_values

MAX_KEY_BYTES = 511
HASH_BYTES = 16
KEPT_KEY_BYTES = MAX_KEY_BYTES - HASH_BYTES
PREFIX_BYTES = 4
NULL = b"\2"
NOT_NULL = b"\1"

_ROW_NUMBER = struct.Struct(">IQ")
_ROW_NUMBER_BIAS = 1 << 63


def storage_prefix(storage_id: int) -> bytes:
    """The common beginning of all keys of a table or index."""
    return storage_id.to_bytes(PREFIX_BYTES, "big")


def successor(prefix: bytes) -> bytes:
    """The first key after all that begin with `prefix`: the end of a range. Not for a prefix of 0xFF bytes only."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes((head[-1] + 1,))


def prefix_range(prefix: bytes) -> tuple[bytes, bytes]:
    """(low, high): the keys that begin with `prefix` are those in [low, high)."""
    return prefix, successor(prefix)


def fit_key(key: bytes) -> bytes:
    """The key as it is stored: cut if it is too long."""
    if len(key) < MAX_KEY_BYTES:
        return key
    return key[:KEPT_KEY_BYTES] + blake2b(key[KEPT_KEY_BYTES:], digest_size=HASH_BYTES).digest()


def row_number_key(storage_id: int, number: int) -> bytes:
    """The key of a row of a table without a primary key."""
    return _ROW_NUMBER.pack(storage_id, number + _ROW_NUMBER_BIAS)


def row_number_of(key: bytes) -> int:
    """The hidden row number in such a key."""
    return int.from_bytes(key[PREFIX_BYTES:], "big") - _ROW_NUMBER_BIAS


def _key_encoder(type_ref: TypeRef) -> Callable[[object], bytes]:
    sql_type = lookup(type_ref.oid)
    encode = sql_type.key_encoder()
    if encode is None:
        raise SqlError(
            "42704", f'data type {sql_type.sql_name} has no default operator class for access method "btree"'
        )
    return encode


def _fixed_width(type_ref: TypeRef) -> bool:
    return lookup(type_ref.oid).storage.is_fixed


def row_key_encoder(storage_id: int, types: Sequence[TypeRef]) -> Callable[[Sequence[object]], bytes]:
    """Makes the encoder of a primary key: its columns' values, in key order and none None -> the row's key.

    42704 for a type without btree order. Values must be within their type.
    """
    codes = [key for type_ref in types if (key := columns_of(type_ref.oid).key) is not None]
    if len(codes) == len(types):
        terms = ", ".join(f"v[{i}] + {bias}" if bias else f"v[{i}]" for i, (_, bias) in enumerate(codes))
        pack = struct.Struct(">I" + "".join(code for code, _ in codes)).pack
        return _maker(f"lambda pack, storage_id: lambda v: pack(storage_id, {terms})")(pack, storage_id)
    names = [f"e{i}" for i in range(len(types))]
    joined = " + ".join(("prefix", *(f"e{i}(v[{i}])" for i in range(len(types)))))
    if not all(map(_fixed_width, types)):
        joined = f"fit({joined})"
    make = _maker(f"lambda prefix, fit, {', '.join(names)}: lambda v: {joined}")
    return make(storage_prefix(storage_id), fit_key, *map(_key_encoder, types))


def index_entry_encoder(
    storage_id: int, types: Sequence[TypeRef], unique: bool, nulls_not_distinct: bool = False
) -> Callable[[Sequence[object], bytes], bytes]:
    """Makes the encoder of an index's entries: (values of its columns, key of the row) -> the entry's key.

    The entry's value is `row_key[PREFIX_BYTES:]`. 42704 for a type without btree order.
    """
    names: dict[str, object] = {f"e{i}": _key_encoder(type_ref) for i, type_ref in enumerate(types)}
    parts = [f"({NULL!r} if v[{i}] is None else {NOT_NULL!r} + e{i}(v[{i}]))" for i in range(len(types))]
    tail = f"r[{PREFIX_BYTES}:]"
    if unique and nulls_not_distinct:
        tail = ""
    elif unique:
        tail = f"({tail} if {' or '.join(f'v[{i}] is None' for i in range(len(types)))} else b'')"
    joined = " + ".join(filter(None, (repr(storage_prefix(storage_id)), *parts, tail)))
    return _compile(f"lambda v, r: fit({joined})", {**names, "fit": fit_key})


@lru_cache(512)
def _maker(source: str) -> Callable[..., Callable[[Sequence[object]], bytes]]:
    """Binds an encoder to its table. Keys of the same types share one: planning needs an encoder for each look-up, and
    compiling costs forty times as much as binding."""
    return cast(Callable[..., Callable[[Sequence[object]], bytes]], eval(source))


def _compile(source: str, names: dict[str, object]) -> Callable[..., bytes]:
    return cast(Callable[..., bytes], eval(source, names))


# --- whole columns -------------------------------------------------------------------------------------------------


def encode_row_numbers(storage_id: int, first: int, count: int) -> Column:
    """The keys of `count` rows numbered from `first` on, as a binary array."""
    return row_number_keys(storage_id, np.arange(first, first + count, dtype=np.int64))


def row_number_keys(storage_id: int, numbers: Numbers) -> Column:
    """The keys of rows with these hidden row numbers (int64), as a binary array."""
    matrix = np.empty((len(numbers), PREFIX_BYTES + 8), np.uint8)
    matrix[:, :PREFIX_BYTES] = np.frombuffer(storage_prefix(storage_id), np.uint8)
    matrix[:, PREFIX_BYTES:] = _big_endian(numbers.astype(np.uint64) + np.uint64(_ROW_NUMBER_BIAS))
    return binary_from_matrix(matrix)


def encode_keys(storage_id: int, types: Sequence[TypeRef], columns: Sequence[Any]) -> Column:
    """The keys of rows whose key columns are given as Arrow columns (DuckDB's types, no NULLs): a binary array."""
    arrays = [one_array(column) for column in columns]
    pieces = [_pieces(type_ref, array) for type_ref, array in zip(types, arrays, strict=True)]
    return _assemble(storage_prefix(storage_id), pieces, len(arrays[0]))


def encode_index_entries(
    storage_id: int,
    types: Sequence[TypeRef],
    columns: Sequence[Any],
    row_keys: Column,
    unique: bool,
    nulls_not_distinct: bool = False,
) -> tuple[Column, Column]:
    """The keys and values of index entries for whole columns (NULLs allowed) and the keys of their rows."""
    arrays = [one_array(column) for column in columns]
    places = without_prefix(row_keys)
    if any(array.null_count for array in arrays):
        encode = index_entry_encoder(storage_id, types, unique, nulls_not_distinct)
        values = [to_values(array, type_ref.oid) for array, type_ref in zip(arrays, types, strict=True)]
        keys = map(encode, zip(*values, strict=True), row_keys.to_pylist())
        return pa.array(keys, pa.binary()), places
    pieces: list[Any] = []
    for type_ref, array in zip(types, arrays, strict=True):
        pieces += [NOT_NULL, _pieces(type_ref, array)]
    if not unique:
        pieces.append(places)
    return _assemble(storage_prefix(storage_id), pieces, len(row_keys)), places


def without_prefix(row_keys: Column) -> Column:
    """The keys without their storage id, which are the values of index entries."""
    offsets = numbers_of_offsets(row_keys).astype(np.int64)
    data = np.frombuffer(row_keys.buffers()[2], np.uint8)
    return pack_slices(data, offsets[:-1] + PREFIX_BYTES, offsets[1:])


def _pieces(type_ref: TypeRef, column: Column) -> Any:
    """A column's key bytes: a matrix of n x width bytes, or a binary array."""
    oid = type_ref.oid
    form = column_form(oid)
    columns = lookup(oid).columns
    if columns.key is not None:
        assert form.numbers_in is not None
        code, bias = columns.key
        unsigned = {"H": np.uint16, "I": np.uint32, "Q": np.uint64}[code]
        return _big_endian(form.numbers_in(column).astype(unsigned) + unsigned(bias))
    if columns.layout is Layout.FIXED_BYTES:
        assert form.numbers_in is not None
        return form.numbers_in(column).view(np.uint8).reshape(len(column), 16)
    if oid in oids.COLLATABLE:
        text = column.cast(pa.string()) if column.type != pa.string() else column
        if oid == oids.BPCHAR:
            text = pc.utf8_rtrim(text, " ")
        return pc.binary_join_element_wise(text.view(pa.binary()), pa.scalar(b"", pa.binary()), b"\0")
    encode = _key_encoder(type_ref)
    return pa.array(list(map(encode, to_values(column, oid))), pa.binary())


def _big_endian(numbers: Numbers) -> Numbers:
    return numbers.astype(numbers.dtype.newbyteorder(">")).view(np.uint8).reshape(len(numbers), numbers.dtype.itemsize)


def _assemble(prefix: bytes, pieces: Sequence[Any], count: int) -> Column:
    """Joins constants, matrices and binary arrays, row by row; cuts keys that are too long."""
    runs: list[Any] = []  # adjacent matrices and constants become one matrix
    pending: list[Any] = [prefix]
    for piece in pieces:
        if isinstance(piece, pa.Array):
            if pending:
                runs.append(_side_by_side(pending, count))
                pending = []
            runs.append(piece)
        else:
            pending.append(piece)
    if pending:
        runs.append(_side_by_side(pending, count))
    if len(runs) == 1:
        return binary_from_matrix(runs[0])
    arrays = [run if isinstance(run, pa.Array) else binary_from_matrix(run) for run in runs]
    keys = pc.binary_join_element_wise(*arrays, b"")
    lengths = pc.binary_length(keys)
    if count and pc.max(lengths).as_py() >= MAX_KEY_BYTES:
        keys = pa.array(map(fit_key, keys.to_pylist()), pa.binary())
    return keys


def _side_by_side(parts: Sequence[Any], count: int) -> Numbers:
    """An n x width matrix of constants (bytes) and matrices."""
    widths = [len(part) if isinstance(part, bytes) else part.shape[1] for part in parts]
    matrix = np.empty((count, sum(widths)), np.uint8)
    start = 0
    for part, width in zip(parts, widths, strict=True):
        matrix[:, start : start + width] = np.frombuffer(part, np.uint8) if isinstance(part, bytes) else part
        start += width
    return matrix


def binary_from_matrix(matrix: Numbers) -> Column:
    """Rows of bytes of one width as a binary array."""
    count, width = matrix.shape
    offsets = np.arange(0, width * count + 1, width, dtype=np.int32) if width else np.zeros(count + 1, np.int32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(matrix)])


def row_numbers_of(keys: Column) -> Numbers:
    """The hidden row numbers in a binary array of such keys, as int64."""
    first = int(numbers_of_offsets(keys)[0])
    matrix = np.frombuffer(keys.buffers()[2], np.uint8, len(keys) * 12, first).reshape(len(keys), 12)
    unsigned = np.ascontiguousarray(matrix[:, PREFIX_BYTES:]).view(">u8").reshape(-1).astype(np.uint64)
    return (unsigned - np.uint64(_ROW_NUMBER_BIAS)).astype(np.int64)


def numbers_of_offsets(column: Column) -> Numbers:
    """The n + 1 offsets of a binary or string array."""
    return np.frombuffer(column.buffers()[1], "<i4", len(column) + 1, column.offset * 4)
