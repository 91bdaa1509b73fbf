"""Foreign keys: the check of a referencing row, and the actions when a referenced row is deleted or changed.

    insert or update of a referencing row    lock the referenced row FOR KEY SHARE, then check that it exists
    delete or key change of a referenced     find referencing rows, newest versions and not the snapshot's: any that
    row (which is locked FOR UPDATE)         was committed before our lock was granted counts
                                             NO ACTION, RESTRICT refuse; CASCADE, SET NULL, SET DEFAULT write them

Both sides read sequenced state, so the two locks leave no gap between them. Referencing rows are found by their table's
key or an index that begins with the foreign key's columns, otherwise by reading the table.

A foreign key that refers to a partitioned table applies to each of its partitions. The referenced key contains the
partition key, as every unique key does, so it determines the one partition in which its row can be. A row that an
UPDATE moves to another partition has changed its key, and does not count as deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial

from catalog.errors import SqlError, not_supported
from catalog.schema import Column, Constraint, Role, Table
from catalog.types import lookup
from catalog.types.base import TypeRef
from catalog.types.integer import fits
from engine.execute.code import NotOnRowPath
from engine.execute.context import ExecContext
from engine.execute.index_expressions import default_values, generated_values, row_checks
from engine.execute.shown import constraint_error, shown_key
from engine.execute.triggers import TableEvent, firing
from engine.execute.writer import Checks, Row, TableWriter, use_foreign_keys
from engine.partitions import key_copies
from engine.partitions.partition_writer import Moving
from engine.partitions.router import Router, column_numbers, key_column_numbers
from engine.sql.analyze import inner_environment
from engine.sql.analyze.rules import runnable_rules
from engine.sql.tree import PARTITION_CHECK
from engine.storage.keys import NOT_NULL, row_key_encoder, storage_prefix, successor
from engine.txn.interface import KEY_SHARE, READ_COMMITTED, UPDATE, LockWait, Transaction
from engine.txn.locks import ROW_EXCLUSIVE, ROW_SHARE


def outgoing(writer: TableWriter) -> list[Outgoing]:
    """The foreign keys of the writer's table."""
    return [Outgoing(writer, constraint) for constraint in writer.table.constraints if constraint.kind == "f"]


def incoming(writer: TableWriter) -> list[Incoming]:
    """The foreign keys of any table that refer to the writer's table, or to one that it is a partition of."""
    own = writer.table
    referenced = {table.oid: table for table in (own, *writer.catalog.partitioned_above(own))}
    return [
        Incoming(writer, table, _in_columns_of(own, referenced[constraint.references], constraint))
        for table in writer.catalog.tables()
        for constraint in table.constraints
        if constraint.kind == "f" and constraint.references in referenced
    ]


def _in_columns_of(table: Table, above: Table, constraint: Constraint) -> Constraint:
    """A foreign key that refers to a parent table, with the column numbers of a partition."""
    if table is above:
        return constraint
    numbers = column_numbers(above, table)
    return replace(constraint, referenced_columns=tuple(numbers[number] for number in constraint.referenced_columns))


class KeyFinder:
    """Finds the key of the row with given values in some columns of a unique key."""

    def __init__(self, writer: TableWriter, columns: Sequence[int]) -> None:
        self.table = writer.table
        self.columns = tuple(columns)
        self._oids = [self.table.column_by_number(number).type.oid for number in columns]
        self._find = self._by_primary_key() if set(columns) == set(self.table.key_columns) else self._by_index(writer)

    def __call__(self, transaction: Transaction, values: Sequence[object]) -> bytes | None:
        """The row's key. With a primary key it is returned even if the row does not exist; otherwise None."""
        if not all(map(fits, self._oids, values)):
            return None
        return self._find(transaction, values)

    def _by_primary_key(self) -> Callable[[Transaction, Sequence[object]], bytes | None]:
        order = [self.columns.index(number) for number in self.table.key_columns]
        types = [self.table.column_by_number(number).type for number in self.table.key_columns]
        encode = row_key_encoder(self.table.storage_id, types)
        return lambda _, values: encode([values[position] for position in order])

    def _by_index(self, writer: TableWriter) -> Callable[[Transaction, Sequence[object]], bytes | None]:
        for index in writer.indexes:
            if index.unique and not index.on_expressions and index.columns == frozenset(self.columns):
                break
        else:
            not_supported("a foreign key that refers to columns without a unique index")
        order = [self.columns.index(column.number) for column in index.index.columns]
        encode, prefix = index.encode, storage_prefix(self.table.storage_id)

        def find(transaction: Transaction, values: Sequence[object]) -> bytes | None:
            row = transaction.newest(encode([values[position] for position in order], b""))
            return None if row is None else prefix + row

        return find


class PartitionedKeyFinder:
    """`KeyFinder` of a partitioned table: the values determine the partition."""

    def __init__(self, writer: TableWriter, columns: Sequence[int]) -> None:
        self._writer = writer
        self._columns = tuple(columns)
        self._router = Router(writer.catalog, writer.table)
        self._oids = [writer.table.column_by_number(number).type.oid for number in columns]
        self._positions = [writer.positions[number] for number in columns]
        self._finders: dict[int, KeyFinder | None] = {}  # None: the partition is about to be detached

    def __call__(self, transaction: Transaction, values: Sequence[object]) -> bytes | None:
        """The row's key; None also if there is no partition for it. The partition is locked like its table."""
        if not all(map(fits, self._oids, values)):
            return None
        row: list[object] = [None] * len(self._writer.table.columns)
        for position, value in zip(self._positions, values, strict=True):
            row[position] = value
        leaf = self._router.find(tuple(row))
        if leaf is None:
            return None
        if leaf.oid not in self._finders:
            self._finders[leaf.oid] = self._finder(leaf)
        finder = self._finders[leaf.oid]
        if finder is None:
            return None
        transaction.lock_table(leaf.oid, ROW_SHARE)
        return finder(transaction, values)

    def _finder(self, leaf: Table) -> KeyFinder | None:
        catalog = self._writer.catalog
        if leaf.detaching or any(item.detaching for item in catalog.partitioned_above(leaf)):
            return None
        numbers = column_numbers(self._writer.table, leaf)
        return KeyFinder(TableWriter(catalog, leaf), [numbers[number] for number in self._columns])


def key_finder(writer: TableWriter, columns: Sequence[int]) -> KeyFinder | PartitionedKeyFinder:
    """A finder of rows of the writer's table by a unique key."""
    if writer.table.partitioning is not None:
        return PartitionedKeyFinder(writer, columns)
    return KeyFinder(writer, columns)


class Outgoing:
    """A foreign key as its own table sees it."""

    def __init__(self, writer: TableWriter, constraint: Constraint) -> None:
        self.writer = writer
        self.constraint = constraint
        self.columns = frozenset(constraint.columns)
        self._positions = [writer.positions[number] for number in constraint.columns]
        assert constraint.references is not None
        parent = writer.catalog.table(constraint.references)
        self.parent = writer if parent.oid == writer.table.oid else TableWriter(writer.catalog, parent)
        self._find = key_finder(self.parent, constraint.referenced_columns)
        self.removing = ""  # the message of a missing row while its partition is detached

    def check(self, transaction: Transaction, values: Row, now: bool = False) -> None:
        """Raises 23503 unless the referenced row exists; it stays locked FOR KEY SHARE. If the constraint is deferred,
        a missing key is deferred too, unless `now`. A replica checks nothing, unless `now`."""
        if transaction.is_replica and not now:
            return
        wanted = [values[position] for position in self._positions]
        if None in wanted:
            if self.constraint.match == "f" and any(value is not None for value in wanted):
                raise self._violation("MATCH FULL does not allow mixing of null and nonnull key values.")
            return
        deferred = transaction.deferral() if self.constraint.deferrable and not now else None
        if deferred is not None and not deferred.defers(self.constraint):
            deferred = None
        if self._lock_referenced(transaction, wanted):
            return
        if deferred is not None:
            deferred.add(self.writer.table, self.constraint, False, tuple(wanted))
            return
        raise self._missing(values)

    def _missing(self, values: Row) -> SqlError:
        """The error of a missing referenced row."""
        table, numbers, catalog = self.writer.table, self.constraint.columns, self.writer.catalog
        _, owner = key_copies.as_declared(catalog, self.constraint, table)
        rest = f'is not present in table "{self.parent.table.name}".'
        if self.removing:
            rest = f'is still referenced from table "{owner.name}".'
        detail = shown_key(table, numbers, f"{self.writer.key_text(numbers, values)} {rest}", f"Key {rest}")
        if self.removing:
            return constraint_error("23503", self.removing, catalog, owner, self.constraint.name, detail)
        return self._violation(detail)

    def _lock_referenced(self, transaction: Transaction, wanted: Sequence[object]) -> bool:
        """Locks the referenced row; returns whether it exists. A missing key is not locked: others may insert it. At
        REPEATABLE READ the row must be in the snapshot, and 40001 is raised if it was deleted since (ri_triggers.c)."""
        transaction.lock_table(self.parent.table.oid, ROW_SHARE)  # against bulk changes, which lock no rows
        if transaction.isolation != READ_COMMITTED:
            seen = _Seen(transaction)
            key = self._find(seen, wanted)  # type: ignore[arg-type]
            if key is None or seen.newest(key) is None:
                return False
            if transaction.newest(key) is None or self._find(transaction, wanted) != key:
                raise SqlError("40001", "could not serialize access due to concurrent update")
        else:
            key = self._find(transaction, wanted)
            if key is None or transaction.newest(key) is None:
                return False
        transaction.lock(key, KEY_SHARE)
        return True

    def check_key(self, transaction: Transaction, wanted: Sequence[object]) -> None:
        """A deferred check: 23503 if rows still refer to a key that is still missing."""
        if self._lock_referenced(transaction, wanted):
            return
        row = next(ChildTable(self.writer, self.constraint).rows(transaction, wanted), None)
        if row is not None:
            raise self._missing(row[1])

    def on_changed(self, transaction: Transaction, old: Row, new: Row) -> None:
        """The check after an update, if the referencing columns changed."""
        if any(old[position] != new[position] for position in self._positions):
            self.check(transaction, new)

    def _violation(self, detail: str) -> SqlError:
        table, name = self.writer.table, self.constraint.name
        message = f'insert or update on table "{table.name}" violates foreign key constraint "{name}"'
        return constraint_error("23503", message, self.writer.catalog, table, name, detail)


class _Seen:
    """A transaction whose snapshot has the newest versions."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.lock_table = transaction.lock_table

    def newest(self, key: bytes) -> bytes | None:
        transaction = self._transaction
        return transaction.newest(key) if transaction.has_written(key) else transaction.get(key)


class Incoming:
    """A foreign key from the side of the referenced table."""

    def __init__(self, parent: TableWriter, table: Table, constraint: Constraint) -> None:
        self.parent = parent
        self.constraint = constraint
        self.referenced = frozenset(constraint.referenced_columns)
        self._parent_positions = [parent.positions[number] for number in constraint.referenced_columns]
        self._table = table

    @cached_property
    def child(self) -> ChildTable:
        """Made when a row is deleted or changed, which is rare."""
        same = self._table.oid == self.parent.table.oid
        writer = self.parent if same else TableWriter(self.parent.catalog, self._table, self.parent.settings)
        return ChildTable(writer, self.constraint)

    @cached_property
    def _find(self) -> KeyFinder | PartitionedKeyFinder:
        return key_finder(self.parent, self.constraint.referenced_columns)

    def on_deleted(self, transaction: Transaction, context: ExecContext, old: Row, checks: Checks | None) -> None:
        """The actions after the deletion of a referenced row."""
        self._act(transaction, context, old, None, self.constraint.on_delete, checks)

    def on_updated(
        self, transaction: Transaction, context: ExecContext, old: Row, new: Row, checks: Checks | None
    ) -> None:
        """The actions after an update of a referenced row, if its key changed."""
        if any(old[position] != new[position] for position in self._parent_positions):
            self._act(transaction, context, old, new, self.constraint.on_update, checks)

    def _act(
        self,
        transaction: Transaction,
        context: ExecContext,
        old: Row,
        new: Row | None,
        action: str,
        checks: Checks | None,
    ) -> None:
        wanted = [old[position] for position in self._parent_positions]
        if None in wanted or transaction.is_replica:
            return
        transaction.lock_table(self._table.oid, ROW_EXCLUSIVE if action in "cnd" else ROW_SHARE)
        child = self.child
        if action in "cnd":
            replacement = [new[position] for position in self._parent_positions] if new is not None else None
            child.apply(transaction, context, wanted, action, replacement, checks)
            if action != "d":
                return
            # Rows whose default is the deleted key itself still refer to it.
        if (found := next(child.rows(transaction, wanted), None)) is None:
            return
        if action != "r" and self._is_back(transaction, wanted):
            return
        deferred = transaction.deferral() if action == "a" and self.constraint.deferrable else None
        if deferred is not None and deferred.defers(self.constraint):
            deferred.add(self._table, self.constraint, True, tuple(wanted))
            return
        child.lock(transaction, *found)  # another transaction may be about to delete it
        raise self._violation(old)

    def check_key(self, transaction: Transaction, wanted: Sequence[object]) -> None:
        """A deferred check: 23503 if rows still refer to a key that does not exist again."""
        found = next(self.child.rows(transaction, wanted), None)
        if found is None or self._is_back(transaction, wanted):
            return
        self.child.lock(transaction, *found)
        old: list[object] = [None] * len(self.parent.table.columns)
        for position, value in zip(self._parent_positions, wanted, strict=True):
            old[position] = value
        raise self._violation(old)

    def _is_back(self, transaction: Transaction, wanted: Sequence[object]) -> bool:
        """Whether another row has that key at the end of the statement: then NO ACTION raises no error."""
        key = self._find(transaction, wanted)
        return key is not None and transaction.newest(key) is not None

    def _violation(self, old: Row) -> SqlError:
        constraint, owner = key_copies.as_declared(self.parent.catalog, self.constraint, self._table)
        name, table = key_copies.name_for(self.parent.catalog, owner, constraint, self.parent.table), owner.name
        message = (
            f'update or delete on table "{self.parent.table.name}" violates foreign key constraint "{name}"'
            f' on table "{table}"'
        )
        detail = _still_referenced(self.parent, self.constraint, old, owner)
        return constraint_error("23503", message, self.parent.catalog, owner, name, detail)


def _still_referenced(parent: TableWriter, constraint: Constraint, row: Row, table: Table) -> str:
    numbers, rest = constraint.referenced_columns, f'is still referenced from table "{table.name}".'
    return shown_key(parent.table, numbers, f"{parent.key_text(numbers, row)} {rest}", f"Key {rest}")


class ChildTable:
    """The referencing table of a foreign key: finds its rows by the foreign key's columns, and writes them."""

    def __init__(self, writer: TableWriter, constraint: Constraint) -> None:
        self.writer = writer
        self.columns = constraint.columns
        self._constraint = constraint
        table = writer.table
        self._positions = [writer.positions[number] for number in constraint.columns]
        self._types = [table.columns[position].type for position in self._positions]
        self._oids = [type_.oid for type_ in self._types]
        self._keys = [lookup(oid).sort_key() for oid in self._oids]
        self._defaults: Callable[[ExecContext], list[object]] | None = None
        self._range = self._find_range()

    def _find_range(self) -> tuple[list[tuple[int, TypeRef]], bytes, bytes, bool] | None:
        """(order of the values and their types in keys, prefix, mark before each value, whether it is an index) of the
        shortest way to the rows."""
        table, wanted = self.writer.table, set(self.columns)
        count = len(wanted)
        if set(table.key_columns[:count]) == wanted:
            places = [self.columns.index(number) for number in table.key_columns[:count]]
            return [(place, self._types[place]) for place in places], storage_prefix(table.storage_id), b"", False
        for index in self.writer.indexes:
            leading = [column.number for column in index.index.columns[:count]]
            if set(leading) == wanted and index.included is None and index.index.ready:
                places = [self.columns.index(number) for number in leading]
                order = list(zip(places, index.key_types, strict=False))
                return order, storage_prefix(index.index.storage_id), NOT_NULL, True
        return None

    def rows(self, transaction: Transaction, wanted: Sequence[object]) -> Iterator[tuple[bytes, Row]]:
        """(key, values) of the newest versions of the rows that refer to those values."""
        if not all(map(fits, self._oids, wanted)):
            return
        decode = self.writer.decode
        for key, value in self._candidates(transaction, wanted):
            values = decode(value)
            if self._matches(values, wanted):
                yield key, values

    def _candidates(self, transaction: Transaction, wanted: Sequence[object]) -> Iterator[tuple[bytes, bytes]]:
        rows = storage_prefix(self.writer.table.storage_id)
        if self._range is None:
            yield from transaction.scan_newest(rows, successor(rows))
            return
        order, prefix, mark, is_index = self._range
        low = prefix
        for position, type_ in order:
            encode = lookup(type_.oid).key_encoder()
            assert encode is not None
            low += mark + encode(wanted[position])
        if not is_index:
            yield from transaction.scan_newest(low, successor(low))
            return
        for _, place in transaction.scan_newest(low, successor(low)):
            value = transaction.newest(rows + place)
            if value is not None:
                yield rows + place, value

    def _matches(self, values: Row, wanted: Sequence[object]) -> bool:
        for position, key, value in zip(self._positions, self._keys, wanted, strict=True):
            own = values[position]
            if own is None or (own != value if key is None else key(own) != key(value)):
                return False
        return True

    def apply(
        self,
        transaction: Transaction,
        context: ExecContext,
        wanted: Sequence[object],
        action: str,
        replacement: Sequence[object] | None,
        checks: Checks | None,
    ) -> None:
        """CASCADE, SET NULL or SET DEFAULT on the referring rows. `replacement`: the new key, for ON UPDATE."""
        deletes = action == "c" and replacement is None
        values: Sequence[object] = [None] * len(self._positions)
        if action == "c" and replacement is not None:
            values = replacement
        elif action == "d":
            values = self._default_values(context)
        event = self._events["d" if deletes else "u"]
        if event is None:
            for key, row in list(self.rows(transaction, wanted)):
                self._change(transaction, context, key, row, None if deletes else values, checks)
            return
        with firing(context).of_foreign_key(event.table):
            event.before(context)
            for key, row in list(self.rows(transaction, wanted)):
                self._change(transaction, context, key, row, None if deletes else values, checks)
        assert checks is not None  # the statement has taken TriggerPath
        event.after(context, checks)

    @cached_property
    def _events(self) -> dict[str, TableEvent | None]:
        """By event (u, d): the statement triggers of the table that declares the foreign key; None if it has no
        triggers at all."""
        catalog = self.writer.catalog
        _, owner = key_copies.as_declared(catalog, self._constraint, self.writer.table)
        if owner.oid not in catalog.with_triggers and self.writer.triggers is None:
            return {"u": None, "d": None}
        columns = frozenset(self._constraint.columns)
        return {"u": TableEvent(catalog, owner, "u", columns), "d": TableEvent(catalog, owner, "d", None)}

    def _change(
        self,
        transaction: Transaction,
        context: ExecContext,
        key: bytes,
        row: Row,
        values: Sequence[object] | None,
        checks: Checks | None,
    ) -> None:
        """Deletes a referring row (`values` None), or changes its foreign key."""
        writer = self.writer
        try:
            if values is None:
                stored = transaction.get_locked(key, UPDATE, current=True)
            else:
                stored = transaction.get_to_change(key, current=True)
        except LockWait as wait:
            if transaction.isolation != READ_COMMITTED:
                wait.then = partial(self._refuse_other, transaction, key, row)
            raise
        if stored is None:
            return
        old = writer.decode(stored)
        if values is None:
            if writer.triggers is None or writer.triggers.may_delete(transaction, context, key, old):
                writer.delete(transaction, context, key, old, checks)
            return
        new = list(old)
        for position, item in zip(self._positions, values, strict=True):
            new[position] = item
        self._changes.write(transaction, context, key, old, new, checks)

    def lock(self, transaction: Transaction, key: bytes, row: Row) -> None:
        """Locks a row that refers to a deleted key. Raises LockWait."""
        try:
            transaction.lock(key, KEY_SHARE)
        except LockWait as wait:
            if transaction.isolation != READ_COMMITTED:
                wait.then = partial(self._refuse_other, transaction, key, row)
            raise

    def _refuse_other(self, transaction: Transaction, key: bytes, row: Row) -> None:
        """40001 for a row that has changed during the wait (REPEATABLE READ): it may no longer refer to the key, but
        the change is not in the snapshot."""
        stored = transaction.newest(key)
        if stored is None or self.writer.decode(stored) != row:
            raise SqlError("40001", "could not serialize access due to concurrent update")

    @cached_property
    def _changes(self) -> _CascadedChanges:
        return _CascadedChanges(self.writer, self._constraint)

    def _default_values(self, context: ExecContext) -> list[object]:
        """The defaults of the table that declares the foreign key."""
        if self._defaults is None:
            catalog = self.writer.catalog
            _, owner = key_copies.as_declared(catalog, self._constraint, self.writer.table)
            numbers = column_numbers(self.writer.table, owner)
            columns: list[Column] = [owner.column_by_number(numbers[number]) for number in self.columns]
            self._defaults = default_values(catalog, columns)
        return self._defaults(context)


class _CascadedChanges:
    """The change of a referring row by CASCADE, SET NULL and SET DEFAULT. It is an update of the table that declares
    the foreign key (ri_triggers.c): generated columns are computed, constraints are checked, and in a partitioned table
    the row moves to its new partition. Made when a row is first changed so."""

    def __init__(self, writer: TableWriter, constraint: Constraint) -> None:
        catalog, table = writer.catalog, writer.table
        owner = catalog.get(table.owner)
        assert isinstance(owner, Role)
        with inner_environment(catalog, user_name=owner.name) as inside:
            rules = runnable_rules(table, inside)
        changed = {*constraint.columns, *(item.column for item in rules.generated)}
        keys = key_column_numbers(catalog, table) if table.bound is not None else frozenset()
        concerned = keys is None or not keys.isdisjoint(changed)
        _, owner = key_copies.as_declared(catalog, constraint, table)
        self._writer = writer
        self._generated_at = [writer.positions[item.column] for item in rules.generated]
        self._named = frozenset(changed)
        if concerned and owner.oid != table.oid:
            self._writer = TableWriter(catalog, table, writer.settings)
            self._writer.moving = Moving(self._writer, owner)
        tests = [item for item in rules.checks if item[0] != PARTITION_CHECK or self._writer.moving is None]
        try:
            self._generated = generated_values(table, rules.generated) if rules.generated else None
            self._first_false = row_checks(table, tests) if tests else None
        except NotOnRowPath:
            not_supported(f'a foreign key that changes rows of table "{table.name}", whose constraints or generated '
                          "columns cannot be computed row by row")  # fmt: skip

    def write(
        self,
        transaction: Transaction,
        context: ExecContext,
        key: bytes,
        old: Row,
        new: list[object],
        checks: Checks | None,
    ) -> None:
        """Raises 23502, 23514, 23505, 23503, LockWait."""
        if self._generated is not None:
            for position, value in zip(self._generated_at, self._generated(new), strict=True):
                new[position] = value
        writer = self._writer
        if writer.triggers is not None:
            row = writer.triggers.changed_row(transaction, context, key, old, tuple(new), self._named)
            if row is not None:
                writer.updater(self._named)(transaction, context, key, old, row, checks)
            return
        writer.check_not_null(new)
        if self._first_false is not None and (name := self._first_false(new)) is not None:
            raise writer.check_violation(name, new)
        writer.update(transaction, context, key, old, new, checks)


use_foreign_keys(outgoing, incoming)
