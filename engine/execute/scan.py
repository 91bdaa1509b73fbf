"""The code that visits the rows of an access path: key bytes, get or scan, and the loops around them.

    a point        key = PREFIX + encode(p1); value = get(key); if value is not None: ...
    a range        for key, value in scan(low, high): ...
    an index       the same over its entries, whose values are the rows' keys; then a get of each row

Every visited row of a loop is counted in the local `n`, and at the limit the plan stops with `RowPathFull`. A loop that
reads a whole table in any case gets its rows at once (`few`), and does not count. Storage cuts keys that are too long
and replaces their tail by a hash (engine/storage, 'Keys'). So a longer bound is cut too, and includes keys that share
its head (the condition itself stays a filter). A scan whose *order* matters stops at such a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, islice

from catalog.functions.patterns import beginning
from catalog.memory import LARGE, meter
from catalog.types import lookup
from catalog.types.base import Array, TypeRef
from catalog.types.integer import BITS
from engine.execute.access import Access, Condition, fixed_size
from engine.execute.code import Code, LineUse, NotOnRowPath
from engine.execute.context import RowPathFull
from engine.execute.expressions import ExpressionCompiler
from engine.execute.index_forms import KeyColumn
from engine.execute.measured import write_stored_row
from engine.sql import tree
from engine.storage.keys import (
    KEPT_KEY_BYTES,
    MAX_KEY_BYTES,
    NOT_NULL,
    NULL,
    fit_key,
    row_key_encoder,
    storage_prefix,
    successor,
)

FULL_SCAN_LIMIT = 512  # rows that scans of whole tables visit before the columnar path is better
RANGE_LIMIT = 4096  # the same if keys or indexes restrict the rows
LOCKING_LIMIT = 100_000  # the same for rows to be locked, which the columnar path cannot do: some 0.1 s


@dataclass(frozen=True, slots=True)
class RowNames:
    """The locals of a row."""

    key: str
    value: str


COUNTER = "n"  # of the rows that a plan has visited


class ScanWriter:
    """Writes the loops of access paths into a function that has the locals `get`, `scan` and `counter` ('': all rows of
    a table are needed, so they are counted before the first is read). `outermost`: no loop is around."""

    def __init__(
        self, code: Code, expressions: ExpressionCompiler, limit: int, counter: str = COUNTER, outermost: bool = False
    ) -> None:
        self.code = code
        self._outermost = outermost
        self.expressions = expressions
        code.names["RowPathFull"] = RowPathFull
        self._limit = limit
        self._counter = counter

    def write(
        self,
        access: Access,
        names: RowNames,
        body: Callable[[], None],
        reverse: bool = False,
        ordered: bool = False,
        apart: str = "",
    ) -> None:
        """Writes code that runs `body` for every row of the path, its key and value under `names`.

        `ordered`: the body relies on the rows coming in key order. `apart`: see ScanOrder.
        """
        depth = self.code.depth
        cut = cuts_order(access, ordered)
        if access.index is None:
            self._write_table(access, names, body, reverse, cut)
        else:
            self._write_index(access, names, body, reverse, cut, apart)
        self.code.dedent_to(depth)

    def _count(self) -> None:
        self.code.line(f"{self._counter} += 1", LineUse.COUNT if self._counter == COUNTER else LineUse.NOTHING)
        self.code.write_limit(self._counter, self._limit)

    def _refuse_cut_keys(self, key: str) -> None:
        self.code.line(f"if len({key}) >= {MAX_KEY_BYTES}: raise RowPathFull")

    def _write_table(self, access: Access, names: RowNames, body: Callable[[], None], reverse: bool, cut: bool) -> None:
        code = self.code
        if access.cursor is not None:
            table = code.constant(access.table, "table")
            variable = access.cursor.variable
            name = repr(access.cursor.cursor) if variable is None else self.expressions.value(variable).source
            code.line(f"{names.key} = context.call.session.current_row({name}, {table})")
            code.line(f"{names.value} = get({names.key})", LineUse.GET)
            code.indent(f"if {names.value} is not None:")
        elif access.single:
            encode = row_key_encoder(access.table.storage_id, [column.type for column in access.columns])
            operands = ""
            for step, column in zip(access.steps, access.columns, strict=True):
                assert step.operand is not None
                operands += f"{self._test(step.operand, column)}, "
            code.line(f"{names.key} = {code.constant(encode, 'row_key')}(({operands}))")
            code.line(f"{names.value} = get({names.key})", LineUse.GET)
            code.indent(f"if {names.value} is not None:")
        else:
            prefix = self._steps(access, storage_prefix(access.table.storage_id), b"", reverse)
            low, high = self._bounds(access, prefix, b"")
            rows = f"scan({low}, {high}{', True' if reverse else ''})"
            if not self._counter:
                rows = f"{code.constant(few, 'few')}({rows}, {self._limit})"
            code.indent(f"for {names.key}, {names.value} in {rows}:", LineUse.SCAN)
            if self._counter:
                self._count()
            if cut:
                self._refuse_cut_keys(names.key)
        self._write_row(access, names, body)

    def _write_index(
        self, access: Access, names: RowNames, body: Callable[[], None], reverse: bool, cut: bool, apart: str
    ) -> None:
        code = self.code
        assert access.index is not None
        prefix = self._steps(access, storage_prefix(access.index.storage_id), b"\x01", reverse)
        rows = code.name_value(storage_prefix(access.table.storage_id), "rows")
        entry = code.temporary("entry")
        if access.single:
            code.line(f"{entry} = get({self._fit(prefix, access)})", LineUse.GET)
            code.indent(f"if {entry} is not None:")
            code.line(f"{names.key} = {rows} + {entry}")
        else:
            found = self._scans(access, prefix, reverse, apart)
            place = code.temporary("place")
            code.indent(f"for {place}, {entry} in {found}:", LineUse.SCAN)
            self._count()
            if cut:
                self._refuse_cut_keys(place)
            code.line(f"{names.key} = {rows} + {entry}")
        code.line(f"{names.value} = get({names.key})", LineUse.GET)
        code.indent(f"if {names.value} is not None:")
        self._write_row(access, names, body)

    def _scans(self, access: Access, prefix: str, reverse: bool, apart: str) -> str:
        """The source of the entries of a path."""
        backward = ", True" if reverse else ""
        if not apart:
            low, high = self._bounds(access, prefix, NOT_NULL)
            return f"scan({low}, {high}{backward})"
        low, high = self._whole(access, prefix)
        if access.steps and self._variable_steps(access):
            self.code.line(f"if len({low}) >= {KEPT_KEY_BYTES}: raise RowPathFull")
        ends = [f"{low} + {NOT_NULL!r}", f"{low} + {NULL!r}", high]
        values, nulls = (f"scan({ends[at]}, {ends[at + 1]}{backward})" for at in (0, 1))
        self.code.names["chain"] = chain
        return f"chain({nulls}, {values})" if apart == "first" else f"chain({values}, {nulls})"

    def _write_row(self, access: Access, names: RowNames, body: Callable[[], None]) -> None:
        if access.single and self._outermost:
            body()
        else:
            write_stored_row(self.code, names.value, body)

    # ---- key bytes --------------------------------------------------------------------------------------------------

    def _steps(self, access: Access, prefix: bytes, mark: bytes, reverse: bool) -> str:
        """The source of the common beginning of all keys of the path. Opens the tests and loops that it needs."""
        parts: list[str | bytes] = [prefix]
        for step, column in zip(access.steps, access.columns, strict=False):
            if step.kind == "null":
                parts.append(b"\x02")
                continue
            parts.append(mark)
            if step.kind == "in":
                parts.append(self._members(step, column, reverse))
            else:
                assert step.operand is not None
                parts.append(self._encode(self._test(step.operand, column), column))
        return self._join(parts)

    def _join(self, parts: Iterable[str | bytes]) -> str:
        sources: list[str] = []
        pending = b""
        for part in parts:
            if isinstance(part, bytes):
                pending += part
                continue
            if pending:
                sources.append(self.code.name_value(pending, "prefix"))
                pending = b""
            sources.append(part)
        if pending:
            sources.append(self.code.name_value(pending, "prefix"))
        return " + ".join(sources)

    def _test(self, operand: tree.Expr, column: KeyColumn) -> str:
        """Opens a test that the operand is not NULL and within the column's type; returns its local name."""
        source, value = self.expressions.bind_name(operand)
        tests = [f"{source} is not None"] if value.nullable else []
        if not tests and source != value.source:
            self.code.line(source)
        bits = narrower(column.type, operand.type)
        if bits:
            tests.append(f"{-(1 << bits)} <= {value.source} < {1 << bits}")
        if tests:
            self.code.indent(f"if {' and '.join(tests)}:")
        return value.source

    def _encode(self, source: str, column: KeyColumn) -> str:
        encode = lookup(column.type.oid).key_encoder()
        return f"{self.code.constant(encode, 'key')}({source})"

    def _members(self, step: Condition, column: KeyColumn, reverse: bool) -> str:
        """Opens a loop over the distinct members of an IN list, in key order; returns the name of a member's bytes."""
        assert step.operand is not None
        encode = lookup(column.type.oid).key_encoder()
        assert encode is not None
        known = step.operand.value if isinstance(step.operand, tree.Const) else None
        if isinstance(known, Array) and len(known.elements) > self._limit:
            raise NotOnRowPath("so many look-ups")
        element = step.operand.element_type if isinstance(step.operand, tree.ArrayExpr) else None
        bits = BITS.get(column.type.oid, 0) if element != column.type else 0
        array = self.expressions.value(step.operand)
        members = self.code.constant(member_keys(encode, bits, reverse, self._limit), "members")
        name = self.code.temporary("member")
        self.code.indent(f"for {name} in {members}({array.source}):")
        return name

    def _fit(self, source: str, access: Access) -> str:
        """A whole key, cut as in storage if it may be too long."""
        if all(fixed_size(column.type) for column in access.columns):
            return source
        return f"{self.code.constant(fit_key, 'fit_key')}({source})"

    def _bounds(self, access: Access, prefix: str, mark: bytes) -> tuple[str, str]:
        """The sources of the lowest key to scan and of the first one after the end."""
        code = self.code
        if access.lower is None and access.upper is None:
            return self._whole(access, prefix)
        column = access.columns[len(access.steps)]
        base = code.temporary("base")
        code.line(f"{base} = {prefix}" + (f" + {mark!r}" if mark else ""))
        if self._variable_steps(access) and access.steps:
            code.line(f"if len({base}) > {KEPT_KEY_BYTES}: raise RowPathFull")
        after = code.constant(successor, "successor")
        low, high = base, f"{after}({base})"
        cut = "" if fixed_size(column.type) and not self._variable_steps(access) else f"[:{KEPT_KEY_BYTES}]"
        lower, upper = access.lower, access.upper
        if lower is not None and lower is upper:
            return self._beginning(base, lower)
        if lower is not None:
            low = self._bind(base, lower, column, cut, start=True)
        if upper is not None and upper.kind != "not null":
            high = self._bind(base, upper, column, cut, start=False)
        return low, high

    def _bind(self, base: str, condition: Condition, column: KeyColumn, cut: str, start: bool) -> str:
        """One end of a range. A bound beyond the column's type is either no bound or makes the range empty."""
        assert condition.operand is not None
        after = self.code.constant(successor, "successor")
        source, value = self.expressions.bind_name(condition.operand)
        tests = [f"{source} is not None"] if value.nullable else []
        if not tests and source != value.source:
            self.code.line(source)
        bits = narrower(column.type, condition.operand.type)
        name = value.source
        if tests:
            self.code.indent(f"if {' and '.join(tests)}:")
        inclusive = condition.kind in (">=", "<=")
        if bits:
            name = self.code.temporary("bound")
            low, high = -(1 << bits), (1 << bits) - 1
            if start:
                self.code.line(f"{name} = max({value.source}{'' if inclusive else ' + 1'}, {low})")
                self.code.indent(f"if {name} <= {high}:")
            else:
                self.code.line(f"{name} = min({value.source}{'' if inclusive else ' - 1'}, {high})")
                self.code.indent(f"if {name} >= {low}:")
            inclusive = True
        key = f"{base} + {self._encode(name, column)}"
        if cut:
            # A cut bound is a prefix of keys on both sides of it: include them all, the filter decides.
            exact = self.code.temporary("exact")
            self.code.line(f"{exact} = {key}")
            plain = exact if inclusive == start else f"{after}({exact})"
            loose = f"{exact}{cut}" if start else f"{after}({exact}{cut})"
            return f"({plain} if len({exact}) <= {KEPT_KEY_BYTES} else {loose})"
        return key if inclusive == start else f"{after}({key})"

    def _beginning(self, base: str, condition: Condition) -> tuple[str, str]:
        """The ends of the range of texts that begin as a pattern of LIKE does."""
        assert condition.operand is not None
        source, value = self.expressions.bind_name(condition.operand)
        if value.nullable:
            self.code.indent(f"if {source} is not None:")
        elif source != value.source:
            self.code.line(source)
        begun = self.code.temporary("begun")
        beginning_of = self.code.constant(beginning, "beginning")
        self.code.line(f"{begun} = ({base} + {beginning_of}({value.source}).encode())[:{KEPT_KEY_BYTES}]")
        return begun, f"{self.code.constant(successor, 'successor')}({begun})"

    def _variable_steps(self, access: Access) -> bool:
        return any(not fixed_size(column.type) for column in access.columns)

    def _whole(self, access: Access, prefix: str) -> tuple[str, str]:
        code = self.code
        after = code.constant(successor, "successor")
        if not access.steps:
            storage_id = access.table.storage_id if access.index is None else access.index.storage_id
            low = storage_prefix(storage_id)
            return code.name_value(low, "first"), code.name_value(successor(low), "last")
        base = code.temporary("base")
        code.line(f"{base} = {prefix}")
        if self._variable_steps(access):
            # Two members that are cut alike would give rows twice.
            if access.exact or any(step.kind == "in" for step in access.steps):
                code.line(f"if len({base}) > {KEPT_KEY_BYTES}: raise RowPathFull")
            code.line(f"{base} = {base}[:{KEPT_KEY_BYTES}]")
        return base, f"{after}({base})"


def cuts_order(access: Access, ordered: bool) -> bool:
    """Whether the order of the path matters and a cut key would be out of order."""
    return ordered and any(not fixed_size(column.type) for column in access.columns)


def few(rows: Iterable[tuple[bytes, bytes]], limit: int) -> list[tuple[bytes, bytes]]:
    """The rows, if they are few. Raises RowPathFull, 53200."""
    found = []
    for row in islice(rows, limit + 1):
        found.append(row)
        if len(row[1]) > LARGE:
            meter().stored_row(len(row[1]))
    if len(found) > limit:
        raise RowPathFull
    return found


def member_keys(
    encode: Callable[[object], bytes], bits: int, reverse: bool, limit: int
) -> Callable[[Array | None], list[bytes]]:
    """A function from an array to the key bytes of its distinct members, in the order of the scan. It raises
    RowPathFull for more than `limit` members: each is a look-up.

    With `bits`, integers outside a signed integer of that many bits and a sign are left out.
    """

    def keys(array: Array | None) -> list[bytes]:
        if array is None:
            return []
        if len(array.elements) > limit:
            raise RowPathFull
        members = [item for item in array.elements if item is not None]
        if bits:
            members = [item for item in members if -(1 << bits) <= item < 1 << bits]  # type: ignore[operator]
        return sorted({encode(item) for item in members}, reverse=reverse)

    return keys


def narrower(column: TypeRef, operand: TypeRef) -> int:
    """Bits of the column's integer type where the operand's may not fit into it, else 0."""
    if column.oid == operand.oid:
        return 0
    bits = BITS.get(column.oid, 0)
    return bits if bits < BITS.get(operand.oid, 0) else 0
