"""Writes rows to partitions: INSERT into a partitioned table, and rows that an UPDATE moves.

   PartitionedWriter    a TableWriter for rows of the named table. Each row is routed to its partition, put in the order
                        of the partition's columns, and checked by its constraints
   Moving               used by the writer of one partition. If a changed row no longer belongs there, it is deleted and
                        inserted again (PostgreSQL 16 manual, 5.11)

The route checks the bounds once for each row. The partition's own constraint is not checked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import Table
from catalog.types.base import DEFAULT_FORMAT, FormatSettings
from engine.execute.conflicts import ConflictFinder
from engine.execute.context import ExecContext
from engine.execute.index_expressions import row_checks
from engine.execute.triggers import RowTriggers
from engine.execute.writer import Checks, Row, TableWriter, run_checks
from engine.partitions.router import Router, column_numbers, reorder
from engine.sql import tree
from engine.sql.analyze import inner_environment
from engine.sql.analyze.rules import runnable_rules
from engine.storage.keys import PREFIX_BYTES, storage_prefix
from engine.txn.interface import Transaction
from engine.txn.locks import ROW_EXCLUSIVE


class Leaf:
    """A partition with rows, as the target of rows of a table above it."""

    def __init__(self, root: TableWriter, table: Table, writer: TableWriter | None = None) -> None:
        catalog = root.catalog
        self.table = table
        self.writer = writer or TableWriter(catalog, table, root.settings)
        self.from_root = reorder(root.table, table)
        self.to_root = reorder(table, root.table)
        self.numbers = column_numbers(root.table, table)
        show_as(self.writer, root)
        with inner_environment(catalog) as inside:
            rules = runnable_rules(table, inside, defaults=False, asked=False)
        self.checks = [item for item in rules.checks if item[0] != tree.PARTITION_CHECK]
        self._first_false = row_checks(table, self.checks) if self.checks else None
        self._updaters: dict[frozenset[int], Callable[..., bytes]] = {}

    def row(self, values: Row) -> Row:
        return values if self.from_root is None else self.from_root(values)

    def root_row(self, values: Row) -> Row:
        return values if self.to_root is None else self.to_root(values)

    @cached_property
    def triggers(self) -> RowTriggers:
        """The row triggers, which complete and check rows also where there are none."""
        return self.writer.triggers or RowTriggers(self.writer)

    def check(self, row: Row) -> None:
        """NOT NULL and CHECK constraints. Raises 23502, 23514."""
        self.writer.check_not_null(row)
        if self._first_false is not None and (name := self._first_false(row)) is not None:
            raise self.writer.check_violation(name, row)

    def updater(self, changed: frozenset[int]) -> Callable[..., bytes]:
        """The writer's updater for changes of these columns (attnums of the root)."""
        found = self._updaters.get(changed)
        if found is None:
            own = [self.numbers[number] for number in changed]
            found = self._updaters[changed] = self.writer.updater(own)
        return found


def show_as(writer: TableWriter, named: TableWriter) -> None:
    """Makes errors show rows in the form of the table that the statement named: in the order of its columns, to roles
    that may read it."""
    change = reorder(writer.table, named.table)
    writer.row_shown = named.failing_row if change is None else lambda row: named.failing_row(change(row))


class PartitionedWriter(TableWriter):
    """Writes rows of a partitioned table into its partitions."""

    def __init__(self, catalog: Catalog, table: Table, settings: FormatSettings = DEFAULT_FORMAT) -> None:
        super().__init__(catalog, table, settings)
        self.required = []  # the partitions see to it
        self.router = Router(catalog, table)
        with inner_environment(catalog) as inside:
            rules = runnable_rules(table, inside, defaults=False, asked=False)
        bounds = [item for item in rules.checks if item[0] == tree.PARTITION_CHECK]
        self._outside = row_checks(table, bounds) if bounds else None
        self._leaves: dict[int, Leaf] = {}
        self._by_prefix: dict[bytes, Leaf] = {}

    def leaf_of(self, values: Row) -> Leaf:
        """The partition for a row. Raises 23514."""
        if self._outside is not None and (name := self._outside(values)) is not None:
            raise self.check_violation(name, values)
        table = self.router.leaf(values)
        found = self._leaves.get(table.oid)
        if found is None:
            found = self._leaves[table.oid] = Leaf(self, table)
            self._by_prefix[storage_prefix(table.storage_id)] = found
        return found

    def check_violation(self, name: str, values: Row) -> SqlError:
        """Raises 23514 for a row without a partition, which PostgreSQL looks for before it checks policies."""
        if name.startswith(tree.POLICY_CHECK):
            self.leaf_of(values)
        return super().check_violation(name, values)

    def leaf_at(self, key: bytes) -> Leaf:
        """The partition of a key, among the partitions that have got rows."""
        return self._by_prefix[key[:PREFIX_BYTES]]

    def decode_at(self, key: bytes, value: bytes) -> Row:
        """Decodes a stored row into the order of the partitioned table's columns."""
        leaf = self.leaf_at(key)
        return leaf.root_row(leaf.writer.decode(value))

    def table_oid(self, key: bytes) -> int:
        return self.leaf_at(key).table.oid

    @cached_property
    def triggers(self) -> PartitionedTriggers | None:  # type: ignore[override]  # a statement uses new and changed rows
        """The row triggers of the partitions; None if there are none."""
        below = self.catalog.descendants(self.table.oid) if self.catalog.with_triggers else ()
        found = any(
            item.enabled != "D" and (item.for_row or item.old_table or item.new_table)
            for table in (self.table, *below)
            for item in table.triggers
        )
        return PartitionedTriggers(self) if found else None

    def write_new(
        self, transaction: Transaction, context: ExecContext, values: Row, checks: Checks | None = None
    ) -> bytes:
        """Inserts a row and returns its key. Raises 23514, 23502, 23505, 23503, LockWait."""
        leaf = self.leaf_of(values)
        transaction.lock_table(leaf.table.oid, ROW_EXCLUSIVE)
        row = leaf.row(values)
        leaf.check(row)
        return leaf.writer.write_new(transaction, context, row, checks)

    def writes_only_row(self, changed: Iterable[int]) -> bool:
        return False

    def updater(
        self, changed: Iterable[int]
    ) -> Callable[[Transaction, ExecContext, bytes, Row, Row, Checks | None], bytes]:
        """The updater for ON CONFLICT DO UPDATE. A row must stay in its partition (0A000)."""
        columns = frozenset(changed)

        def write(
            transaction: Transaction, context: ExecContext, key: bytes, old: Row, new: Row, checks: Checks | None
        ) -> bytes:
            leaf = self.leaf_at(key)
            if self.leaf_of(new) is not leaf:
                detail = "The result tuple would appear in a different partition than the original tuple."
                raise SqlError("0A000", "invalid ON UPDATE specification", detail=detail)
            before, after = leaf.row(old), leaf.row(new)
            leaf.check(after)
            return leaf.updater(columns)(transaction, context, key, before, after, checks)

        return write


class PartitionedTriggers:
    """The row triggers of the partitions, for rows of the partitioned table."""

    changes_updates = True

    def inserts_apart(self, context: ExecContext) -> bool:
        """See RowTriggers. The rows of several partitions are not written together."""
        return False

    def __init__(self, writer: PartitionedWriter) -> None:
        self._writer = writer

    def new_row(self, context: ExecContext, row: Row, checked: bool = True) -> Row | None:
        """See RowTriggers."""
        leaf = self._writer.leaf_of(row)
        made = leaf.triggers.new_row(context, leaf.row(row), checked)
        return None if made is None else leaf.root_row(made)

    def changed_row(
        self, transaction: Transaction, context: ExecContext, key: bytes, old: Row, new: Row, changed: frozenset[int],
        checked: bool = True,
    ) -> Row | None:  # fmt: skip
        """See RowTriggers."""
        leaf = self._writer.leaf_at(key)
        numbers = frozenset(leaf.numbers[number] for number in changed)
        made = leaf.triggers.changed_row(transaction, context, key, leaf.row(old), leaf.row(new), numbers, checked)
        return None if made is None else leaf.root_row(made)

    def check_row(self, context: ExecContext, row: Row) -> None:
        """See RowTriggers."""
        leaf = self._writer.leaf_of(row)
        leaf.triggers.check_row(context, leaf.row(row))


class PartitionedConflicts:
    """ON CONFLICT on a partitioned table: its arbiter indexes represent those of the partitions."""

    def __init__(self, writer: PartitionedWriter, indexes: Sequence[int]) -> None:
        self._writer = writer
        self._indexes = indexes
        self._finders: dict[int, ConflictFinder] = {}

    def find(self, transaction: Transaction, values: Row) -> bytes | None:
        """The key of the conflicting row, or None. Raises errors of ConflictFinder and of the route."""
        leaf = self._writer.leaf_of(values)
        transaction.lock_table(leaf.table.oid, ROW_EXCLUSIVE)
        row = leaf.row(values)
        leaf.check(row)
        finder = self._finders.get(leaf.table.oid)
        if finder is None:
            finder = ConflictFinder(leaf.writer, self._own_indexes(leaf.table))
            self._finders[leaf.table.oid] = finder
        return finder.find(transaction, row)

    def _own_indexes(self, table: Table) -> list[int]:
        catalog = self._writer.catalog
        found = []
        for oid in table.indexes:
            above = catalog.index(oid)
            while above.parent is not None:
                above = catalog.index(above.parent)
                if above.oid in self._indexes:
                    found.append(oid)
        return found


class Moving:
    """Moves rows of a partition for an UPDATE that named `root`, a table above it."""

    def __init__(self, writer: TableWriter, root: Table) -> None:
        self._writer = writer
        self._target = PartitionedWriter(writer.catalog, root, writer.settings)
        self.leaf = Leaf(self._target, writer.table, writer)

    def look_for_partition(self, values: Row) -> None:
        """Raises 23514 if no partition is for this row, which is in the form of the present one."""
        self._target.leaf_of(self.leaf.root_row(values))

    def table_oid(self, key: bytes) -> int:
        """The tableoid of a row that has been written."""
        own = self._writer.table
        return own.oid if key.startswith(storage_prefix(own.storage_id)) else self._target.table_oid(key)

    def updater(self, changed: Iterable[int]) -> Callable[..., bytes]:
        """Makes TableWriter.updater's function. Rows are those of the partition. Its result is None if a trigger keeps
        the row from being moved."""
        stay = self._writer.updater_of(frozenset(changed))
        leaf, target, writer = self.leaf, self._target, self._writer

        def write(
            transaction: Transaction, context: ExecContext, key: bytes, old: Row, new: Row, checks: Checks | None
        ) -> bytes | None:
            moved, triggers = leaf.root_row(new), writer.triggers
            if self._stays(moved, triggers is not None):
                leaf.check(new)
                return stay(transaction, context, key, old, new, checks)
            if triggers is not None and not triggers.may_delete(transaction, context, key, old):
                return None
            transaction.strengthen(key)
            writer.take_out(transaction, context, key, old)
            if triggers is not None and (after := triggers.after("d")) is not None:
                run_checks(checks, after.around(transaction, context, old, None, ()))
            if target.triggers is not None:
                found = target.triggers.new_row(context, moved)
                if found is None:
                    return None
                moved = found
            moved_key = target.write_new(transaction, context, moved, checks)
            transaction.note_key_change(key, moved_key)
            self._follow(transaction, context, old, new, checks)
            return moved_key

        return write  # type: ignore[return-value]  # without triggers there is always a key

    def _stays(self, moved: Row, fires: bool) -> bool:
        """Whether a row stays in its partition. Raises 23514 for one without a partition, unless triggers fire before
        it is inserted there."""
        try:
            return self._target.leaf_of(moved).table.oid == self._writer.table.oid
        except SqlError:
            if not fires:
                raise
            return False

    def _follow(
        self, transaction: Transaction, context: ExecContext, old: Row, new: Row, checks: Checks | None
    ) -> None:
        """Applies foreign keys to a row that has moved to another partition. For those that refer to the named table,
        or to a table above it, the row has changed. For those that refer to the partition it was deleted. Raises 0A000
        for those between."""
        own, root = self._writer.table, self._target.table
        below = {}
        for table in self._writer.catalog.partitioned_above(own):
            if table is root:
                break
            below[table.oid] = table
        for foreign in self._writer.incoming:
            between, top = below.get(foreign.constraint.references or 0), root.name
            if between is not None:
                raise SqlError(
                    "0A000",
                    "cannot move tuple across partitions when a non-root ancestor of the source partition is directly "
                    "referenced in a foreign key",
                    detail=f'A foreign key points to ancestor "{between.name}" but not the root ancestor "{top}".',
                    hint=f'Consider defining the foreign key on table "{top}".',
                )
        gone = [foreign for foreign in self._writer.incoming if foreign.constraint.references == own.oid]
        before, after = self.leaf.root_row(old), self.leaf.root_row(new)
        run_checks(checks, [partial(foreign.on_deleted, transaction, context, old, checks) for foreign in gone])
        run_checks(
            checks,
            [
                partial(foreign.on_updated, transaction, context, before, after, checks)
                for foreign in self._target.incoming
            ],
        )


def writer_of(
    catalog: Catalog, statement: tree.Insert | tree.Update | tree.Delete, settings: FormatSettings
) -> TableWriter:
    """The writer for the target of a statement."""
    table = statement.table
    if isinstance(statement, tree.Insert) and table.partitioning is not None:
        return PartitionedWriter(catalog, table, settings)
    writer = TableWriter(catalog, table, settings)
    prepare_writer(writer, statement)
    return writer


def prepare_writer(writer: TableWriter, statement: tree.Statement) -> None:
    """Prepares the writer for an UPDATE that named another table than its target."""
    if not isinstance(statement, tree.Update):
        return
    if statement.root is not None:
        writer.moving = Moving(writer, statement.root)
    elif statement.named is not None:
        show_as(writer, TableWriter(writer.catalog, statement.named, writer.settings))
