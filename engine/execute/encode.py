"""DataRow messages straight from columns: the last step of a row plan, written into its function.

A DataRow is 'D', its length, the number of columns, then each column's length and bytes, -1 for NULL (PostgreSQL 16
manual, 55.7). Encoders are made once per plan and formats. Columns that cannot be NULL are not tested; integers, text
and booleans are encoded in place; types of one binary length share a constant for it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from catalog.types import lookup
from catalog.types.base import FormatSettings
from catalog.types.oids import RECORD, RECORD_ARRAY
from engine.execute.code import Code
from engine.execute.expressions import Value
from engine.execute.python_sides import named_codec
from engine.execute.records import Levels, known_type
from engine.sql import tree

_INTEGERS = frozenset((20, 21, 23, 26))
_TEXTS = frozenset((19, 25, 1043))
_BINARY_INTEGERS = {21: struct.Struct(">ih"), 23: struct.Struct(">ii"), 20: struct.Struct(">iq")}
_NULL = b"\xff\xff\xff\xff"

pack_length = struct.Struct(">i").pack
pack_head = struct.Struct(">BIH").pack  # 'D', length, columns
pack_one = struct.Struct(">BIHi").pack  # the same with the length of the only column


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
        source = self._message(values)
        self.code.line(f"return {source}, 1" if self.single else f"{self.out}.append({source})")

    def _message(self, values: Sequence[Value]) -> str:
        code = self.code
        if len(values) == 1 and not values[0].nullable and not self._fused(0):
            name = code.temporary("e")
            code.line(f"{name} = {self._encoded(0, values[0].source)}")
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

    def _fused(self, position: int) -> bool:
        return self.types[position].oid == 16 or (
            self.formats[position] == 1 and self.types[position].oid in _BINARY_INTEGERS
        )

    def _column(self, position: int, value: Value) -> list[str]:
        """The sources of the pieces of one column: its length and its bytes."""
        source = value.source
        if value.nullable and not value.atom:
            name = self.code.temporary()
            self.code.line(f"{name} = {source}")
            source = name
        if self._fused(position):
            whole = self._fused_column(position, source)
            return [f"({_NULL!r} if {source} is None else {whole})" if value.nullable else whole]
        name = self.code.temporary("e")
        whole = f"pack_length(len({name} := {self._encoded(position, source)}))"
        return [f"({_NULL!r} if {source} is None else {whole} + {name})"] if value.nullable else [whole, name]

    def _fused_column(self, position: int, source: str) -> str:
        oid = self.types[position].oid
        if oid == 16:
            true, false = (b"\x01", b"\x00") if self.formats[position] else (b"t", b"f")
            return f"({(pack_length(1) + true)!r} if {source} else {(pack_length(1) + false)!r})"
        layout = _BINARY_INTEGERS[oid]
        return f"{self.code.constant(layout.pack, 'pack')}({layout.size - 4}, {source})"

    def _encoded(self, position: int, source: str) -> str:
        oid = self.types[position].oid
        if oid in _TEXTS:
            return f"{source}.encode()"
        binary = self.formats[position] == 1
        if oid in (RECORD, RECORD_ARRAY):
            known = known_type(self.outputs[position], self.levels)
            encode = known.binary_encoder() if binary else known.text_encoder(self.settings)
        elif binary:
            encode = lookup(oid).binary_encoder()
        elif oid in _INTEGERS:
            return f'(b"%d" % {source})'
        elif (shown := named_codec(oid, "out")) is not None:
            return f"{self.code.constant(shown, 'shown')}(context.call, {source}).encode()"
        else:
            encode = lookup(oid).text_encoder(self.settings)
        return f"{self.code.constant(encode, 'encode')}({source})"
