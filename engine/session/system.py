"""The content of pg_catalog for a session: what catalog/system describes, kept as Arrow batches as long as it holds.

`virtual_content(session)` is what the columnar client asks for the content of a virtual table. A version names what the
content depends on (content.py, scopes), so that the worker gets it once. A transaction with schema changes of its own
has a catalog that nobody else sees, and what is live holds for one query: their version is None.

Batches are kept by part and slice: when one table changes, the slice with its rows is made again, the others are joined
as they are. Definitions that must be printed anew (pretty ones, and those with names that the search path shortens) are
remembered by their text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from catalog import types
from catalog.errors import SqlError
from catalog.functions.sizes import may_see
from catalog.functions.system_rows import timezone_names
from catalog.privileges import acts_as, roles_of
from catalog.routines import function_in
from catalog.schema import (
    FIRST_USER_OID,
    READ_ALL_STATS_OID,
    Database,
    Role,
    Routine,
    Table,
    Tablespace,
    View,
    VirtualTable,
)
from catalog.schema import Sequence as SequenceObject
from catalog.system import content, lookups
from catalog.system.content import Item, Part
from catalog.types import oids
from catalog.types.base import Array, TypeRef
from engine.columnar.generate.catalog_functions import register_catalog_function
from engine.columnar.worker.values import to_arrow
from engine.index_checks import check_indexes
from engine.node import sizes
from engine.node.advisory_space import MODE_NAMES, LockName
from engine.node.exported_snapshots import ExportedSnapshots
from engine.node.stages import Stages
from engine.replica import token
from engine.session.change_streams import StreamCalls
from engine.session.cluster import cluster_rows
from engine.session.errors import canceled
from engine.session.history import History
from engine.session.key_ranges import key_ranges
from engine.session.open_sessions import open_sessions
from engine.session.signals import check_signal
from engine.session.system_settings import file_rows, rule_rows, setting_rows
from engine.session.waiting import result_of
from engine.sql import tree
from engine.sql.analyze import Environment, analyze_expression
from engine.sql.analyze.literals import read_literal
from engine.sql.analyze.references import Reference, references
from engine.sql.analyze.routines import body_of
from engine.sql.analyze.targets import column_name
from engine.sql.analyze.updatable import updatable_events
from engine.sql.analyze.views import stored_query
from engine.sql.deparse import deparse_expression, deparse_query
from engine.sql.normalize import hide_passwords
from engine.sql.parser import parse_expression
from engine.statistics.statements import Tally
from engine.txn.locks import TABLE_MODES

if TYPE_CHECKING:
    from engine.node.node import Node
    from engine.session.session import Session

SLICE_BITS = 8  # a slice holds the objects of 256 consecutive OIDs
WHOLES_KEPT = 256  # joined batches

_QUALIFIED = re.compile(r'[A-Za-z0-9_"]\.["A-Za-z_]|OPERATOR\(')
_BARE_PARENTHESIS = re.compile(r'(?<![A-Za-z0-9_"])\(')
_ONE_OPERATOR = re.compile(r"\([^()]*\)")
_SEQUENCE_DEFAULT = re.compile(r"nextval\('((?:[^']|'')+)'::regclass\)")
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*")

for _source, _call in lookups.catalog_calls.items():
    register_catalog_function(_source, _call.sql, _call.tables, _call.udfs)


# ---- batches --------------------------------------------------------------------------------------------------------


def virtual_content(session: Session) -> Callable[[VirtualTable, object], tuple[object, object]]:
    """What gives the columnar client the content of virtual tables, as this session sees it now."""

    def provide(relation: VirtualTable, reader: object) -> tuple[object, object]:
        return _content(session, relation)

    return provide


def _content(session: Session, relation: VirtualTable) -> tuple[object, object]:
    """(version, batch) of a relation. Equal versions, equal content; None: for this query only."""
    surroundings = SessionSurroundings(session)
    if relation.oid >= FIRST_USER_OID:
        return None, _sequence_row(session, relation)
    parts = content.parts.get(relation.oid, [])
    scopes = {part.scope for part in parts}
    if scopes <= {"fixed"}:
        return "fixed", _joined(relation, parts, surroundings)
    catalog = surroundings.catalog
    key: tuple[object, ...] = (catalog.database, catalog.version)
    if "session" in scopes:
        key = (*key, surroundings.path, surroundings.user)
    if "live" in scopes:
        return None, _joined(relation, parts, surroundings)
    wholes = surroundings.cache.wholes
    kept = wholes.get((relation.oid, id(catalog), key))
    if kept is None:
        kept = wholes[relation.oid, id(catalog), key] = (catalog, _joined(relation, parts, surroundings))
        if len(wholes) > WHOLES_KEPT:
            wholes.popitem(last=False)
    own = session.transaction is not None and bool(session.transaction.changed_objects)
    return None if own else key, kept[1]


def _joined(relation: VirtualTable, parts: list[Part], surroundings: SessionSurroundings) -> Any:
    batches = [batch for part in parts for batch in _batches(part, surroundings) if batch.num_rows]
    if not batches:
        return _batch(relation, {}, 0)
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _batches(part: Part, surroundings: SessionSurroundings) -> list[Any]:
    cache = surroundings.cache
    if part.scope == "fixed":
        if id(part) not in cache.fixed:
            cache.fixed[id(part)] = _made(part, [], surroundings)
        return [cache.fixed[id(part)]]
    if part.items is None:
        return [_made(part, [], surroundings)]
    sliced: dict[int, list[Item]] = {}
    for item in part.items(surroundings.catalog):
        number = 0 if item[0] is None else item[0].oid >> SLICE_BITS  # an extension that could be there has no object
        sliced.setdefault(number, []).append(item)
    key = (id(part), surroundings.catalog.database, *surroundings.session_key(part.scope))
    old = cache.slices.pop(key, {})
    new: dict[int, tuple[list[Item], Any]] = {}
    for number, items in sliced.items():
        kept = old.get(number)
        # Unchanged items are the same objects, which lists compare at once.
        new[number] = kept if kept is not None and kept[0] == items else (items, _made(part, items, surroundings))
    cache.slices[key] = new
    if len(cache.slices) > WHOLES_KEPT:
        cache.slices.popitem(last=False)
    return [batch for _, batch in new.values()]


def _made(part: Part, items: list[Item], surroundings: SessionSurroundings) -> Any:
    columns = part.columns(items, surroundings)
    count = content.row_count(columns) if not items else _rows(columns, items)
    return _batch(part.relation, columns, count)


def _rows(columns: content.Columns, items: list[Item]) -> int:
    return next((len(value) for value in columns.values() if isinstance(value, list)), len(items))


def _batch(relation: VirtualTable, columns: content.Columns, count: int) -> Any:
    """Columns as a record batch in DuckDB's types; constants are converted once."""
    arrays = []
    for column, values in zip(relation.columns, content.complete(relation, columns, count), strict=True):
        oid = column.type.oid
        form = types.lookup(oid).duckdb_type(column.type.typmod)
        if isinstance(values, list):
            arrays.append(to_arrow(values, oid, form))
        elif count == 0:
            arrays.append(to_arrow([], oid, form))
        else:
            one = to_arrow([values], oid, form)
            arrays.append(one if count == 1 else one.take(pa.array([0] * count, pa.int32())))
    return pa.RecordBatch.from_arrays(arrays, names=[f"c{column.number}" for column in relation.columns])


def _sequence_row(session: Session, relation: VirtualTable) -> Any:
    """SELECT ... FROM a sequence: where it stands."""
    sequence = session.catalog.get(relation.oid)
    assert isinstance(sequence, SequenceObject)
    last, is_called = session.node.sequences.current(sequence)
    ahead = session.node.sequences.logged_ahead(sequence)
    return _batch(relation, {"last_value": [last], "log_cnt": [ahead], "is_called": [is_called]}, 1)


# ---- what content depends on ----------------------------------------------------------------------------------------


class SessionSurroundings:
    """catalog.system.content.Surroundings for a session at this moment."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.catalog = session.catalog
        self.environment = session.environment
        self.path = self.environment.path_oids
        user = self.catalog.get(self.catalog.roles.get(session.user_name, 0))
        self.user = user if isinstance(user, Role) else None
        self.temporary_schema = session.temporary_schema_name if session.temporary_schema is not None else ""
        self.live: content.Live = NodeStatus(session)
        self.cache = session.node.system
        self._key = session.key
        self._temporary = session.temporary_schema

    def holds(self, session: Session) -> bool:
        """Whether this is still what the session sees."""
        return (
            self.catalog is session.catalog and self._key is session.key and self._temporary == session.temporary_schema
        )

    def session_key(self, scope: str) -> tuple[object, ...]:
        """What a part of this scope depends on beside the schema objects."""
        return (self.path, self.user, self.temporary_schema) if scope == "session" else ()

    def expression(self, text: str, table: Table | None, pretty: bool) -> str:
        """A stored expression as pg_get_expr shows it: printed anew only where that can make a difference."""
        qualified = _QUALIFIED.search(text) is not None
        if qualified:
            found = _SEQUENCE_DEFAULT.fullmatch(text)
            if found is not None and _PLAIN_NAME.fullmatch(found[1]):
                return f"nextval('{self._relation_text(found[1])}'::regclass)"
        elif not pretty or _BARE_PARENTHESIS.search(text) is None:
            return text
        elif _ONE_OPERATOR.fullmatch(text):
            return text[1:-1]
        key = (self.catalog.database, self.catalog.version if qualified else 0, self.path, text, pretty)
        return self.cache.text(key, lambda: self._printed(text, table, pretty))

    def _relation_text(self, name: str) -> str:
        schema, _, relation = name.partition(".")
        found = self.environment.find_relation(None, relation)
        wanted = self.environment.find_relation(schema, relation)
        return relation if found is not None and wanted is not None and found.oid == wanted.oid else name

    def _analysed(self, text: str, table: Table | None) -> tree.Expr:
        inside = Environment(self.catalog, ("pg_catalog", "public"), self.session.user_name)
        return analyze_expression(parse_expression(text), inside, table, None, "index expressions" if table else "")

    def _printed(self, text: str, table: Table | None, pretty: bool) -> str:
        entries = () if table is None else self._entries(table)
        return deparse_expression(self._analysed(text, table), entries, self.catalog, self.path, pretty)

    @staticmethod
    def _entries(table: Table) -> tuple[tree.RangeEntry, ...]:
        columns = tuple(tree.RangeColumn(column.name, column.type) for column in table.columns)
        return (tree.RangeTable(table, table.name, columns),)

    def is_call(self, text: str, table: Table) -> bool:
        """Whether an index definition shows the expression without parentheses of its own."""
        found = self._analysed(text, table)
        if isinstance(found, tree.FuncExpr):
            return found.operator is None and found.display in ("call", "sql_syntax")
        return isinstance(found, tree.CoalesceExpr | tree.MinMaxExpr | tree.NullIfExpr | tree.SqlValueFunction)

    def expression_name(self, text: str) -> str:
        """The name of an index column over the expression."""
        name = self.cache.text(("name", text), lambda: column_name(parse_expression(text)))
        return "expr" if name == "?column?" else name

    def read_name(self, type_oid: int, text: str) -> int:
        """The OID of what a reg type's input names. Raises 42P01, 42704, 42883, 3F000."""
        found = read_literal(self.environment, text, type_oid, -1, -1)
        assert isinstance(found, int)
        return found

    def last_commit_token(self) -> str:
        """The session's last commit, for `read_after` on another node."""
        return token(self.session.last_commit)

    def write_checkpoint(self, run: object) -> int:
        """shoal_checkpoint(): the LSN of the checkpoint. Raises LockWait until it is written, 42501, 55000."""
        write = self.session.node.write_checkpoint
        self.session.require_superuser("shoal_checkpoint")
        if write is None:
            hint = "CHECKPOINT flushes what is in memory."
            raise SqlError("55000", "this node is not part of a cluster: it has no store for checkpoints", hint=hint)
        return cast(int, result_of(self.session, "shoal_checkpoint", run, write))

    def begin_check(self, run: object) -> str:
        """shoal_check(): the id of the check, 32 hexadecimal digits. Raises LockWait until it is on its way, 42501,
        25006, 55000."""
        self.session.require_superuser("shoal_check")
        if self.session.transaction is not None:
            self.session.transaction.refuse_if_read_only("shoal_check()")
        found = result_of(self.session, "shoal_check", run, self.session.node.checks.request)
        return cast(bytes, found).hex()

    def check_indexes(self, run: object) -> str:
        """shoal_check_indexes(): what is found, as JSON. Raises LockWait until it is, 42501."""
        self.session.require_superuser("shoal_check_indexes")
        return cast(str, result_of(self.session, "shoal_check_indexes", run, partial(check_indexes, self.session)))

    @property
    def history(self) -> History:
        """What is known of backups, LSNs and times."""
        return History(self.session)

    @property
    def change_streams(self) -> StreamCalls:
        """What the functions of change streams do."""
        return StreamCalls(self.session, self.catalog, self.user)

    def key_ranges(self, oid: int, parts: int) -> Sequence[str]:
        """shoal_key_ranges(). Raises 42P01, 42501, 22023."""
        return key_ranges(self.session, oid, parts)

    @property
    def stages(self) -> Stages:
        return self.session.node.stages

    @property
    def snapshots(self) -> ExportedSnapshots:
        return self.session.node.exported

    def signal(self, process_id: int, terminate: bool) -> bool:
        """Cancels what a session runs, or ends the session. False, with a warning, if there is no such session.
        Raises 42501."""
        target = open_sessions(self.session.node).get(process_id)
        if target is None:
            self.session.warn("01000", f"PID {process_id} is not a PostgreSQL backend process")
            return False
        check_signal(self.session, target, terminate)
        error = canceled()
        if terminate:
            error = SqlError("57P01", "terminating connection due to administrator command", severity="FATAL")
        if target is self.session:
            raise error
        target.cancel(error)
        return True

    def transaction_number(self, assign: bool) -> int | None:
        """A number of the session's transaction, given when it is first asked for."""
        transaction = self.session.transaction
        if transaction is None:
            return next(self.cache.numbers) if assign else None
        key = (id(transaction), transaction.start_time)
        known = self.cache.numbered.get(self.session.process_id)
        if known is not None and known[:2] == key:
            return known[2]
        if not assign:
            return None
        number = next(self.cache.numbers)
        self.cache.numbered[self.session.process_id] = (*key, number)
        return number

    def relation_size(self, oid: int) -> tuple[int | None, int] | None:
        """(its own size, its indexes' size) in bytes, as engine/node/sizes.py says."""
        return sizes.relation_size(self.session.node, self.catalog, oid)

    def rows_written(self, kind: str, oid: int) -> int:
        """How many rows of a table were inserted, updated or deleted (`kind`) here (engine/execute/written.py)."""
        counts: dict[int, int] = getattr(self.session.node.written, kind)
        return counts.get(oid, 0)

    def live_rows(self, oid: int) -> int:
        item = self.catalog.objects.get(oid)
        return sizes.rows_in(self.session.node, item) if isinstance(item, Table) else 0

    def database_size(self, oid: int) -> int | None:
        return sizes.database_size(self.session.node, oid)

    def tablespace_size(self, oid: int) -> int:
        return sizes.tablespace_size(self.session.node, oid)

    def updatable(self, view: View) -> tuple[int, dict[int, int]]:
        """What can be done to a view, in all and by column."""
        return updatable_events(view, Environment(self.catalog, user_name=self.session.user_name))

    def references(self, item: View | Table | Routine) -> Sequence[Reference]:
        """What a view's query, or a body in SQL's own form, refers to."""
        inside = Environment(self.catalog, ("pg_catalog", "public"), self.session.user_name)
        if not isinstance(item, Routine):
            return references((stored_query(item, inside),))
        return references(self._statements(item, inside))

    def _statements(self, item: Routine, inside: Environment) -> Sequence[tree.Query]:
        """The queries of a body in SQL's own form, as they were written: not yet of the type that is returned."""
        function = function_in(self.catalog, item)
        body = body_of(item, inside, function, item.signature, TypeRef(oids.VOID))
        return [cast(tree.Query, statement.statement) for statement in body.statements]

    def body(self, routine: Routine) -> Sequence[str]:
        """The statements of a body in SQL's own form, as definitions show them to this session."""
        inside = Environment(self.catalog, ("pg_catalog", "public"), self.session.user_name)
        queries = self._statements(routine, inside)
        if routine.is_expression:
            return [f"SELECT {deparse_expression(queries[0].output[0].expression, (), self.catalog, self.path)}"]
        return [deparse_query(query, self.catalog, self.path) for query in queries]

    def expression_references(self, text: str, table: Table) -> Sequence[Reference]:
        """What an expression over a table refers to."""
        return references((self._analysed(text, table),), self._entries(table))

    def view(self, view: View | Table, pretty: bool) -> str:
        """A view's query as this session sees it."""
        key = (self.catalog.database, self.catalog.version, self.path, view.oid, pretty)
        return self.cache.text(key, lambda: self._printed_view(view, pretty))

    def _printed_view(self, view: View | Table, pretty: bool) -> str:
        query = stored_query(view, Environment(self.catalog, user_name=self.session.user_name))
        names = tuple(column.name for column in view.columns)
        return deparse_query(query, self.catalog, self.path, names, pretty) + ";"


# ---- the running node -----------------------------------------------------------------------------------------------

_LOCK_MODES = {
    number: "".join(word.capitalize() for word in name.split()) + "Lock" for name, number in TABLE_MODES.items()
}
_INET = types.lookup(oids.INET).text_decoder()
_MILLISECOND = 1_000_000  # nanoseconds
_BYTES = {"kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


class NodeStatus:
    """catalog.system.content.Live over a node."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._node: Node = session.node

    def settings(self) -> list[dict[str, object]]:
        return setting_rows(self._session)

    def file_settings(self) -> list[dict[str, object]]:
        return file_rows(self._session)

    def host_rules(self) -> list[dict[str, object]]:
        return rule_rows(self._session)

    def shown_settings(self) -> list[tuple[str, str]]:
        """(name, value) of every setting, as SHOW prints it."""
        return self._session.shown_settings()

    def activity(self) -> list[dict[str, object]]:
        """One row a session; the query texts of others are for superusers."""
        rows = []
        catalog = self._session.catalog
        user, sees_all = self._user()
        mine = set() if user is None else roles_of(catalog, user)
        for session in open_sessions(self._node).values():
            transaction = session.transaction
            visible = sees_all or catalog.roles.get(session.user_name) in mine
            row: dict[str, object] = {
                "datid": session.database_oid, "datname": session.database_name, "pid": session.process_id,
                "usesysid": catalog.roles.get(session.user_name), "usename": session.user_name,
                "application_name": session.setting("application_name"),
                "backend_type": "client backend", "query": "<insufficient privilege>",
            }  # fmt: skip
            if visible:
                state = state_of(session)
                wait_type, wait = _waits_for(session)
                began = session.query_start if state == "active" else 0  # a read may need no transaction
                began = began if transaction is None else transaction.start_time
                started = session.query_start  # both are made of two clocks, to the microsecond
                changed = started if state == "active" else max(started, session.query_end)
                row |= {
                    "backend_start": session.backend_start, "state": state,
                    "xact_start": began or None,
                    "query_start": started or None, "state_change": changed or session.backend_start,
                    "wait_event_type": wait_type, "wait_event": wait, "query_id": session.query_id,
                    "query": hide_passwords(session.query_text),
                }  # fmt: skip
                if session.client_address is not None:
                    row["client_addr"] = _INET(session.client_address[0])
                    row["client_port"] = session.client_address[1]
            rows.append(row)
        return rows

    def encryption(self) -> list[dict[str, object]]:
        """Of each session that this one sees: whether its client speaks TLS, and how."""
        catalog = self._session.catalog
        user, sees_all = self._user()
        mine = set() if user is None else roles_of(catalog, user)
        rows: list[dict[str, object]] = []
        for session in open_sessions(self._node).values():
            if sees_all or catalog.roles.get(session.user_name) in mine:
                version, cipher, bits = session.tls or (None, None, None)
                rows.append({
                    "pid": session.process_id, "ssl": session.tls is not None, "version": version, "cipher": cipher,
                    "bits": bits,
                })  # fmt: skip
        return rows

    def large_objects(self) -> list[dict[str, object]]:
        """Those of the session's database, as it sees them now."""
        return [{"oid": oid, "lomowner": owner} for oid, owner in self._session.large_objects.rows()]

    def locks(self) -> list[dict[str, object]]:
        """The table locks that transactions hold, and those that they wait for."""
        rows: list[dict[str, object]] = []
        for session in open_sessions(self._node).values():
            transaction = session.transaction
            rows += _advisory_rows(session)
            if transaction is None:
                continue
            common = {
                "locktype": "relation", "database": session.database_oid, "pid": session.process_id,
                "virtualtransaction": f"{session.process_id}/1", "fastpath": False,
            }  # fmt: skip
            for name, modes in transaction.table_locks.items():
                if isinstance(name, int):
                    rows += [
                        {**common, "relation": name, "mode": shown, "granted": True}
                        for mode, shown in _LOCK_MODES.items()
                        if modes & mode
                    ]
            ticket = transaction.waiting
            if ticket is not None and isinstance(ticket.name, int):
                mode = _LOCK_MODES.get(ticket.mode, "ExclusiveLock")
                rows.append({**common, "relation": ticket.name, "mode": mode, "granted": False})
        return rows

    def cursors(self) -> list[dict[str, object]]:
        return [
            {
                "name": portal.name.decode(), "statement": portal.prepared.statement.whole,
                "is_holdable": portal.holdable, "is_binary": bool(portal.formats) and all(portal.formats),
                "is_scrollable": portal.scroll,
                "creation_time": self._node.clock(),
            }
            for portal in self._session.portals.values()
            if portal.name
        ]  # fmt: skip

    def prepared_statements(self) -> list[dict[str, object]]:
        return [
            {
                "name": name.decode(), "statement": prepared.statement.whole, "prepare_time": self._node.clock(),
                "parameter_types": Array.of(prepared.declared_types), "from_sql": False,
                "generic_plans": 0, "custom_plans": 0,
            }
            for name, prepared in self._session.prepared.items()
            if name
        ]  # fmt: skip

    def prepared_transactions(self) -> list[dict[str, object]]:
        catalog = self._session.catalog
        return [
            {
                "transaction": item.number, "gid": item.identifier, "prepared": item.prepared_at,
                "owner": getattr(catalog.get(item.owner), "name", None),
                "database": getattr(catalog.get(item.database), "name", None),
            }
            for item in self._node.prepared.shown()
        ]  # fmt: skip

    def timezones(self) -> list[dict[str, object]]:
        names = ("name", "abbrev", "utc_offset", "is_dst")
        return [dict(zip(names, row, strict=True)) for row in timezone_names()]

    def copies(self) -> list[dict[str, object]]:
        """pg_stat_progress_copy: every COPY that runs; how far it is, for its user and for superusers."""
        _, sees_all = self._user()
        rows: list[dict[str, object]] = []
        for session in open_sessions(self._node).values():
            progress = session.copying
            if progress is None:
                continue
            row: dict[str, object] = {
                "pid": session.process_id, "datid": session.database_oid, "datname": session.database_name,
            }  # fmt: skip
            if sees_all or session.user_name == self._session.user_name:
                row |= {
                    "relid": progress.relation, "command": progress.command, "type": "PIPE",
                    "bytes_processed": progress.bytes, "bytes_total": 0, "tuples_processed": progress.rows,
                    "tuples_excluded": progress.excluded,
                }  # fmt: skip
            rows.append(row)
        return rows

    def databases(self) -> list[dict[str, object]]:
        """pg_stat_database. What has no counterpart here (blocks, temporary files) is zero."""
        zeros = ("blks_read", "blks_hit", "conflicts", "temp_files", "temp_bytes", "sessions_abandoned",
                 "sessions_fatal")  # fmt: skip
        times = ("blk_read_time", "blk_write_time", "session_time", "active_time", "idle_in_transaction_time")
        node = self._node
        rows: list[dict[str, object]] = []
        for name, oid in self._session.catalog.databases.items():
            sessions = [session for session in open_sessions(node).values() if session.database_oid == oid]
            known = node.activity.now(oid, sessions)
            fetched = node.statements.rows_fetched(oid)
            catalog = node.catalogs.get(oid)
            inserted, updated, deleted = (0, 0, 0) if catalog is None else node.written.of_database(catalog)
            rows.append({
                "datid": oid, "datname": name, "numbackends": len(sessions),
                "xact_commit": known.commits + node.statements.single_reads(oid), "xact_rollback": known.rollbacks,
                "tup_returned": fetched, "tup_fetched": fetched, "tup_inserted": inserted, "tup_updated": updated,
                "tup_deleted": deleted, "deadlocks": known.deadlocks, "sessions": known.sessions,
                "sessions_killed": known.killed, "stats_reset": node.started,
                **dict.fromkeys(zeros, 0), **dict.fromkeys(times, 0.0),
            })  # fmt: skip
        return rows

    def sequence_values(self) -> list[tuple[int, int | None]]:
        """(OID, last value or None) of every sequence."""
        found: list[tuple[int, int | None]] = []
        for item in self._session.catalog.objects.values():
            if isinstance(item, SequenceObject):
                last, is_called = self._node.sequences.current(item)
                found.append((item.oid, last if is_called else None))
        return found

    def relation_sizes(self) -> list[tuple[int, int | None, int]]:
        return sizes.relation_sizes(self._node, self._session.catalog)

    def table_counts(self) -> list[tuple[int, int, int, int, int]]:
        """(OID, rows inserted, updated, deleted, there) of every table."""
        written, live = self._node.written, sizes.live_rows(self._node, self._session.catalog)
        counts = (written.inserted, written.updated, written.deleted)
        return [(oid, *(count.get(oid, 0) for count in counts), rows) for oid, rows in live.items()]  # type: ignore[misc]

    def database_sizes(self) -> list[tuple[int, str, int | None]]:
        """(OID, name, size) of the databases whose size the user may see."""
        return [
            (oid, name, sizes.database_size(self._node, oid))
            for name, oid in self._session.catalog.databases.items()
            if self._may_see(oid)
        ]

    def tablespace_sizes(self) -> list[tuple[int, str, int]]:
        return [
            (oid, name, sizes.tablespace_size(self._node, oid))
            for name, oid in self._session.catalog.tablespaces.items()
            if self._may_see(oid)
        ]

    def _may_see(self, oid: int) -> bool:
        catalog = self._session.catalog
        item, user = catalog.get(oid), catalog.get(catalog.roles.get(self._session.user_name, 0))
        assert isinstance(item, Database | Tablespace)
        return may_see(catalog, user if isinstance(user, Role) else None, item)

    def started(self) -> int:
        return self._node.started

    def statements(self) -> list[content.StatementRow]:
        """Every statement that has run; the texts of other users' are for superusers."""
        user, sees_all = self._user()
        return [
            _statement_row(tally, sees_all or (user is not None and user.oid == tally.user))
            for tally in self._node.statements.entries()
        ]

    def statements_info(self) -> tuple[int, int]:
        return self._node.statements.dropped, self._node.statements.since

    def reset_statements(self, user: int, database: int, queryid: int) -> None:
        self._node.statements.reset(user, database, queryid)

    def _user(self) -> tuple[Role | None, bool]:
        """The session's user, and whether it sees what all sessions do."""
        catalog = self._session.catalog
        user = catalog.get(catalog.roles.get(self._session.user_name, 0))
        found = user if isinstance(user, Role) else None
        return found, acts_as(catalog, found, READ_ALL_STATS_OID)

    def cluster(self, view: str) -> list[dict[str, object]]:
        return cluster_rows(self._session, view)


def _advisory_rows(session: Session) -> list[dict[str, object]]:
    """The advisory locks that a session holds, or waits for."""
    held, transaction = session.advisory_held, session.transaction
    if held is None:
        return []
    locks = [(name, modes, True) for name, modes in held.table_locks.items()]
    ticket = None if transaction is None else transaction.waiting
    if ticket is not None and ticket.owner is held:
        locks.append((ticket.name, ticket.mode, False))
    rows: list[dict[str, object]] = []
    for name, modes, granted in locks:
        database, first, second, kind = cast(LockName, name)
        rows += [
            {
                "locktype": "advisory", "database": database, "classid": first, "objid": second, "objsubid": kind,
                "pid": session.process_id, "virtualtransaction": f"{session.process_id}/1", "mode": shown,
                "granted": granted, "fastpath": False,
            }
            for mode, shown in MODE_NAMES.items()
            if modes & mode
        ]  # fmt: skip
    return rows


def _statement_row(tally: Tally, readable: bool) -> content.StatementRow:
    mean = tally.total / tally.calls
    deviation = max(tally.squares / tally.calls - mean * mean, 0.0) ** 0.5
    return content.StatementRow(
        tally.user,
        tally.database,
        tally.queryid,
        tally.text,
        tally.calls,
        tally.total / _MILLISECOND,
        tally.least / _MILLISECOND,
        tally.most / _MILLISECOND,
        mean / _MILLISECOND,
        deviation / _MILLISECOND,
        tally.rows,
        readable,
    )


def _waits_for(session: Session) -> tuple[str | None, str | None]:
    """wait_event_type and wait_event: the lock, or the client."""
    transaction = session.transaction
    ticket = None if transaction is None else transaction.waiting
    if ticket is None:
        return (None, None) if state_of(session) == "active" else ("Client", "ClientRead")
    if ticket.owner is session.advisory_held:
        return "Lock", "advisory"
    return "Lock", "relation" if isinstance(ticket.name, int) else "transactionid"


def state_of(session: Session) -> str:
    """What pg_stat_activity.state shows."""
    waits = session.transaction is not None and session.transaction.waiting is not None
    if session.carried == "active" or waits or (session.task is not None and not session.task.done()):
        return "active"
    if session.carried:
        return {"I": "idle", "T": "idle in transaction"}.get(session.carried, "idle in transaction (aborted)")
    if session.status == "E":
        return "idle in transaction (aborted)"
    return "idle in transaction" if session.in_block else "idle"
