"""Sessions and statements that read the past.

    SET as_of = ...         the session uses another node from here on (engine/past/nodes.py), until RESET as_of
    FROM t AS OF ...        the statement, without those words, runs in a separate session on such a node. All its
                            tables are of the same moment; two moments are refused

A moment is an LSN of pg_default or a time. A time includes all commits up to it; an LSN includes, in the other
tablespaces, all commits up to its commit time (engine/past/manager.py). A statement needs the privileges of the moment
and those that its user has when it is planned, and a superuser must have been one at the moment and be one now.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, cast

from catalog.errors import SqlError, not_supported
from catalog.schema import Role, Table
from catalog.types import format_type, lookup, oids
from catalog.types.base import TypeRef
from catalog.types.datetime import reading_constants
from engine.execute.context import ExecContext, RowPathFull
from engine.execute.expressions import compile_value
from engine.past.manager import Past, past_of
from engine.session.answer import Sink
from engine.session.plan import Answer, Plan
from engine.session.portal import Portal
from engine.session.prepared import PastWait, Prepared
from engine.session.session import Session
from engine.session.statement_texts import may_read_past
from engine.sql import ast
from engine.sql.analyze import Shared, runnable_expression, statement_parameters
from engine.sql.parser import parse
from engine.sql.tree_walk import walk
from engine.statements import planning
from engine.statements import run as running
from engine.statements.rows_plan import RowsPlan
from engine.storage.moments import Lsn, lsn_in
from engine.txn.interface import LockWait
from engine.txn.locks import ACCESS_SHARE

if TYPE_CHECKING:
    from engine.columnar.interface import ResultStream
    from engine.past.nodes import PastNode

_LSN = re.compile(r"(?:lsn\s+)?(?:([0-9]+)|([0-9a-f]{1,8}/[0-9a-f]{1,8}))\Z", re.IGNORECASE)
SETTING = "as_of"
_KIND = "EXECUTE parameters"  # the allowed types of a moment


@dataclass(frozen=True, slots=True)
class Moment:
    """An LSN or a time; neither is the present."""

    lsn: int | None = None
    time: int | None = None  # microseconds since 2000-01-01 UTC


def _past(session: Session) -> Past:
    past = past_of(session.present)
    if past is None:
        not_supported("reading the past on this server")
    return past


# ---- SET as_of ------------------------------------------------------------------------------------------------------


async def set_as_of(session: Session, value: str | None) -> None:
    """SET and RESET. Raises 25001 in a transaction, 22023, 22007, 72000."""
    if session.in_block or session.transaction is not None:
        raise SqlError("25001", "SET as_of cannot run inside a transaction block")
    if value is None or value.strip().lower() in ("", "default"):
        session.leave_past()
        return
    node = await _node_at(session, _moment_in(session, value.strip()))
    try:
        _check_identity(session, node)
    except SqlError:
        node.close()
        raise
    session.leave_past()
    session.stand_on(node)
    session.settings.force(SETTING, value.strip())


def _moment_in(session: Session, text: str) -> Moment:
    """'17', 'lsn 17', '0/11', or a time as timestamptz reads it. Raises 22007."""
    found = _LSN.match(text)
    if found is None:
        return Moment(time=cast(int, _time_in(session)(text)))
    return Moment(_read_lsn(found[1] or found[2]))


def _read_lsn(text: str) -> int:
    if "/" in text:
        return cast(int, lookup(oids.PG_LSN).text_decoder()(text))
    return cast(int, lookup(oids.INT8).text_decoder()(text))


async def _node_at(session: Session, moment: Moment) -> PastNode:
    past = _past(session)
    return await past.node_at(await past.at(moment.lsn, moment.time))


async def node_of(session: Session, clause: ast.AsOf) -> PastNode:
    """The node at the moment of a clause in a statement without parameters, to be closed. Raises the errors of AS
    OF."""
    return await _node_at(session, await moment_of(session, clause))


async def moment_of(session: Session, clause: ast.AsOf) -> Moment:
    """The moment of a clause in a statement without parameters. Raises 42P02, 22004, and errors of its evaluation."""
    for node in walk(clause.moment):
        if isinstance(node, ast.ParamRef):
            raise SqlError("42P02", f"there is no parameter ${node.number}", position=node.location + 1)
    source = _source(session, clause, statement_parameters(session.environment, ()))
    return await _moment(session, _Asked((source,), b""), ())


async def _moment(session: Session, asked: _Asked, parameters: Sequence[object]) -> Moment:
    """The moment; functions in it may have to read history first."""
    while True:
        try:
            return asked.moment(session, parameters)
        except LockWait as wait:  # engine/session/other_waits.py
            await session.wait_for(wait)


def _check_identity(session: Session, node: PastNode) -> None:
    """Raises 3D000, 42704, 42501 for a session that could not have existed at that moment."""
    catalog = node.catalogs.get(session.database_oid)
    if catalog is None:
        raise SqlError("3D000", f'database "{session.database_name}" did not exist at LSN {node.lsn}')
    now = session.present.shared_catalog
    for name in {session.role.name, session.user_name, session.session_user_name}:
        role, then = now.get(now.roles.get(name, 0)), catalog.get(catalog.roles.get(name, 0))
        if not isinstance(then, Role) or not isinstance(role, Role) or role.oid != then.oid:
            raise SqlError("42704", f'role "{name}" did not exist at LSN {node.lsn}')
        if then.superuser and not role.superuser:
            raise SqlError("42501", f'role "{name}" was a superuser at LSN {node.lsn}, and is none now')


# ---- AS OF in a statement -------------------------------------------------------------------------------------------


def plan(session: Session, statement: ast.Statement, types: Sequence[int], literals: int = 0) -> Prepared | None:
    """The plan of a statement with AS OF; None for one without it. `literals`: see tree.Analyzed. Raises PastWait,
    0A000, and errors of its planning."""
    if not may_read_past(statement.text):
        return None
    clauses = [node for node in walk(statement.tree) if isinstance(node, ast.AsOf)]
    if not clauses or isinstance(statement.tree, ast.CreateDatabaseStmt):
        return None
    _check_whole(statement.tree)
    shared = statement_parameters(session.environment, types)
    with reading_constants(None) as reading_now:
        sources = tuple(_source(session, clause, shared) for clause in clauses)
    asked = _Asked(sources, _without(statement, clauses))
    types = _types_with_moments(shared, types)
    lasting = not reading_now.timely
    try:
        moment = None if asked.parameters else asked.moment(session, ())
    except LockWait as wait:  # a function in it must read history first: engine/session/other_waits.py
        raise PastWait(partial(session.wait_for, wait)) from None
    if moment is None or lsn_in(0, _at_now(session, moment)) >= session.present.commits.schema_version:
        if literals:
            (alone,) = parse(asked.sql.decode(), session.key.conforming)
            inner = planning.prepare(session, alone, types, literals=literals)
            lasting = lasting and isinstance(inner.plan, RowsPlan) and inner.plan.at_once
        else:
            inner = planning.prepare_own(session, asked.sql, types)
        look_up = inner if _is_look_up(inner, statement.tree) else None
    else:
        lasting, look_up = False, None
        reading = _Reading(session, _open_now(session, moment))
        try:
            inner = planning.prepare_own(reading.child, asked.sql, types)
        finally:
            reading.end()
    made = Prepared.of(
        statement, inner.parameters.types, session.catalog, session.key, AsOfPlan(asked, inner.plan, look_up)
    )
    made.lasting = lasting
    return made


@dataclass(frozen=True, slots=True)
class _Source:
    """The expression of a moment. `parameters`: whether it uses those of the statement."""

    kind: str
    location: int
    parameters: bool
    value: Callable[[ExecContext, Sequence[object]], object]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The expressions of the moment, and the statement without them."""

    sources: tuple[_Source, ...]
    sql: bytes

    @property
    def parameters(self) -> bool:
        return any(source.parameters for source in self.sources)

    def moment(self, session: Session, parameters: Sequence[object]) -> Moment:
        """The moment of all expressions. Raises 0A000 for several moments, 22004, and errors of their evaluation."""
        moments = set()
        context = session.context()  # one for all, so that all share the result of a function's wait
        for source in self.sources:
            value = source.value(context, parameters)
            if value is None:
                raise SqlError("22004", "the moment of AS OF must not be null", position=source.location + 1)
            moments.add((source.kind, value))
        if len(moments) > 1:
            not_supported("AS OF several moments in one statement", position=self.sources[0].location + 1)
        ((kind, value),) = moments
        return Moment(lsn=cast(int, value)) if kind == "lsn" else Moment(time=cast(int, value))


def _is_look_up(inner: Prepared, tree: ast.Node) -> bool:
    """Whether a row path plan alone may run over the rows of another moment: functions may do anything."""
    calls = (node for node in walk(tree) if isinstance(node, ast.FuncCall))
    moments = {id(call) for clause in walk(tree) if isinstance(clause, ast.AsOf) for call in walk(clause)}
    plan = inner.plan
    return (
        isinstance(plan, RowsPlan)
        and plan.at_once
        and not plan.writes
        and all(mode == ACCESS_SHARE for _, mode in plan.locks)
        and all(isinstance(inner.catalog.get(oid), Table) for oid in (*plan.relations, *dict(plan.locks)))
        and all(id(call) in moments for call in calls)
    )


class AsOfPlan(Plan):
    """`look_up` is the statement without AS OF under the present schema, if it only reads tables on the row path."""

    __slots__ = ("asked", "columns", "command", "look_up")

    at_once = True
    is_planned_late = True

    def __init__(self, asked: _Asked, inner: Plan, look_up: Prepared | None) -> None:
        self.asked = asked
        self.columns = inner.columns
        self.command = inner.command
        self.look_up = look_up

    def answer(
        self, session: Session, prepared: Prepared, parameters: Sequence[object], formats: tuple[int, ...]
    ) -> Answer | None:
        """None if it needs more than look-ups in memory under the present schema: then `run` does it, or reports the
        error."""
        session.began = began = perf_counter()
        node, inner = session.present, self.look_up
        past = past_of(node)
        if inner is None or past is None or session.node is not node:
            return None
        if inner.catalog is not session.committed_catalog or session.status == "E" or session.log_over < math.inf:
            return None
        try:
            moment = self.asked.moment(session, parameters)
        except LockWait:
            return None
        at = past.at_known(moment.lsn, moment.time)
        store = None if at is None else past.store_ready(at)
        if store is None:
            return None
        context = session.row_context
        context.reader, context.transaction, context.catalog, context.made = store.current, None, inner.catalog, None
        try:
            assert isinstance(inner.plan, RowsPlan)
            data, count = inner.plan.row_function(formats)(context, parameters)
        except RowPathFull:
            return None
        finally:
            store.close()
        tally = prepared.tally or node.statements.tally(prepared)
        tally.rows += count - 1
        tally.alone.append(perf_counter() - began)
        if len(tally.alone) >= tally.limit:
            node.statements.full(tally)
        return Answer(data, self.command, count, 0)

    async def run(self, session: Session, portal: Portal, limit: int, sink: Sink) -> None:
        portal.started = True
        try:
            if portal.stream is None:
                portal.stream = cast("ResultStream", await self._begin(session, portal))
            reading = cast(_Reading, portal.stream)
            inner = reading.portal
            assert inner is not None
            await running.run(reading.child, inner, limit, sink)
        except BaseException:
            session.portals.stop(portal)
            raise
        session.notices += reading.child.notices
        reading.child.notices.clear()
        portal.count = inner.count
        if inner.done:
            portal.done = True
            portal.stream = None
            reading.end()

    async def _begin(self, session: Session, portal: Portal) -> _Reading:
        prepared = portal.prepared
        past, moment = _past(session), await _moment(session, self.asked, portal.parameters)
        at = await past.at(moment.lsn, moment.time)
        reading = _Reading.again(session, at) or _Reading(session, await past.node_at(at))
        try:
            inner = planning.prepare_own(reading.child, self.asked.sql, prepared.parameters.types)
            if [field.type for field in inner.fields or ()] != [field.type for field in prepared.fields or ()]:
                message = "the result has other columns at that moment than the statement was prepared for"
                raise SqlError("0A000", message)
        except BaseException:
            reading.end()
            raise
        reading.portal = Portal(inner, portal.parameters, portal.formats, portal.name)
        return reading


def _check_whole(tree: ast.Node) -> None:
    """Raises 0A000 for a statement that does not only read, or reads more than one moment."""
    query = tree.query if isinstance(tree, ast.ExplainStmt) else tree
    if isinstance(query, ast.CopyStmt):
        query = query.query if query.query is not None and not query.is_from else query
    if not isinstance(query, ast.SelectStmt) or query.into is not None:
        not_supported("AS OF in a statement other than SELECT, EXPLAIN and COPY (SELECT ...) TO")
    names = {node.name for node in walk(query) if isinstance(node, ast.CommonTableExpr)}
    for node in walk(query):
        if (
            isinstance(node, ast.RangeVar)
            and node.as_of is None
            and (node.schema is not None or node.name not in names)
        ):
            not_supported(
                f'reading "{node.name}" as of now beside a table AS OF another moment',
                position=node.location + 1,
                hint="Add the same AS OF to every table of the statement.",
            )
        if isinstance(node, ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt | ast.MergeStmt):
            not_supported("AS OF in a statement that changes data")


def _types_with_moments(shared: Shared, types: Sequence[int]) -> tuple[int, ...]:
    """The types of the parameters, including those that determine a moment."""
    found = list(types)
    for number, oid in sorted(shared.parameters.items()):
        found += [0] * (number - len(found))
        if found[number - 1] in (0, oids.UNKNOWN):
            found[number - 1] = oid if oid != oids.UNKNOWN else found[number - 1]
    return tuple(found)


def _without(statement: ast.Statement, clauses: Sequence[ast.AsOf]) -> bytes:
    """The statement without its AS OF, with unchanged positions of everything else."""
    text = " " * statement.offset + statement.text
    for clause in clauses:
        text = text[: clause.location] + " " * (clause.end - clause.location) + text[clause.end :]
    return text.encode()


def _source(session: Session, clause: ast.AsOf, shared: Shared) -> _Source:
    """The expression of a clause's moment. Raises errors of its analysis, 42804 for one of a wrong type."""
    node = clause.moment
    if clause.kind == "lsn" and isinstance(node, ast.Literal) and node.kind == "string":
        lsn = _read_lsn(str(node.value))
        return _Source(clause.kind, clause.location, False, lambda *_: lsn)
    parameters = any(isinstance(part, ast.ParamRef) for part in walk(node))
    given = 0 if isinstance(node, ast.Literal) else _type_of(session, node, shared)
    if given in oids.VARYING_TEXTS:  # so some drivers send it
        read: Callable[[str], object] = _read_lsn if clause.kind == "lsn" else _time_in(session)
        text = compile_value(
            runnable_expression(node, session.environment, None, None, _KIND, shared), session.key.format
        )

        def say(context: ExecContext, values: Sequence[object]) -> object:
            value = text(context, values)
            return None if value is None else read(str(value))

        return _Source(clause.kind, clause.location, parameters, say)
    wanted = oids.TIMESTAMPTZ
    if clause.kind == "lsn":
        wanted = oids.PG_LSN if given == oids.PG_LSN else oids.INT8
    try:
        found = runnable_expression(node, session.environment, None, TypeRef(wanted), _KIND, shared)
    except SqlError as error:
        if error.sqlstate != "42804":
            raise
        what = "an LSN" if clause.kind == "lsn" else "a time"
        message = f"AS OF {clause.kind.upper()} wants {what}, not type {format_type(given)}"
        raise SqlError("42804", message, position=clause.location + 1) from None
    run = compile_value(found, session.key.format)
    return _Source(clause.kind, clause.location, parameters, run)


def _time_in(session: Session) -> Callable[[str], object]:
    return lookup(oids.TIMESTAMPTZ).text_decoder(session.key.format)


def _type_of(session: Session, node: ast.Node, shared: Shared) -> int:
    """The type of an expression by itself; 0 for a parameter of unknown type. Does not change `shared`."""
    if isinstance(node, ast.ParamRef):
        return shared.parameters.get(node.number, 0)
    known = dict(shared.parameters)
    try:
        return runnable_expression(node, session.environment, None, None, _KIND, shared).type.oid
    finally:
        shared.parameters = known


def _at_now(session: Session, moment: Moment) -> Lsn:
    """The state to read at a moment, if it is known. Raises PastWait."""
    past = _past(session)
    found = past.at_known(moment.lsn, moment.time)
    if found is None:

        async def learn() -> None:
            await past.at(moment.lsn, moment.time)

        raise PastWait(learn)
    return found


def _open_now(session: Session, moment: Moment) -> PastNode:
    """The node at a moment, if it exists. Raises PastWait."""
    at = _at_now(session, moment)
    past = _past(session)
    found = past.node_ready(at)
    if found is None:

        async def make() -> None:
            (await past.node_at(at)).close()

        raise PastWait(make)
    return found


class _Reading:
    """A session that reads the past for another one, which waits for it; engine.columnar.interface.ResultStream of its
    portal. At its end it is kept for the next statement, because making a session takes time."""

    def __init__(self, session: Session, node: PastNode) -> None:
        self._session = session
        self._node = node
        self.portal: Portal | None = None
        try:
            _check_identity(session, node)
            self.child = Session(node, session.role, session.database_oid, session.database_name, {}, session.parts)
            self.child.today = session.present
            self._rights = session.present.commits.schema_version
            node.unregister(self.child.process_id)
            self.child.process_id, self.child.secret = session.process_id, session.secret
            self._take_settings()
        except BaseException:
            node.close()
            raise

    def _take_settings(self) -> None:
        state = self._session.settings.state()
        self._settings = state.values
        self.child.settings.restore(state)

    @classmethod
    def again(cls, session: Session, at: Lsn) -> _Reading | None:
        """The kept session, at another moment; None if there is none."""
        kept, session.past_reader = session.past_reader, None
        if not isinstance(kept, _Reading):
            return None
        if kept._rights != session.present.commits.schema_version:  # its plans may need revoked privileges
            kept._node.close()
            return None
        if not _past(session).show(kept._node, at):
            return None
        try:
            _check_identity(session, kept._node)
            if kept._settings is not session.settings.state().values:
                kept._take_settings()
        except BaseException:
            kept._node.close()
            raise
        return kept

    def end(self) -> None:
        """Releases the past; it may be called twice."""
        portal, self.portal = self.portal, None
        if portal is not None:
            self.child.portals.stop(portal)
            self._session.past_reader = self
        self.child.transactions.roll_back()
        self._node.close()

    def __aiter__(self) -> _Reading:
        return self

    async def close(self) -> None:
        self.end()
