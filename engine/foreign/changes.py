"""Changes of foreign tables: INSERT, UPDATE and DELETE as a query, and a statement for each of its rows.

The remote server checks constraints and computes generated columns; defaults are those of the foreign table. Nothing
local depends on the rows, so what the remote server has done is undone by its transaction alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.catalog import Catalog
from catalog.errors import SqlError, not_supported
from catalog.schema import Column, ForeignServer, Table, VirtualTable
from catalog.types import lookup, oids
from catalog.types.base import TypeRef
from engine.foreign import remote_sql
from engine.foreign.connections import ForeignConnections
from engine.foreign.scans import place_column, server_of, with_whole_rows
from engine.sql import tree
from engine.sql.parts import FIRST_RESULT_OID, scan_of
from engine.sql.tree_walk import walk_with_depth

_ROWS_OID, _RETURNED_OID = FIRST_RESULT_OID + 0x3FFE, FIRST_RESULT_OID + 0x3FFF
_VERBS = {tree.Insert: "INSERT", tree.Update: "UPDATE", tree.Delete: "DELETE"}
_WORDS = {"INSERT": "inserts", "UPDATE": "updates", "DELETE": "deletes"}
_TEXT = TypeRef(oids.TEXT)


@dataclass(frozen=True, slots=True)
class RemoteChange:
    """`source`: the query whose rows, in `rows`, become `sql`'s parameters; of UPDATE and DELETE the first is the
    remote ctid. `returned`: the table of the rows that come back; `returning`: the query over it."""

    command: str
    table: Table
    shown: str
    server: ForeignServer
    source: tree.Query
    rows: VirtualTable
    sql: str
    returned: VirtualTable
    returning: tree.Query


def remote_change(root: tree.Statement, catalog: Catalog) -> RemoteChange | None:
    """The change of a foreign table; None for a change of another one, or a query. Raises 0A000, 55000."""
    changed = [part for part in (root, *(cte.query for cte in root.ctes)) if not isinstance(part, tree.Query)]
    if not any(part.table.server for part in changed):
        return None
    if isinstance(root, tree.Query | tree.Merge) or len(changed) > 1:
        if isinstance(root, tree.Merge) and root.table.server:
            detail = "This operation is not supported for foreign tables."
            raise SqlError("0A000", f'cannot execute MERGE on relation "{root.table.name}"', detail=detail)
        not_supported("a change of a foreign table beside others in WITH")
    if root.views:
        not_supported("a change of a foreign table through a view")
    server = server_of(catalog, root.table)
    verb = _VERBS[type(root)]
    options = dict(server.options) | dict(root.table.foreign_options)
    if options.get("updatable", "true").lower() not in ("true", "on", "1"):
        raise SqlError("55000", f'foreign table "{root.table.name}" does not allow {_WORDS[verb]}')
    return _Maker(root, catalog, server, verb).make()


class _Maker:
    def __init__(
        self,
        root: tree.Insert | tree.Update | tree.Delete,
        catalog: Catalog,
        server: ForeignServer,
        verb: str,
    ) -> None:
        self._root = root
        self._table = root.table
        self._schema = catalog.schema_name(root.table.schema)
        self._server = server
        self._verb = verb

    def make(self) -> RemoteChange:
        root, table = self._root, self._table
        if isinstance(root, tree.Insert):
            source, sql = self._insert(root)
        elif isinstance(root, tree.Update):
            source, sql = self._update(root)
        else:
            source = self._places((), root)
            sql = f"DELETE FROM {self._remote} WHERE ctid = $1"
        returned = VirtualTable(_RETURNED_OID, 0, "returned", self._returned_columns())
        if root.returning:
            sql += f" RETURNING {', '.join(self._names(returned.columns))}"
        columns = tuple(
            Column(number, target.name, target.expression.type) for number, target in enumerate(source.targets, 1)
        )
        rows = VirtualTable(_ROWS_OID, 0, "changes", columns)
        return RemoteChange(
            self._verb, table, f"{self._schema}.{table.name}", self._server, source, rows, sql, returned,
            self._returning(returned),
        )  # fmt: skip

    @property
    def _remote(self) -> str:
        return remote_sql.remote_name(self._table, self._schema)

    # ---- the rows -----------------------------------------------------------------------------------------------

    def _insert(self, root: tree.Insert) -> tuple[tree.Query, str]:
        table = self._table
        stored = [column for column in table.columns if column.generated is None]
        if root.on_conflict is not None and (root.on_conflict.action != "nothing" or root.on_conflict.index_oids):
            raise SqlError("42P10", tree.NO_ARBITER)
        if root.rows:
            source = self._values(root, stored)
        else:
            assert root.source is not None
            places = {number: at for at, number in enumerate(root.source_columns, 1)}
            defaults = {item.column: item.expression for item in root.defaults}
            shown = tuple(tree.RangeColumn(item.name, item.expression.type) for item in root.source.output)
            targets = []
            for column in stored:
                at = places.get(column.number)
                value: tree.Expr
                if at is None:
                    value = defaults.get(column.number, tree.Const(None, column.type))
                else:
                    value = tree.Var(0, at, shown[at - 1].type, 0, column.name)
                targets.append(tree.Target(value, column.name))
            entry = tree.RangeSubquery(root.source, "source", shown)
            source = tree.Query(tuple(targets), (entry,), (tree.FromRef(0),), ctes=root.ctes, volatile=True)
        names = ", ".join(remote_sql.column_name(column) for column in stored)
        values = ", ".join(f"${number}" for number in range(1, len(stored) + 1))
        sql = f"INSERT INTO {self._remote}({names}) VALUES ({values})" if stored else self._insert_defaults()
        if root.on_conflict is not None:
            sql += " ON CONFLICT DO NOTHING"
        return source, sql

    def _insert_defaults(self) -> str:
        return f"INSERT INTO {self._remote} DEFAULT VALUES"

    def _values(self, root: tree.Insert, stored: Sequence[Column]) -> tree.Query:
        """The rows of VALUES as a query."""
        places = [at for at, column in enumerate(self._table.columns) if column.generated is None]
        rows = tuple(tuple(row[at] for at in places) for row in root.rows)
        if len(rows) == 1:
            targets = tuple(tree.Target(value, column.name) for value, column in zip(rows[0], stored, strict=True))
            return tree.Query(targets, ctes=root.ctes, volatile=True)
        shown = tuple(tree.RangeColumn(column.name, column.type) for column in stored)
        targets = tuple(
            tree.Target(tree.Var(0, at, column.type, 0, column.name), column.name)
            for at, column in enumerate(stored, 1)
        )
        entry = tree.RangeValues(rows, "values", shown)
        return tree.Query(targets, (entry,), (tree.FromRef(0),), ctes=root.ctes, volatile=True)

    def _update(self, root: tree.Update) -> tuple[tree.Query, str]:
        by_number = {column.number: column for column in self._table.columns}
        columns = [by_number[item.column] for item in root.assignments]
        values = tuple(
            tree.Target(item.expression, column.name) for item, column in zip(root.assignments, columns, strict=True)
        )
        settings = [f"{remote_sql.column_name(column)} = ${number}" for number, column in enumerate(columns, 2)]
        settings += [
            f"{remote_sql.column_name(column)} = DEFAULT" for column in self._table.columns if column.generated
        ]
        return self._places(values, root), f"UPDATE {self._remote} SET {', '.join(settings)} WHERE ctid = $1"

    def _places(self, values: tuple[tree.Target, ...], root: tree.Update | tree.Delete) -> tree.Query:
        """The query of the ctid and the new values of each row, which it locks."""
        place = tree.Target(tree.Var(0, place_column(self._table), _TEXT, 0, "ctid"), "ctid")
        return tree.Query(
            (place, *values), root.range_table, (tree.FromRef(0), *root.from_items), root.where, ctes=root.ctes,
            row_marks=(tree.RowMark(0, "update", "block"),),
        )  # fmt: skip

    # ---- RETURNING ----------------------------------------------------------------------------------------------

    def _returned_columns(self) -> tuple[Column, ...]:
        """A column for each number of the table's."""
        if not self._root.returning:
            return ()
        known = {column.number: column for column in self._table.columns}
        found = []
        for number in range(1, place_column(self._table)):
            column = known.get(number)
            found.append(Column(number, "", _TEXT) if column is None else Column(number, column.name, column.type))
        return tuple(found)

    def _names(self, columns: Sequence[Column]) -> list[str]:
        known = {column.number: column for column in self._table.columns}
        names = []
        for column in columns:
            own = known.get(column.number)
            names.append("NULL" if own is None else remote_sql.column_name(own))
        return names

    def _returning(self, returned: VirtualTable) -> tree.Query:
        root = self._root
        if not root.returning:
            return tree.Query((tree.Target(tree.Const(None, _TEXT), ""),), where=tree.Const(False, TypeRef(oids.BOOL)))
        shown = tuple(tree.RangeColumn(column.name, column.type) for column in returned.columns)
        cte = tree.Cte("rows", shown, scan_of(tree.RangeTable(returned, returned.name, shown)))
        entry = tree.RangeCte("rows", 0, root.table.name, shown)
        query = tree.Query(root.returning, (entry,), (tree.FromRef(0),), ctes=(cte,))
        for item, depth in walk_with_depth(query):
            if isinstance(item, tree.Var) and item.levels_up == depth - 1 and item.relation:
                not_supported("RETURNING with columns of other tables in a change of a foreign table")
        return with_whole_rows(query, 0, self._table)


# ---- running --------------------------------------------------------------------------------------------------------


async def run(
    connections: ForeignConnections, role: int, change: RemoteChange, rows: Sequence[Sequence[object]]
) -> tuple[int, list[tuple[object, ...]]]:
    """Sends the statement for each row: the number of rows that were changed, and those of RETURNING."""
    connection = await connections.get(change.server, role)
    types = [column.type.oid for column in change.rows.columns]
    decoders = [lookup(column.type.oid).text_decoder(typmod=column.type.typmod) for column in change.returned.columns]
    count, returned, seen = 0, list[tuple[object, ...]](), set[object]()
    for row in rows:
        if change.command != "INSERT":
            if row[0] in seen:  # another row of FROM has changed it
                continue
            seen.add(row[0])
        texts = [remote_sql.value_text(value, oid) for value, oid in zip(row, types, strict=True)]
        answer = await connection.run(change.sql, texts)
        count += int(answer.tag.rpartition(" ")[2] or 0)
        for cells in answer.rows() if change.returned.columns else ():
            returned.append(
                tuple(
                    None if cell is None else decode(cell.decode())
                    for decode, cell in zip(decoders, cells, strict=True)
                )
            )
    return count, returned
