"""From statement text to a `Prepared`, and the plan cache around it.

    text -> parse -> analyse -> row path plan?  yes: row path    (and the columnar path when it visits many rows)
                                                no:  columnar query, or columnar DML
            utility statements are not analysed here (engine/statements/utility.py)

A simple Query's literals are lifted out (engine/sql/lift.py) and its template is planned as if they were parameters.
Only row path plans are cached by template: there, a literal and a parameter of its type have the same meaning. Other
plans are cached by text.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.patience import begin_folding
from catalog.schema import Enum
from catalog.types.base import Array
from catalog.types.datetime import reading_constants
from catalog.types.oids import INT4, INT8, NUMERIC, UNKNOWN
from engine.execute.constants import fails_first, has_failing, without_unreached
from engine.execute.planner import plan_row
from engine.execute.pull_up import merge_locking
from engine.execute.routine_source import calls_routines
from engine.foreign.scans import concerns_foreign
from engine.partitions.expand import concerns, expand
from engine.partitions.plans import plan_by_parameters
from engine.session.plan import UnplannedStatement
from engine.session.positioned import add_places
from engine.session.prepared import LongPlan, Prepared
from engine.session.statement_texts import LONG_TEXT, LONGEST_KEPT, may_read_past, utf8
from engine.sql import ast, tree
from engine.sql.analyze import Environment, analyze
from engine.sql.analyze.collations import collate
from engine.sql.analyze.routines import expand_calls
from engine.sql.analyze.rules import check_calls
from engine.sql.barriers import mark_barriers
from engine.sql.dialects.names import SHOAL
from engine.sql.dialects.statements import statements_in
from engine.sql.normalize import describe_statement
from engine.sql.parser import parse
from engine.sql.row_security import apply_policies, check_rewrite, has_policies
from engine.sql.tree_walk import walk
from engine.statements import paths, registry, routine_calls, utility
from engine.statements.routine_path import RoutinePath
from engine.statements.rows_plan import RowsPlan
from engine.statements.rule_checks import refuse_elsewhere
from engine.statements.trigger_path import TriggerPath, changes_with_triggers
from engine.statements.utility import EmptyStatement
from engine.txn.locks import ACCESS_SHARE, ROW_EXCLUSIVE, ROW_SHARE

if TYPE_CHECKING:
    from engine.session.session import Session

QUERY_STATEMENTS = (ast.SelectStmt, ast.InsertStmt, ast.UpdateStmt, ast.DeleteStmt, ast.MergeStmt)
_unchecked: ContextVar[bool] = ContextVar("unchecked", default=False)
LITERAL_TYPES = {"i": INT4, "l": INT8, "n": NUMERIC, "s": UNKNOWN}


def prepare_text(session: Session, sql: bytes, types: Sequence[int], unnamed: bool = False) -> Prepared:
    """Parse of the extended protocol: one statement, planned or from the cache. Raises 42601 for several, and LongPlan
    for a new text in another dialect.

    `unnamed`: drivers parse such a statement each time, so at first it is planned to run once."""
    cached = cached_text(session, sql, types)
    if cached is not None:
        return cached
    if session.key.dialect != SHOAL:
        raise LongPlan
    brief = unnamed and not session.cache.note_meeting((sql, tuple(types)) if types else sql)
    return remember_plan(session, sql, types, plan_text(session, sql, types, brief))


def prepare_own(session: Session, sql: bytes, types: Sequence[int]) -> Prepared:
    """Prepares a text of the engine itself, which is in PostgreSQL's SQL."""
    if session.key.dialect == SHOAL:
        return prepare_text(session, sql, types)
    return plan_text(session, sql, types, dialect=SHOAL)


def cached_text(session: Session, sql: bytes, types: Sequence[int]) -> Prepared | None:
    """The cached plan for a Parse."""
    cached = session.cache.plans.get((sql, tuple(types)) if types else sql)
    return cached if cached is not None and cached.catalog is session.plan_cache_catalog() else None


def remember_plan(session: Session, sql: bytes, types: Sequence[int], prepared: Prepared) -> Prepared:
    """Puts the plan of a Parse into the cache, if it may be cached."""
    if prepared.catalog is session.plan_cache_catalog() and cacheable(prepared):
        keep(session, (sql, tuple(types)) if types else sql, prepared)
    return prepared


def keep(session: Session, key: bytes | tuple[bytes, object], prepared: Prepared | None) -> None:
    """Puts a plan into the cache (None: there is none), maybe in place of a stale one. Not for a text that is longer
    than the benefit."""
    if len(key if isinstance(key, bytes) else key[0]) > LONGEST_KEPT:
        return
    before = session.cache.plans.get(key)
    if before is not None and prepared is not None:
        follow(session, before, prepared)
    session.cache.put(key, prepared)


def follow(session: Session, before: Prepared, prepared: Prepared) -> None:
    """A text is planned again: like the former plan, the new one stays away from the row path."""
    old, new = before.plan, prepared.plan
    if isinstance(old, RowsPlan) and isinstance(new, RowsPlan) and new.at_once and not new.writes:
        if old.elsewhere:
            with contextlib.suppress(SqlError):  # this schema lets it have no columnar plan
                paths.columnar_of(session, new)
        new.follow(old)


def plan_text(
    session: Session, sql: bytes, types: Sequence[int], brief: bool = False, dialect: str | None = None
) -> Prepared:
    """Plans the text of a Parse; `brief`: see `prepare`; `dialect`: the session's, if it is None. Changes no state of
    the session, so it may run in a thread while the session waits. Raises 42601 for several statements."""
    statements = statements_in(utf8(sql), dialect or session.key.dialect, session.key.conforming)
    if len(statements) > 1:
        raise SqlError("42601", "cannot insert multiple commands into a prepared statement")
    types = [0 if oid == UNKNOWN else oid for oid in types]  # for a parameter, its type is to be inferred
    return prepare(session, statements[0] if statements else ast.Statement(ast.Node(), ""), types, brief=brief)


def plan_present(session: Session, sql: bytes, types: Sequence[int]) -> Prepared | None:
    """`plan_text` in a thread; None for a text that may read the past, which the engine's thread plans."""
    return None if may_read_past(sql.decode(errors="replace")) else plan_text(session, sql, types)


def cacheable(prepared: Prepared) -> bool:
    """Utility statements except transaction control depend on more than their text. A thousand texts of a megabyte
    would take more memory than planning them again is worth."""
    return prepared.lasting and len(prepared.statement.text) <= LONGEST_KEPT and prepared.plan.is_cacheable


def prepare(
    session: Session,
    statement: ast.Statement,
    types: Sequence[int],
    with_places: bool = False,
    literals: int = 0,
    brief: bool = False,
    as_query: bool = False,
) -> Prepared:
    """Plans one parsed statement. Errors have their position in the whole query string, or in the translated statement
    of another dialect. `with_places`: a cursor's plan also returns the places of its rows
    (engine/session/positioned.py). `literals`: see tree.Analyzed. `brief`: the plan will run once, see
    engine/execute/code.py. `as_query`: a SELECT that is no more than a call gets the plan of a query too."""
    if not statement.translation:
        return _prepare(session, statement, types, with_places, literals, brief, as_query)
    try:
        return _prepare(session, statement, types, with_places, literals, brief, as_query)
    except SqlError as error:
        if error.position is not None:
            error.internal_query = statement.whole
        raise


def _prepare(
    session: Session,
    statement: ast.Statement,
    types: Sequence[int],
    with_places: bool,
    literals: int,
    brief: bool,
    as_query: bool,
) -> Prepared:
    session.node.activity.planned += 1
    begin_folding()
    if session.status == "E":
        session.refuse_in_failed_block(statement)
    for planner in registry.planners():
        if (found := planner(session, statement, types, literals)) is not None:
            return found
    if isinstance(statement.tree, QUERY_STATEMENTS) and not _creates_table(statement.tree):
        transaction = session.transaction
        try:
            with reading_constants(transaction.start_time if transaction is not None else None) as reading:
                prepared = _prepare_query(session, statement, types, with_places, literals, brief, as_query)
            prepared.lasting = not reading.timely
            if len(statement.text) >= LONG_TEXT:
                prepared.description = describe_statement(statement, prepared.relations, session.key.conforming)
            return prepared
        except RecursionError:
            hint = "Simplify the statement: it nests too deeply."
            raise SqlError("54001", "stack depth limit exceeded", hint=hint) from None
    if type(statement.tree) is ast.Node:
        return Prepared.of(statement, (), session.catalog, session.key, EmptyStatement())
    plan = utility.plan(session, statement.tree)
    types = _types_within(session, statement, types)
    return Prepared.of(statement, tuple(types), session.catalog, session.key, plan)


def _types_within(session: Session, statement: ast.Statement, types: Sequence[int]) -> Sequence[int]:
    """The types of the parameters of a cursor, of a query whose rows become a table, or of an explained statement."""
    node: ast.Node = statement.tree
    if isinstance(node, ast.ExplainStmt):
        node = node.query
    if isinstance(node, ast.DeclareCursorStmt | ast.CreateTableAsStmt):
        node = node.query
    elif isinstance(node, ast.SelectStmt):
        node = replace(node, into=None)
    if "$" not in statement.text or not isinstance(node, QUERY_STATEMENTS):
        return types
    return analyze(node, session.environment, types).parameter_types


def _creates_table(node: ast.Node) -> bool:
    return isinstance(node, ast.SelectStmt) and node.into is not None


def _prepare_query(
    session: Session,
    statement: ast.Statement,
    types: Sequence[int],
    with_places: bool,
    literals: int,
    brief: bool,
    as_query: bool,
) -> Prepared:
    environment = session.environment
    analyzed = analyze(statement.tree, environment, types, literals)
    if session.transaction is not None and session.transaction.changed_objects:
        _refuse_new_labels(session, analyzed.statement)
    if session.catalog.routines and not as_query and not with_places:
        call = routine_calls.whole_call(session, analyzed.statement)
        if call is not None:
            assert isinstance(statement.tree, ast.SelectStmt)
            node = ast.CallStmt(statement.tree, location=statement.tree.location)
            plan = routine_calls.CallPlan(call)
            return Prepared.of(statement.of(node), analyzed.parameter_types, session.catalog, session.key, plan)
    return plan_statement(session, statement, analyzed, environment, with_places, brief)


@contextlib.contextmanager
def without_checks() -> Iterator[None]:
    """Statements that are planned in this block need no privileges: the caller has checked them."""
    token = _unchecked.set(True)
    try:
        yield
    finally:
        _unchecked.reset(token)


def _refuse_new_labels(session: Session, statement: tree.Statement) -> None:
    """Raises 55P04 for constants of an enum whose label this transaction has added, unless it has created the type
    too."""
    assert session.transaction is not None
    added: dict[int, tuple[str, dict[object, str]]] = {}
    for oid, item in session.transaction.changed_objects.items():
        before = session.committed_catalog.objects.get(oid)
        if isinstance(item, Enum) and isinstance(before, Enum):
            known = {label.oid for label in before.labels}
            new: dict[object, str] = {label.position: label.name for label in item.labels if label.oid not in known}
            added[oid] = added[item.array_oid] = (item.name, new)
    for node in walk(statement) if added else ():
        if isinstance(node, tree.Const) and node.type.oid in added:
            name, new = added[node.type.oid]
            for value in node.value.elements if isinstance(node.value, Array) else (node.value,):
                if value in new:
                    hint = "New enum values must be committed before they can be used."
                    raise SqlError("55P04", f'unsafe use of new value "{new[value]}" of enum type {name}', hint=hint)


def plan_statement(
    session: Session,
    statement: ast.Statement,
    analyzed: tree.Analyzed,
    environment: Environment,
    with_places: bool = False,
    brief: bool = False,
) -> Prepared:
    """The plan of an analysed query or change."""
    if session.catalog.with_rules:
        refuse_elsewhere(session, statement.tree, analyzed.statement)
    try:
        if not _unchecked.get():
            session.identity.check_privileges(analyzed)
    except SqlError:
        check_rewrite(analyzed, environment, session.identity.security_context())
        raise
    analyzed = expand_calls(analyzed, environment)
    if has_policies(session.catalog, session.catalog_today, analyzed.relations):
        analyzed = apply_policies(analyzed, environment, session.identity.security_context())
    analyzed = mark_barriers(analyzed, session.catalog)
    if analyzed.locked:
        analyzed = replace(analyzed, statement=merge_locking(analyzed.statement))
    root = analyzed.statement
    for part in (root, *(cte.query for cte in root.ctes)) if analyzed.written else ():
        if isinstance(part, tree.Insert | tree.Update) or (isinstance(part, tree.Merge) and _makes_rows(part)):
            check_calls(part.table, environment)
    plan = RowsPlan(analyzed, session.catalog, session.key.format, bool(analyzed.written or analyzed.locked))
    plan.locks = _lock_modes(session, analyzed)
    plan.temporary = not analyzed.locked and _are_temporary(session, analyzed.written)
    prepared = Prepared.of(
        statement, analyzed.parameter_types, session.catalog, session.key, plan, analyzed.declared_types
    )
    if analyzed.collated:
        analyzed = plan.analyzed = collate(analyzed, session.catalog)
    if has_failing(analyzed):
        analyzed = plan.analyzed = without_unreached(analyzed, session.context)
        plan.fails_first = fails_first(analyzed, session.key.format)
    root = analyzed.statement
    changes = changes_with_triggers(session, root) if session.catalog.triggering else ()
    inherited = concerns(analyzed, session.catalog)
    if with_places and isinstance(root, tree.Query):
        query, plan.places = add_places(root, session.catalog)
        analyzed = plan.analyzed = replace(analyzed, statement=query)
    if session.catalog.foreign_tables and concerns_foreign(session.catalog, analyzed):
        pass  # it waits for other servers, so it has no row path of its own
    elif inherited:
        plan.set_row(plan_by_parameters(analyzed, session.environment, session.key.format))
        _take_members(session, plan, analyzed)
    else:
        plan.set_row(plan_row(analyzed, session.catalog, session.key.format, brief))
    if changes:
        if plan.all_locks:
            plan.locks = plan.all_locks
        plan.columnar = TriggerPath(plan, changes)
        plan.is_prompt = True
        plan.set_row(None)
    elif calls_routines(session.catalog, analyzed.statement):
        _run_with_calls(session, plan)
    paths.choose(session, plan)
    return prepared


def _makes_rows(merge: tree.Merge) -> bool:
    return any(action.action in ("insert", "update") for action in merge.actions)


def _run_with_calls(session: Session, plan: RowsPlan) -> None:
    """The statement calls functions in PL/pgSQL: on the row path, or in stages, of which some run there."""
    if plan.row is None:
        writes = plan.writes
        paths.columnar_of(session, plan)
        plan.writes = writes
    else:
        plan.columnar = RoutinePath(plan)
    plan.is_prompt = True
    plan.fails_first = None  # a call may not run before the statement
    plan.set_row(None)


def _take_members(session: Session, plan: RowsPlan, analyzed: tree.Analyzed) -> None:
    """The statement over the members of its tables (engine/partitions/expand.py), with their locks."""
    plan.analyzed = analyzed = expand(analyzed, session.environment)
    plan.relations, plan.written = analyzed.relations, analyzed.written
    plan.all_locks = _lock_modes(session, analyzed)
    if plan.row is None:
        plan.locks = plan.all_locks
        plan.set_row(plan_row(analyzed, session.catalog, session.key.format))


def _are_temporary(session: Session, written: Sequence[int]) -> bool:
    """Whether there are such tables, and all of them are temporary tables of the session."""
    temporary = session.temporary_schema
    if temporary is None or not written:
        return False
    return all(session.catalog.table(oid).schema == temporary for oid in written)


def _lock_modes(session: Session, analyzed: tree.Analyzed) -> tuple[tuple[int, int], ...]:
    """The table locks of a statement: (OID, mode)."""
    objects = session.catalog.objects
    modes = {oid: ACCESS_SHARE for oid in analyzed.relations if oid in objects}
    modes.update({oid: ROW_SHARE for oid in analyzed.locked if oid in objects})
    modes.update(dict.fromkeys(analyzed.written, ROW_EXCLUSIVE))
    return tuple(modes.items())


def note_overflow(session: Session, prepared: Prepared) -> None:
    """The row path has stopped: this execution, which begins again, and the next ones use the other path if
    possible."""
    plan = prepared.plan
    if isinstance(plan, RowsPlan) and plan.at_once and not plan.writes:
        with contextlib.suppress(SqlError):  # no columnar plan: the row path must continue with it
            paths.columnar_of(session, plan)
            plan.note_overflow(prepared)


def prepare_lifted(session: Session, template: bytes, tags: bytes, brief: bool) -> Prepared | None:
    """A row path plan for a template with lifted literals; None if it is not cacheable. `brief`: see `prepare`."""
    types = tuple(LITERAL_TYPES[chr(tag)] for tag in tags)
    try:
        statements = parse(utf8(template))
        if len(statements) != 1 or not isinstance(statements[0].tree, QUERY_STATEMENTS):
            return None
        prepared = prepare(session, statements[0], types, literals=len(types), brief=brief)
    except SqlError:
        return None  # the text with its literals in place raises the error, or works
    if not (prepared.plan.at_once or prepared.plan.is_prompt) or not prepared.lasting:
        return None
    parameters = prepared.parameters
    parameters.literals = tuple(
        parameters.literal_decoder(chr(tag), oid) for tag, oid in zip(tags, parameters.types, strict=True)
    )
    return prepared


def renew(session: Session, prepared: Prepared) -> Prepared:
    """The statement planned with the present catalog, once for all sessions that have this plan. Raises 0A000 if its
    result would have other columns."""
    if prepared.plan.is_planned_late:
        return prepared
    if isinstance(prepared.plan, UnplannedStatement):
        text, declared = prepared.statement.text.encode(), prepared.parameters.declared
        if prepared.key.dialect == session.key.dialect == SHOAL:
            return prepare_text(session, text, declared)
        return plan_text(session, text, declared, dialect=prepared.key.dialect)
    shared = session.plan_cache_catalog() is not None
    if shared and prepared.successor is not None:
        found = prepared.successor()
        if found is not None and found.catalog is session.committed_catalog and found.key is session.key:
            return found
    with_places = isinstance(prepared.plan, RowsPlan) and prepared.plan.places is not None
    statement = prepared.statement
    if isinstance(prepared.plan, routine_calls.CallPlan) and isinstance(statement.tree, ast.CallStmt):
        statement = statement.of(statement.tree.call)  # it may need another plan
    as_query = isinstance(prepared.plan, RowsPlan)  # of a function that has another body now, too
    again = prepare(session, statement, prepared.parameters.declared, with_places, as_query=as_query)
    old, new = prepared.fields, again.fields
    if old is not None and new is not None and [f.type for f in old] != [f.type for f in new]:
        raise SqlError("0A000", "cached plan must not change result type", routine="RevalidateCachedQuery")
    follow(session, prepared, again)
    if shared and cacheable(again):
        prepared.successor = weakref.ref(again)
    return again
