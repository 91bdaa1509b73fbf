"""DataRow messages from columns: the last step of a row path plan, inlined into its function.

A DataRow is 'D', its length, the number of columns, then each column's length and bytes, -1 for NULL (PostgreSQL 16
manual, 55.7). Encoders are made once per plan and formats. Columns that cannot be NULL are not tested; integers, text
and booleans are encoded in place; types of one binary length share a constant for it.

In a plan that runs once, all results of these types share a function (`row_framer`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter

from catalog.schema import FIRST_USER_OID
from catalog.types import lookup
from catalog.types.base import FormatSettings, TypeRef
from catalog.types.oids import (
    BOOL,
    INT2,
    INT4,
    INT8,
    NAMED_ARRAY_TYPES,
    NAMED_TYPES,
    RECORDS,
    UNPADDED_TEXTS,
    WHOLE_NUMBERS,
)
from engine.execute.code import Code
from engine.execute.compiled_value import Value
from engine.execute.measured import write_kept
from engine.execute.python_sides import named_codec
from engine.execute.records import Levels, known_type, row_text_encoder
from engine.sql import tree

_OF_THE_CATALOG = NAMED_TYPES | NAMED_ARRAY_TYPES | RECORDS  # whose text depends on it
_BINARY_INTEGERS = {INT2: struct.Struct(">ih"), INT4: struct.Struct(">ii"), INT8: struct.Struct(">iq")}
_NULL = b"\xff\xff\xff\xff"

pack_length = struct.Struct(">i").pack
pack_head = struct.Struct(">BIH").pack  # 'D', length, columns
pack_one = struct.Struct(">BIHi").pack  # the same with the length of the only column


def _write_message(sink: FramedSink | DataRowSink, source: str) -> None:
    if sink.single:
        sink.code.line(f"return {source}, 1")
    else:
        sink.code.line(f"{sink.out}.append({source})")
        write_kept(sink.code, sink.out)


class FramedSink:
    """Passes each output row to `frame`, which makes its DataRow. `single` and the result: see DataRowSink."""

    def __init__(self, code: Code, frame: Callable[[Sequence[object]], bytes], single: bool) -> None:
        self.code = code
        self.single = single
        self.out = code.temporary("out")
        self.finish = 'b"", 0' if single else f'b"".join({self.out}), len({self.out})'
        self.frame = code.name_value(frame, "frame")

    def start(self) -> None:
        if not self.single:
            self.code.line(f"{self.out} = []")

    def row(self, values: Sequence[Value]) -> None:
        _write_message(self, f"{self.frame}({self._row(values)})")

    def _row(self, values: Sequence[Value]) -> str:
        """Source of the row. If it has only columns of decoded rows, they are picked out of these, so that the source
        does not depend on the columns."""
        places = [value.place for value in values if value.place is not None]
        if len(places) != len(values) or len(places) < 2:
            return f"({''.join(value.source + ', ' for value in values)})"
        starts: dict[str, int] = {}
        width = 0
        for row, columns, _ in sorted(set(places)):
            if row not in starts:
                starts[row] = width
                width += columns
        pick = itemgetter(*(starts[row] + place for row, _, place in places))
        return f"{self.code.name_value(pick, 'pick')}({' + '.join(starts)})"


def row_framer(
    oids: tuple[int, ...], formats: tuple[int, ...], settings: FormatSettings
) -> Callable[[Sequence[object]], bytes] | None:
    """A function from rows of these types to DataRows in these formats. None for types whose text depends on more than
    the settings: user-defined types, names of objects, records."""
    if any(oid >= FIRST_USER_OID or oid in _OF_THE_CATALOG for oid in oids):
        return None
    return _row_framer(oids, formats, settings)


@lru_cache(1024)
def _row_framer(
    oids: tuple[int, ...], formats: tuple[int, ...], settings: FormatSettings
) -> Callable[[Sequence[object]], bytes]:
    code = Code()
    values = [Value(f"c{position}", nullable=True, atom=True) for position in range(len(oids))]
    sink = DataRowSink(code, [tree.Const(None, TypeRef(oid)) for oid in oids], (), formats, settings, single=False)
    with code.block("def frame(row):"):
        if values:
            code.line(f"{', '.join(value.source for value in values)}, = row")
        code.line(f"return {sink.message(values)}")
    return code.finish("frame")


class DataRowSink:
    """Writes each output row as the bytes of a DataRow. `single`: there is at most one row, which is returned at once.

    The function returns (bytes, number of rows).
    """

    def __init__(
        self,
        code: Code,
        outputs: Sequence[tree.Expr],
        levels: Levels,
        formats: Sequence[int],
        settings: FormatSettings,
        single: bool,
    ) -> None:
        self.code = code
        self.types = [output.type for output in outputs]
        self.outputs = outputs
        self.levels = levels
        self.formats = formats
        self.settings = settings
        self.single = single
        self.out = code.temporary("out")
        self.finish = 'b"", 0' if single else f'b"".join({self.out}), len({self.out})'
        code.names.update(pack_length=pack_length, pack_head=pack_head, pack_one=pack_one)

    def start(self) -> None:
        if not self.single:
            self.code.line(f"{self.out} = []")

    def row(self, values: Sequence[Value]) -> None:
        _write_message(self, self.message(values))

    def message(self, values: Sequence[Value]) -> str:
        """Source of the DataRow of these values."""
        code = self.code
        if len(values) == 1 and not values[0].nullable and not self._is_fused(0):
            name = code.temporary("e")
            code.line(f"{name} = {self._encode(0, values[0].source)}")
            return f"pack_one(68, len({name}) + 10, 1, len({name})) + {name}"
        pieces = [piece for position, value in enumerate(values) for piece in self._column(position, value)]
        if not pieces:
            return "pack_head(68, 6, 0)"
        if len(pieces) == 1:
            body = pieces[0]
        else:
            body = f'b"".join(({", ".join(pieces)}))'
        name = code.temporary("body")
        code.line(f"{name} = {body}")
        return f"pack_head(68, len({name}) + 6, {len(values)}) + {name}"

    def _is_fused(self, position: int) -> bool:
        return self.types[position].oid == BOOL or (
            self.formats[position] == 1 and self.types[position].oid in _BINARY_INTEGERS
        )

    def _column(self, position: int, value: Value) -> list[str]:
        """The sources of the pieces of one column: its length and its bytes."""
        output = self.outputs[position]
        if isinstance(output, tree.Const) and output.value is None and output.type.oid in RECORDS:
            return [repr(_NULL)]  # nobody knows what its fields would be
        source = value.source
        if value.nullable and not value.atom:
            name = self.code.temporary()
            self.code.line(f"{name} = {source}")
            source = name
        if self._is_fused(position):
            whole = self._fused_column(position, source)
            return [f"({_NULL!r} if {source} is None else {whole})" if value.nullable else whole]
        name = self.code.temporary("e")
        whole = f"pack_length(len({name} := {self._encode(position, source)}))"
        return [f"({_NULL!r} if {source} is None else {whole} + {name})"] if value.nullable else [whole, name]

    def _fused_column(self, position: int, source: str) -> str:
        oid = self.types[position].oid
        if oid == BOOL:
            true, false = (b"\x01", b"\x00") if self.formats[position] else (b"t", b"f")
            return f"({(pack_length(1) + true)!r} if {source} else {(pack_length(1) + false)!r})"
        layout = _BINARY_INTEGERS[oid]
        return f"{self.code.constant(layout.pack, 'pack')}({layout.size - 4}, {source})"

    def _encode(self, position: int, source: str) -> str:
        oid = self.types[position].oid
        if oid in UNPADDED_TEXTS:
            return f"{source}.encode()"
        binary = self.formats[position] == 1
        if oid in RECORDS:
            row = self.outputs[position]
            encode = (
                known_type(row, self.levels).binary_encoder()
                if binary
                else row_text_encoder(row, self.levels, self.settings)
            )
        elif binary:
            encode = lookup(oid).binary_encoder()
        elif oid in WHOLE_NUMBERS:
            return f'(b"%d" % {source})'
        elif (shown := named_codec(oid, "out", self.settings)) is not None:
            return f"{self.code.constant(shown, 'shown')}(context.call, {source}).encode()"
        else:
            encode = lookup(oid).text_encoder(self.settings)
        return f"{self.code.constant(encode, 'encode')}({source})"
