"""The present state of the running node: sessions, locks, cursors, sizes, statements, settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from catalog import types
from catalog.functions.sizes import may_see
from catalog.functions.system_rows import timezone_names
from catalog.privileges import acts_as, roles_of
from catalog.schema import (
    READ_ALL_STATS_OID,
    Database,
    Role,
    Tablespace,
)
from catalog.schema import Sequence as SequenceObject
from catalog.system import content
from catalog.types import oids
from catalog.types.base import Array
from engine.node import sizes
from engine.node.advisory_space import MODE_NAMES, LockName
from engine.session import activity
from engine.session.open_sessions import open_sessions
from engine.sql.normalize import hide_passwords
from engine.statistics.statements import Tally
from engine.system_views.cluster import cluster_rows
from engine.system_views.settings import file_rows, rule_rows, setting_rows
from engine.txn.locks import TABLE_MODES

if TYPE_CHECKING:
    from engine.node.function_statistics import CallCounts
    from engine.node.node import Node
    from engine.session.session import Session

_LOCK_MODES = {
    number: "".join(word.capitalize() for word in name.split()) + "Lock" for name, number in TABLE_MODES.items()
}
_INET = types.lookup(oids.INET).text_decoder()
_MILLISECOND = 1_000_000  # nanoseconds
_BYTES = {"kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


class NodeStatus:
    """A catalog.system.content.Live over a node."""

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
        return self._session.variables.list_shown()

    def activity(self) -> list[dict[str, object]]:
        """One row for each session. Only superusers see the query texts of others."""
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
                "application_name": session.variables.get("application_name"),
                "backend_type": "client backend", "query": "<insufficient privilege>",
            }  # fmt: skip
            if visible:
                state = activity.state_of(session)
                wait_type, wait = activity.waits_for(session)
                began = activity.query_start(session) if state == "active" else 0  # a read may need no transaction
                began = began if transaction is None else transaction.start_time
                started = activity.query_start(session)  # both are made of two clocks, to the microsecond
                changed = started if state == "active" else max(started, activity.query_end(session))
                row |= {
                    "backend_start": session.client.since, "state": state,
                    "xact_start": began or None,
                    "query_start": started or None, "state_change": changed or session.client.since,
                    "wait_event_type": wait_type, "wait_event": wait, "query_id": activity.query_id(session),
                    "query": hide_passwords(activity.sent_text(session)),
                }  # fmt: skip
                if session.client.address is not None:
                    row["client_addr"] = _INET(session.client.address[0])
                    row["client_port"] = session.client.address[1]
            rows.append(row)
        return rows

    def encryption(self) -> list[dict[str, object]]:
        """For each visible session: whether its client uses TLS, and its version and cipher."""
        catalog = self._session.catalog
        user, sees_all = self._user()
        mine = set() if user is None else roles_of(catalog, user)
        rows: list[dict[str, object]] = []
        for session in open_sessions(self._node).values():
            if sees_all or catalog.roles.get(session.user_name) in mine:
                tls = session.client.tls
                version, cipher, bits = tls or (None, None, None)
                rows.append({
                    "pid": session.process_id, "ssl": tls is not None, "version": version, "cipher": cipher,
                    "bits": bits,
                })  # fmt: skip
        return rows

    def large_objects(self) -> list[dict[str, object]]:
        """The large objects of the session's database that it sees."""
        return [{"oid": oid, "lomowner": owner} for oid, owner in self._session.large_objects.rows()]

    def locks(self) -> list[dict[str, object]]:
        """The table locks that transactions hold or wait for."""
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
                "parameter_types": Array.of(prepared.parameters.declared), "from_sql": False,
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
            for item in self._node.prepared.list_shown()
        ]  # fmt: skip

    def timezones(self) -> list[dict[str, object]]:
        names = ("name", "abbrev", "utc_offset", "is_dst")
        return [dict(zip(names, row, strict=True)) for row in timezone_names()]

    def copies(self) -> list[dict[str, object]]:
        """pg_stat_progress_copy: every running COPY. Its user and superusers see the progress."""
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
        """pg_stat_database. Columns without a counterpart in Shoal (blocks, temporary files) are zero."""
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

    def function_counts(self) -> list[tuple[object, ...]]:
        """See catalog.system.content.Live."""
        calls = self._session.function_calls
        ended, pending = calls.by_function(), calls.pending()
        return [
            (oid, *_in_milliseconds(ended.get(oid)), *_in_milliseconds(pending.get(oid)))
            for oid in {**ended, **pending}
        ]

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

    def get_start(self) -> int:
        return self._node.started

    def notification_pages(self) -> int:
        return self._session.function_calls.notification_pages()

    def statements(self) -> list[content.StatementRow]:
        """Every statement that has run. Only superusers see the texts of other users."""
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
        """The session's user, and whether it may see all sessions."""
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


def _in_milliseconds(counts: CallCounts | None) -> tuple[object, ...]:
    return (None, None, None) if counts is None else (counts.calls, counts.total * 1000, counts.own * 1000)
