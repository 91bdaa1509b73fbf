"""Constraints over pairs of rows that are checked after rows are written: EXCLUDE, and UNIQUE or PRIMARY KEY that is
DEFERRABLE. (The index of any other unique key enforces it, see writer.py.)

Such an index does not enforce the constraint: it may contain two conflicting rows for a while. So its entries are those
of a plain one, and a table with a deferrable primary key is keyed by its hidden row number. When a row has been written

    not deferrable       after each row of an UPDATE; at the end of an INSERT or COPY, which is equivalent
    deferrable           at the end of the statement, if it is immediate; at COMMIT or SET CONSTRAINTS, if it is
                         deferred (deferred.py keeps the row's key)

the row's *group* is locked: the values of the columns that are compared by =, or the whole constraint if there are
none. So of two transactions that write into one group the second one waits, and then sees the result of the first one.
Rows of the group are found in the index if all columns are compared by =, otherwise by reading the table once for all
rows of the statement. A transaction that has changed a conflicting row is waited for, because it may delete it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from catalog import collations
from catalog.errors import SqlError
from catalog.functions.registry import function, operator
from catalog.schema import Constraint
from catalog.types import lookup
from catalog.types.base import TypeRef
from catalog.types.range import Range, RangeType
from engine.execute.index_expressions import predicate_of, value_getter
from engine.execute.python_sides import comparison
from engine.execute.shown import constraint_error, shown_key
from engine.storage.keys import KEPT_KEY_BYTES, index_entry_encoder, prefix_range, storage_prefix
from engine.txn.interface import UPDATE, Transaction

if TYPE_CHECKING:
    from engine.execute.writer import Checks, Row, TableWriter

Values = tuple[object, ...]
Members = dict[bytes, Values]  # the rows of one group: their values in the index by their keys
Pair = tuple[Values, Values]


def exclusions_of(writer: TableWriter) -> list[Exclusion]:
    """The constraints of the writer's table that this module checks, in order."""
    found = [Exclusion(writer, constraint) for constraint in writer.table.constraints if constraint.late]
    return sorted(found, key=lambda item: item.constraint.initially_deferred)


class Exclusion:
    """One constraint, as of one catalog."""

    def __init__(self, writer: TableWriter, constraint: Constraint) -> None:
        assert constraint.index is not None
        self.writer = writer
        self.constraint = constraint
        self.index = writer.catalog.index(constraint.index)
        self.values = value_getter(writer.catalog, writer.table, self.index)
        self._included = predicate_of(writer.catalog, writer.table, self.index)
        self.columns = frozenset(item.number for item in self.index.columns if item.number)
        self._on_expressions = self.index.predicate is not None or any(not item.number for item in self.index.columns)
        types = collations.key_types(writer.catalog, self.index)
        names = [operator(oid).name for oid in constraint.operators] or ["="] * len(types)
        self._equal = [place for place, name in enumerate(names) if name == "=" and _has_key(types[place])]
        self._others = [
            (place, _compared_by(constraint.operators[place], types[place]))
            for place in range(len(types))
            if place not in self._equal
        ]
        self._name = index_entry_encoder(self.index.storage_id, [types[place] for place in self._equal], True, True)
        self._overlap = self._ranges(names, types)

    def _ranges(self, names: Sequence[str], types: Sequence[TypeRef]) -> tuple[int, RangeType] | None:
        """The only column that is not compared by =, if it is of ranges that must not overlap."""
        if len(self._others) != 1:
            return None
        place = self._others[0][0]
        type_ = lookup(types[place].oid)
        return (place, type_) if names[place] == "&&" and isinstance(type_, RangeType) else None

    def touched_by(self, changed: frozenset[int]) -> bool:
        """Whether a change of these columns may affect it."""
        return self._on_expressions or not self.columns.isdisjoint(changed)

    def is_changed(self, old: Row, new: Row) -> bool:
        """Whether a row's values in the constraint are others now. If not, no new conflict can be its own."""
        return self.part_of(old) != self.part_of(new)

    # ---- time of the check ------------------------------------------------------------------------------------------

    def on_inserted(self, transaction: Transaction, key: bytes, checks: Checks | None) -> None:
        """After a new row was written."""
        if checks is None:
            self.finish(transaction, (key,))
        else:
            checks.look_at(transaction, self, key)

    def on_updated(self, transaction: Transaction, key: bytes, checks: Checks | None) -> None:
        """After a row was changed."""
        if checks is None or not self.constraint.deferrable:
            self.finish(transaction, (key,))
        else:
            checks.look_at(transaction, self, key)

    def finish(self, transaction: Transaction, keys: Iterable[bytes]) -> None:
        """At the end of a statement: checks the rows with these keys, or defers them."""
        deferral = transaction.deferral() if self.constraint.deferrable else None
        if deferral is not None and deferral.defers(self.constraint):
            for key in keys:
                deferral.add(self.writer.table, self.constraint, False, (key,))
            return
        self.check(transaction, keys)

    # ---- the check --------------------------------------------------------------------------------------------------

    def check(self, transaction: Transaction, keys: Iterable[bytes]) -> None:
        """Raises 23505 or 23P01 if one of the rows, if it still exists, conflicts with another; LockWait."""
        groups: dict[bytes, list[bytes]] = {}
        for key in keys:
            found = self._row(transaction, key)
            if found is not None:
                groups.setdefault(self.group(found), []).append(key)
        for name, rows in self._members(transaction, groups):
            if (conflict := self.conflict(rows, groups[name])) is not None:
                key, other = conflict
                transaction.wait_for_writer(other)
                raise self._violation(rows[key], rows[other])

    def in_the_way(self, transaction: Transaction, row: Row) -> bytes | None:
        """The key of a row with which a new one would conflict. Raises LockWait."""
        values = self.part_of(row)
        if values is None:
            return None
        for _, rows in self._members(transaction, (self.group(values),)):
            for other, others in rows.items():
                if self._excludes(values, others):
                    transaction.wait_for_writer(other)
                    return other
        return None

    def _members(self, transaction: Transaction, groups: Collection[bytes]) -> Iterator[tuple[bytes, Members]]:
        """The rows of groups, each of which is locked."""
        for name in groups:
            transaction.lock(name, UPDATE)
        found = self._by_index if not self._others and self.index.is_tree else self._by_reading
        return found(transaction, groups)

    def _excludes(self, values: Values, others: Values) -> bool:
        """Whether two rows of a group conflict."""
        return all(compare(values[place], others[place]) for place, compare in self._others)

    def _row(self, transaction: Transaction, key: bytes) -> Values | None:
        """The values of a row in the constraint."""
        stored = transaction.newest(key)
        return None if stored is None else self.part_of(self.writer.decode(stored))

    def part_of(self, row: Row) -> Values | None:
        """A row's values in the index; None if the condition or a NULL excludes it."""
        if self._included is not None and not self._included(row):
            return None
        values = self.values(row)
        return None if None in values and not self.index.nulls_not_distinct else values

    def group(self, values: Values) -> bytes:
        """The identity of a row's group: the same bytes for rows that are equal in the columns compared by =."""
        return self._name([values[place] for place in self._equal], b"")

    def _by_index(self, transaction: Transaction, groups: Collection[bytes]) -> Iterator[tuple[bytes, Members]]:
        table = storage_prefix(self.writer.table.storage_id)
        for name in groups:
            rows: Members = {}
            for _, place in transaction.scan_newest(*prefix_range(name[:KEPT_KEY_BYTES])):
                values = self._row(transaction, table + place)
                if values is not None and self.group(values) == name:
                    rows[table + place] = values
            yield name, rows

    def _by_reading(self, transaction: Transaction, groups: Collection[bytes]) -> Iterator[tuple[bytes, Members]]:
        if not groups:
            return
        found: dict[bytes, Members] = {name: {} for name in groups}
        decode = self.writer.decode
        for key, stored in transaction.scan_newest(*prefix_range(storage_prefix(self.writer.table.storage_id))):
            values = self.part_of(decode(stored))
            if values is not None and (members := found.get(self.group(values))) is not None:
                members[key] = values
        yield from found.items()

    def conflict(self, members: Members, keys: Sequence[bytes]) -> tuple[bytes, bytes] | None:
        """The first key whose row conflicts with an earlier row of the group, and the key of the earlier row."""
        if len(members) < 2 or self._lie_apart(members.values()):
            return None
        later = set(keys)
        for key in keys:
            values = members.get(key)
            if values is None:
                continue
            later.discard(key)
            for other, others in members.items():
                if other != key and other not in later and self._excludes(values, others):
                    return key, other
        return None

    def _lie_apart(self, rows: Iterable[Values]) -> bool:
        """Whether ranges are known not to overlap: in order, each begins after all earlier ones have ended."""
        if self._overlap is None:
            return False
        place, type_ = self._overlap
        last = None
        ranges = [cast(Range, row[place]) for row in rows]
        for lower, upper in sorted(type_.ends(item) for item in ranges if not item.empty):
            if last is not None and lower <= last:
                return False
            last = upper
        return True

    # ---- errors -----------------------------------------------------------------------------------------------------

    def _violation(self, values: Values, other: Values) -> SqlError:
        key = self.writer.index_key_text(self.index.columns, values)
        if self.constraint.kind != "x":
            message = f'duplicate key value violates unique constraint "{self.constraint.name}"'
            return self._error(message, f"{key} already exists.", None)
        message = f'conflicting key value violates exclusion constraint "{self.constraint.name}"'
        shown = self.writer.index_key_text(self.index.columns, other)
        detail = f"{key} conflicts with existing {shown[0].lower()}{shown[1:]}."
        return self._error(message, detail, "Key conflicts with existing key.")

    def not_built(self, values: Values, other: Values) -> SqlError:
        """The error of rows that existed before the constraint (23505, 23P01)."""
        key = self.writer.index_key_text(self.index.columns, values)
        if self.constraint.kind != "x":
            message = f'could not create unique index "{self.constraint.name}"'
            return self._error(message, f"{key} is duplicated.", None)
        shown = self.writer.index_key_text(self.index.columns, other)
        message = f'could not create exclusion constraint "{self.constraint.name}"'
        return self._error(message, f"{key} conflicts with {shown[0].lower()}{shown[1:]}.", "Key conflicts exist.")

    def _error(self, message: str, detail: str, hidden: str | None) -> SqlError:
        sqlstate = "23P01" if self.constraint.kind == "x" else "23505"
        table = self.writer.table
        shown = shown_key(table, [column.number for column in self.index.columns], detail, hidden)
        return constraint_error(sqlstate, message, self.writer.catalog, table, self.constraint.name, shown)


def _has_key(type_: TypeRef) -> bool:
    return lookup(type_.oid).key_encoder() is not None


def _compared_by(oid: int, type_: TypeRef) -> Callable[[object, object], object]:
    return comparison(function(operator(oid).function), type_, type_)
