"""Writes rows: the row itself, its index entries, uniqueness, and foreign keys.

All writes use `TableWriter`: the row path's INSERT, UPDATE and DELETE, the columnar path's changes that come back as
rows, COPY where it works row by row, and the cascades of foreign keys.

    unique key       `take_key`: a free one is locked by its bytes; a second writer of one key waits for the end of the
                     first one, and then sees the result
    other keys       DEFERRABLE ones and EXCLUDE: exclusions.py
    foreign keys     are checked when all rows of the statement are written, like PostgreSQL's triggers: checks are
                     appended to the statement's `Checks` and run by `Checks.finish`
    index entries    change only if their columns (or the row's key) change

Values are whole rows in internal form, one per column of the table, in the order of `table.columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING

from catalog import collations
from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import Index, IndexColumn, Table
from catalog.types import lookup
from catalog.types.base import DEFAULT_FORMAT, FormatSettings
from engine.execute.context import ExecContext, NotTogether
from engine.execute.exclusions import Exclusion, exclusions_of
from engine.execute.index_expressions import predicate_of, value_getter
from engine.execute.index_forms import columns_read
from engine.execute.shown import constraint_error, shown_key, shown_row
from engine.execute.triggers import AfterRow, RowTriggers, triggers_of
from engine.sql.tree import PARTITION_CHECK, POLICY_CHECK, VIEW_CHECK
from engine.storage.keys import (
    PREFIX_BYTES,
    index_entry_encoder,
    row_key_encoder,
    row_number_key,
    storage_prefix,
)
from engine.storage.rows import codec_of
from engine.txn.interface import UPDATE, BatchTransaction, LockWait, Transaction

if TYPE_CHECKING:
    from engine.execute.foreign_keys import Incoming, Outgoing
    from engine.partitions.partition_writer import Moving

Row = Sequence[object]
_SHOWN_BYTES = 64  # of each value, in the detail of a failing row


class Checks(list["Callable[[], None]"]):
    """The remaining checks at the end of one statement. A check may append further ones (cascades).

    `late`: rows may have been changed again or deleted by then, and are not checked in that case.
    """

    def __init__(self, late: bool = False) -> None:
        super().__init__()
        self.late = late
        self._rows: dict[Exclusion, tuple[Transaction, dict[bytes, None]]] = {}

    def look_at(self, transaction: Transaction, exclusion: Exclusion, key: bytes) -> None:
        """Adds a row that `finish` compares with others, together with all rows of the statement."""
        self._rows.setdefault(exclusion, (transaction, {}))[1][key] = None

    def finish(self) -> None:
        """Runs them in order. Raises 23505, 23P01, 23503 and the errors of cascades."""
        position = 0
        while position < len(self):
            self[position]()
            position += 1
        for exclusion, (transaction, keys) in self._rows.items():
            exclusion.finish(transaction, keys)
        self._rows.clear()
        self.clear()


class IndexWriter:
    """The entries of one index."""

    def __init__(self, catalog: Catalog, table: Table, index: Index, settings: FormatSettings) -> None:
        self.index = index
        self.unique = index.unique
        self.columns = frozenset(column.number for column in index.columns if column.number)
        self.values = value_getter(catalog, table, index)
        self.included = predicate_of(catalog, table, index)
        self.on_expressions = index.predicate is not None or any(not column.number for column in index.columns)
        self._reads = columns_read(catalog, table, index) if self.on_expressions else self.columns
        collations.refuse_outdated(catalog, index)
        self.key_types = collations.key_types(catalog, index)
        self.encode = index_entry_encoder(index.storage_id, self.key_types, index.unique, index.nulls_not_distinct)
        self._settings = settings

    def entry(self, values: Row, key: bytes) -> bytes | None:
        """The entry's key, None if the index does not contain the row."""
        if self.included is not None and not self.included(values):
            return None
        return self.encode(self.values(values), key)

    def guards(self, values: Row) -> bool:
        """Whether the row takes part in uniqueness: without NULLs, unless those are not distinct."""
        return self.unique and (self.index.nulls_not_distinct or None not in self.values(values))

    def touched_by(self, changed: frozenset[int]) -> bool:
        """Whether a change of these columns may change the row's entry."""
        return self._reads is None or not self._reads.isdisjoint(changed)


class _ForeignKeys:
    """The finder of a table's foreign keys. foreign_keys.py writes rows itself, so it registers itself here."""

    outgoing: Callable[[TableWriter], list[Outgoing]]
    incoming: Callable[[TableWriter], list[Incoming]]


_foreign_keys = _ForeignKeys()


def use_foreign_keys(
    outgoing: Callable[[TableWriter], list[Outgoing]], incoming: Callable[[TableWriter], list[Incoming]]
) -> None:
    """Registers the finder of foreign keys."""
    _foreign_keys.outgoing, _foreign_keys.incoming = outgoing, incoming


def run_checks(checks: Checks | None, todo: Sequence[Callable[[], None]]) -> None:
    """Runs checks at the statement's end, or at once if there is none."""
    if checks is None:
        for check in todo:
            check()
    else:
        checks.extend(todo)


class TableWriter:
    """Writes rows of one table, as of one catalog. Made once per plan."""

    def __init__(self, catalog: Catalog, table: Table, settings: FormatSettings = DEFAULT_FORMAT) -> None:
        self.catalog = catalog
        self.table = table
        self.oid = table.oid
        self.settings = settings
        self.positions = {column.number: position for position, column in enumerate(table.columns)}
        codec = codec_of(table)
        self.row_prefix = storage_prefix(table.storage_id)
        self.encode = codec.encode
        self.decode = codec.decode
        self._key_positions = [self.positions[number] for number in table.key_columns]
        self._encode_key: Callable[[Row], bytes] | None = None
        if table.key_columns:
            types = [table.columns[position].type for position in self._key_positions]
            self._encode_key = row_key_encoder(table.storage_id, types)
        self.primary = next((c for c in table.constraints if c.kind == "p"), None)
        self.indexes = [
            IndexWriter(catalog, table, catalog.index(oid), settings)
            for oid in sorted(table.indexes)
            if catalog.index(oid).is_tree and catalog.index(oid).ready and not catalog.index(oid).primary
        ]
        self.exclusions = exclusions_of(self)
        self.required = [
            (position, column.name)
            for position, column in enumerate(table.columns)
            if column.not_null or column.number in table.key_columns
        ]
        self._outgoing: list[Outgoing] | None = None
        self._incoming: list[Incoming] | None = None
        self.row_shown: Callable[[Row], str] | None = None  # `failing_row` of the partitioned table of the statement
        self.moving: Moving | None = None  # of a partition whose rows the statement may have to move

    # ---- triggers, foreign keys -------------------------------------------------------------------------------------

    @cached_property
    def triggers(self) -> RowTriggers | None:
        """The row triggers of this table; None without any."""
        return triggers_of(self)

    @cached_property
    def _after_insert(self) -> AfterRow | None:
        return None if self.triggers is None else self.triggers.after("i")

    @cached_property
    def _after_delete(self) -> AfterRow | None:
        return None if self.triggers is None else self.triggers.after("d")

    @property
    def outgoing(self) -> list[Outgoing]:
        """Foreign keys of this table."""
        if self._outgoing is None:
            self._outgoing = [] if self.table.references_off else _foreign_keys.outgoing(self)
        return self._outgoing

    @property
    def incoming(self) -> list[Incoming]:
        """Foreign keys that refer to this table."""
        if self._incoming is None:
            self._incoming = [] if self.table.references_off else _foreign_keys.incoming(self)
        return self._incoming

    # ---- keys -------------------------------------------------------------------------------------------------------

    def key_of(self, values: Row) -> bytes | None:
        """The row's key; None for a table without primary key, whose rows get a number when they are inserted."""
        if self._encode_key is None:
            return None
        return self._encode_key([values[position] for position in self._key_positions])

    def _new_key(self, transaction: Transaction, context: ExecContext, values: Row) -> bytes:
        if self._encode_key is None:
            assert context.next_row_number is not None
            return row_number_key(self.table.storage_id, context.next_row_number(self.table))
        key = self._encode_key([values[position] for position in self._key_positions])
        try:
            found = transaction.take_key(key)
        except LockWait as wait:
            wait.then = partial(self._refuse_taken, transaction, key, None, values)
            raise
        if found is not None:
            raise self.duplicate(None, values)
        return key

    # ---- writing ----------------------------------------------------------------------------------------------------

    def insert(
        self, transaction: Transaction, context: ExecContext, values: Row, checks: Checks | None = None
    ) -> bytes:
        """Inserts a row; gives its key. Raises 23502, 23505, 23503 (at `checks.finish()` if given), LockWait."""
        self.check_not_null(values)
        return self.write_new(transaction, context, values, checks)

    def write_new(
        self, transaction: Transaction, context: ExecContext, values: Row, checks: Checks | None = None
    ) -> bytes:
        """`insert` for a row whose NOT NULL columns have been checked."""
        key = self._new_key(transaction, context, values)
        transaction.put(key, self.encode(values))
        context.written.inserted[self.oid] += 1
        for index in self.indexes:
            self._add_entry(transaction, index, values, key)
        if self.outgoing or self._after_insert is not None:
            todo: Sequence[Callable[[], None]] = [
                partial(foreign.check, transaction, values) for foreign in self.outgoing
            ]
            if checks is not None and checks.late:
                todo = self._later(transaction, key, values, todo)
            if self._after_insert is not None:
                todo = self._after_insert.around(transaction, context, None, values, todo)
            run_checks(checks, todo)
        for exclusion in self.exclusions:
            exclusion.on_inserted(transaction, key, checks)
        return key

    def write_together(
        self, transaction: BatchTransaction, context: ExecContext, rows: Sequence[Row], checks: Checks
    ) -> None:
        """`write_new` of many rows without conflicts. Raises NotTogether before it has written anything."""
        keys = self._new_keys(context, rows)
        taken = list(keys) if self._encode_key is not None else []
        entries = []
        for index in self.indexes:
            found = [index.entry(values, key) for values, key in zip(rows, keys, strict=True)]
            entries.append([(entry, key[PREFIX_BYTES:]) for entry, key in zip(found, keys, strict=True) if entry])
            if index.unique:
                taken += [entry for entry, values in zip(found, rows, strict=True) if entry and index.guards(values)]
        if len(set(taken)) < len(taken) or not transaction.take_new(taken):
            raise NotTogether
        transaction.put_many(keys, list(map(self.encode, rows)))
        for pairs in entries:
            transaction.put_many([entry for entry, _ in pairs], [key for _, key in pairs])
        context.written.inserted[self.oid] += len(rows)
        for foreign in self.outgoing:
            checks.extend([partial(foreign.check, transaction, values) for values in rows])

    def _new_keys(self, context: ExecContext, rows: Sequence[Row]) -> list[bytes]:
        if self._encode_key is None:
            assert context.next_row_number is not None
            storage_id, number, table = self.table.storage_id, context.next_row_number, self.table
            return [row_number_key(storage_id, number(table)) for _ in rows]
        if len(self._key_positions) == 1:
            return list(map(self._encode_key, zip([values[self._key_positions[0]] for values in rows])))
        return list(map(self._encode_key, map(itemgetter(*self._key_positions), rows)))

    def _add_entry(self, transaction: Transaction, index: IndexWriter, values: Row, key: bytes) -> None:
        entry = index.entry(values, key)
        if entry is None:
            return
        if index.unique and index.guards(values):
            try:
                place = transaction.take_key(entry)
                if place is not None:
                    transaction.wait_for_writer(self.row_prefix + place)  # the row's writer may delete the entry
            except LockWait as wait:
                wait.then = partial(self._refuse_taken, transaction, entry, index, values)
                raise
            if place is not None:
                raise self.duplicate(index, values)
        transaction.put(entry, key[PREFIX_BYTES:])

    def _refuse_taken(self, transaction: Transaction, key: bytes, index: IndexWriter | None, values: Row) -> None:
        """After a wait for another holder of a unique key: the row is the one to be written, whatever the statement
        would compute now. Raises 23505."""
        if transaction.newest(key) is not None:
            raise self.duplicate(index, values)

    def _remove_entry(self, transaction: Transaction, index: IndexWriter, values: Row, key: bytes) -> None:
        entry = index.entry(values, key)
        if entry is None:
            return
        if index.unique and index.guards(values):
            transaction.lock(entry, UPDATE)  # other inserts of this key wait for our end
        transaction.delete(entry)

    def delete(
        self,
        transaction: Transaction,
        context: ExecContext,
        key: bytes,
        values: Row,
        checks: Checks | None = None,
    ) -> None:
        """Deletes the row, which the caller has locked (get_locked, UPDATE) and decoded."""
        self.take_out(transaction, context, key, values)
        if self.incoming or self._after_delete is not None:
            todo: Sequence[Callable[[], None]] = [
                partial(foreign.on_deleted, transaction, context, values, checks) for foreign in self.incoming
            ]
            if self._after_delete is not None:
                todo = self._after_delete.around(transaction, context, values, None, todo)
            run_checks(checks, todo)

    def take_out(self, transaction: Transaction, context: ExecContext, key: bytes, values: Row) -> None:
        """`delete` without the actions of foreign keys."""
        transaction.delete(key)
        context.written.deleted[self.oid] += 1
        for index in self.indexes:
            self._remove_entry(transaction, index, values, key)

    def update(
        self,
        transaction: Transaction,
        context: ExecContext,
        key: bytes,
        old: Row,
        new: Row,
        checks: Checks | None = None,
    ) -> bytes:
        """Replaces a row that the caller has locked (get_locked, NO KEY UPDATE or more); returns its key.

        Raises 23505, 23503, LockWait. The caller checks NOT NULL and CHECK before.
        """
        changed = frozenset(
            column.number for column, a, b in zip(self.table.columns, old, new, strict=True) if not _same(a, b)
        )
        return self.updater(changed)(transaction, context, key, old, new, checks)

    def updater(
        self, changed: Iterable[int]
    ) -> Callable[[Transaction, ExecContext, bytes, Row, Row, Checks | None], bytes]:
        """An `update` for changes of these columns (attnums) only: it does not touch anything else. BEFORE triggers may
        have changed others."""
        if self.moving is not None:
            return self.moving.updater(changed)
        return self.updater_of(frozenset(changed))

    def updater_of(
        self, named: frozenset[int]
    ) -> Callable[[Transaction, ExecContext, bytes, Row, Row, Checks | None], bytes]:
        """`updater` for rows that stay in their table."""
        every = self.triggers is not None and self.triggers.changes_updates
        return self._make_updater(frozenset(self.positions) if every else named, named)

    def _make_updater(
        self, columns: frozenset[int], named: frozenset[int]
    ) -> Callable[[Transaction, ExecContext, bytes, Row, Row, Checks | None], bytes]:
        """`updater_of` for changes of `columns`, of which the statement has named some."""
        indexes = [index for index in self.indexes if index.touched_by(columns)]
        outgoing = [foreign for foreign in self.outgoing if not foreign.columns.isdisjoint(columns)]
        incoming = [foreign for foreign in self.incoming if not foreign.referenced.isdisjoint(columns)]
        moves = not columns.isdisjoint(self.table.key_columns)
        exclusions = [exclusion for exclusion in self.exclusions if moves or exclusion.touched_by(columns)]
        unique = [self.positions[number] for number in self.unique_columns() & columns]
        encode, oid = self.encode, self.oid
        after = None if self.triggers is None else self.triggers.after("u", named)
        if after is None and self.writes_only_row(columns):

            def write_only(
                transaction: Transaction, context: ExecContext, key: bytes, old: Row, new: Row, checks: Checks | None
            ) -> bytes:
                transaction.put(key, encode(new))
                context.written.updated[oid] += 1
                return key

            return write_only

        def write(
            transaction: Transaction, context: ExecContext, key: bytes, old: Row, new: Row, checks: Checks | None
        ) -> bytes:
            if any(not _same(old[position], new[position]) for position in unique):
                transaction.strengthen(key)
            new_key = self._changed_key(transaction, context, key, new) if moves else key
            if new_key == key:
                transaction.put(key, encode(new))
            else:
                transaction.move(key, new_key, encode(new))
            context.written.updated[oid] += 1
            for index in self.indexes if new_key != key else indexes:
                self._change_entry(transaction, index, old, new, key, new_key)
            todo: list[Callable[[], None]] = []
            todo += [partial(foreign.on_changed, transaction, old, new) for foreign in outgoing]
            if checks is not None and checks.late:
                todo = list(self._later(transaction, new_key, new, todo))
            todo += [partial(foreign.on_updated, transaction, context, old, new, checks) for foreign in incoming]
            run_checks(checks, todo if after is None else after.around(transaction, context, old, new, todo))
            for exclusion in exclusions:
                if new_key != key or exclusion.is_changed(old, new):
                    exclusion.on_updated(transaction, new_key, checks)
            return new_key

        return write

    def writes_only_row(self, changed: Iterable[int]) -> bool:
        """Whether a change of these columns affects no index, no key and no foreign key."""
        columns = frozenset(changed)
        return (
            self.moving is None
            and self.triggers is None
            and not any(index.touched_by(columns) for index in self.indexes)
            and not any(exclusion.touched_by(columns) for exclusion in self.exclusions)
            and all(foreign.columns.isdisjoint(columns) for foreign in self.outgoing)
            and all(foreign.referenced.isdisjoint(columns) for foreign in self.incoming)
            and self.unique_columns().isdisjoint(columns)
        )

    def _changed_key(self, transaction: Transaction, context: ExecContext, key: bytes, new: Row) -> bytes:
        """The key of a row whose primary key may have changed: it is locked and free. Raises 23505."""
        new_key = self.key_of(new)
        assert new_key is not None
        if new_key == key:
            return key
        self._new_key(transaction, context, new)
        return new_key

    def _change_entry(
        self, transaction: Transaction, index: IndexWriter, old: Row, new: Row, key: bytes, new_key: bytes
    ) -> None:
        before, after = index.entry(old, key), index.entry(new, new_key)
        if before == after and key == new_key:
            return
        if before == after:  # a unique entry whose row has moved
            if after is not None:
                transaction.put(after, new_key[PREFIX_BYTES:])
            return
        self._remove_entry(transaction, index, old, key)
        self._add_entry(transaction, index, new, new_key)

    def _later(
        self, transaction: Transaction, key: bytes, values: Row, todo: Sequence[Callable[[], None]]
    ) -> list[partial[None]]:
        """Checks of a row for later: they are skipped if the row has changed by then, or was deleted."""
        stored = self.encode(values)

        def check(run: Callable[[], None]) -> None:
            if transaction.newest(key) == stored:
                run()

        return [partial(check, run) for run in todo]

    def unique_columns(self) -> frozenset[int]:
        """The columns that foreign keys might refer to, or by which a row may conflict with another: a change of them
        takes the stronger row lock."""
        found = set(self.table.key_columns)
        for index in self.indexes:
            if index.unique and not index.on_expressions:
                found |= index.columns
        return frozenset(found).union(*(exclusion.columns for exclusion in self.exclusions))

    def same_unique(self, one: bytes, other: bytes) -> bool:
        """Whether two versions of a row agree in all unique columns."""
        old, new = self.decode(one), self.decode(other)
        return all(_same(old[place], new[place]) for place in map(self.positions.__getitem__, self.unique_columns()))

    # ---- checks and errors ------------------------------------------------------------------------------------------

    def check_not_null(self, values: Row) -> None:
        """Raises 23502 for the first NULL in a NOT NULL column."""
        if None in values:
            for position, name in self.required:
                if values[position] is None:
                    table = self.table.name
                    raise SqlError(
                        "23502",
                        f'null value in column "{name}" of relation "{table}" violates not-null constraint',
                        detail=self.failing_row(values),
                        schema=self.catalog.schema_name(self.table.schema),
                        table=table,
                        column=name,
                    )

    def check_violation(self, name: str, values: Row) -> SqlError:
        """The error of a CHECK constraint that is false for the row (23514), of a partition's bounds (23514), of a
        view's check option (44000), or of a row security policy (42501). Raises the error of a row that moves and finds
        no partition before that of a policy, as PostgreSQL does."""
        if name.startswith(POLICY_CHECK):
            if self.moving is not None:
                self.moving.look_for_partition(values)
            return policy_violation(name[len(POLICY_CHECK) + 4 :])
        if name == PARTITION_CHECK:
            message = f'new row for relation "{self.table.name}" violates partition constraint'
            schema = self.catalog.schema_name(self.table.schema)
            return SqlError("23514", message, detail=self.failing_row(values), schema=schema, table=self.table.name)
        if name.startswith(VIEW_CHECK):
            view = name[len(VIEW_CHECK) + 4 :]
            message = f'new row violates check option for view "{view}"'
            return SqlError("44000", message, detail=self.failing_row(values))
        message = f'new row for relation "{self.table.name}" violates check constraint "{name}"'
        return constraint_error("23514", message, self.catalog, self.table, name, self.failing_row(values))

    def failing_row(self, values: Row) -> str:
        """'Failing row contains (1, null).', long values cut to 64 bytes as PostgreSQL does."""
        if self.row_shown is not None:
            return self.row_shown(values)
        shown = {}
        for column, value in zip(self.table.columns, values, strict=True):
            text = self._text(column.number, value)
            data = text.encode()
            if value is not None and len(data) > _SHOWN_BYTES:
                text = data[:_SHOWN_BYTES].decode(errors="ignore") + "..."
            shown[column.number] = text
        return shown_row(self.table, shown)

    def _text(self, number: int, value: object) -> str:
        if value is None:
            return "null"
        column = self.table.column_by_number(number)
        return lookup(column.type.oid).text_encoder(self.settings)(value).decode()

    def key_text(self, numbers: Sequence[int], values: Row) -> str:
        """'Key (a, b)=(1, x)': the beginning of the details of unique and foreign key errors."""
        names = ", ".join(quote_name(self.table.column_by_number(number).name) for number in numbers)
        texts = ", ".join(self._text(number, values[self.positions[number]]) for number in numbers)
        return f"Key ({names})=({texts})"

    def duplicate(self, index: IndexWriter | None, values: Row) -> SqlError:
        """The error of a key that exists (23505); index None: the primary key."""
        name, key = self.unique_key(index, values)
        message = f'duplicate key value violates unique constraint "{name}"'
        numbers = self.table.key_columns if index is None else [column.number for column in index.index.columns]
        detail = shown_key(self.table, numbers, f"{key} already exists.")
        return constraint_error("23505", message, self.catalog, self.table, name, detail)

    def unique_key(self, index: IndexWriter | None, values: Row) -> tuple[str, str]:
        """The name of a unique index (None: the primary key's) and a row's key in it as 'Key (a)=(1)'."""
        if index is not None:
            return index.index.name, self.index_key_text(index.index.columns, index.values(values))
        name = self.primary.name if self.primary is not None else f"{self.table.name}_pkey"
        return name, self.key_text(self.table.key_columns, values)

    def index_key_text(self, columns: Sequence[IndexColumn], values: Row) -> str:
        """'Key (a, lower(b))=(1, x)': the same of the columns of an index and their values."""
        names, texts = [], []
        for column, value in zip(columns, values, strict=True):
            if column.number:
                names.append(quote_name(self.table.column_by_number(column.number).name))
            else:
                names.append(str(column.expression))
            encode = lookup(column.type.oid).text_encoder(self.settings)
            texts.append("null" if value is None else encode(value).decode())
        return f"Key ({', '.join(names)})=({', '.join(texts)})"


def same_key_test(catalog: Catalog, table: Table) -> Callable[[bytes, bytes], bool] | None:
    """The test whether two versions of a row agree in all unique columns (Transaction.get_locked); None if the row's
    key shows it."""
    writer = TableWriter(catalog, table)
    return None if writer.unique_columns() <= frozenset(table.key_columns) else writer.same_unique


def policy_violation(name: str) -> SqlError:
    """42501 for a row that a policy does not allow. `name`: the end of the name of its check (engine/sql/tree.py)."""
    policy, table = name[1:].split(POLICY_CHECK)
    row = "target row" if name[0] == "t" else "new row"
    which = f' "{policy}"' if policy else ""
    using = "" if name[0] == "n" else " (USING expression)"
    return SqlError("42501", f'{row} violates row-level security policy{which}{using} for table "{table}"')


def quote_name(name: str) -> str:
    """An identifier as quote_identifier() returns it, without regard to reserved words."""
    plain = name.isascii() and name.isidentifier() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'


def _same(left: object, right: object) -> bool:
    """Whether two values are identical; 1.0 and 1.00, or 1 and TRUE, are not."""
    return left is right or (type(left) is type(right) and left == right and repr(left) == repr(right))
