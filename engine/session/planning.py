"""From statement text to a `Prepared`, and the plan cache around it.

    text -> parse -> analyse -> row plan?  yes: row path      (falls back to the columnar path when it meets many rows)
                                          no:  columnar query, or columnar DML
                     utility statements are not analysed here (engine/session/utility.py)

A simple Query's literals are lifted out (engine/sql/lift.py) and its template is planned as if they were parameters.
Only row plans are cached by template: there, a literal and a parameter of its type mean the same. The rest is cached
by text.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog.errors import SqlError, stack_depth_exceeded
from catalog.memory import HEAVY
from catalog.patience import TooLong, begin_folding, fold, too_long
from catalog.schema import Enum
from catalog.types import format_type, lookup
from catalog.types.base import Array, TypeRef
from catalog.types.datetime import OfThisMoment, reading_constants
from catalog.types.naming import holds_names
from catalog.types.oids import INT4, INT8, NUMERIC, RECORD, UNDECLARED, UNKNOWN
from engine.columnar.generate import generate, generate_dml
from engine.columnar.interface import FIRST_COMPUTED, STATEMENT_TIME, TRANSACTION_TIME, ColumnarQuery
from engine.execute.constants import fails_first, has_failing, without_unreached
from engine.execute.context import ExecContext, Field, small_values
from engine.execute.expressions import compile_expression
from engine.execute.planner import plan_row
from engine.partitions.expand import concerns, expand
from engine.partitions.parts import parts_of
from engine.partitions.plans import plan_by_parameters
from engine.session.positioned import placed
from engine.session.prepared import Prepared, may_read_past, utf8
from engine.sql import ast, tree
from engine.sql.analyze import Environment, analyze
from engine.sql.analyze.collations import collate
from engine.sql.analyze.routines import expanded
from engine.sql.analyze.rules import check_calls
from engine.sql.barriers import settled
from engine.sql.normalize import described
from engine.sql.parser import parse, parse_type_name
from engine.sql.tree_walk import walk
from engine.txn.locks import ACCESS_SHARE, ROW_EXCLUSIVE, ROW_SHARE

if TYPE_CHECKING:
    from engine.session.session import Session

QUERY_STATEMENTS = (ast.SelectStmt, ast.InsertStmt, ast.UpdateStmt, ast.DeleteStmt, ast.MergeStmt)
LITERAL_TYPES = {"i": INT4, "l": INT8, "n": NUMERIC, "s": UNKNOWN}
LONG_TEXT = 4096  # bytes of a statement that takes milliseconds to parse and plan, which is done in a thread
LONGEST_KEPT = 1 << 16  # characters of a statement whose plan is kept by its text
COMMANDS = {
    tree.Query: "SELECT",
    tree.Insert: "INSERT",
    tree.Update: "UPDATE",
    tree.Delete: "DELETE",
    tree.Merge: "MERGE",
}


def prepare_text(session: Session, sql: bytes, types: Sequence[int], unnamed: bool = False) -> Prepared:
    """Parse of the extended protocol: one statement, planned or taken from the cache. Raises 42601 for several.

    `unnamed`: drivers parse such a statement anew each time, so at first it is planned to run once."""
    cached = cached_text(session, sql, types)
    if cached is not None:
        return cached
    brief = unnamed and not session.cache.met((sql, tuple(types)) if types else sql)
    return remembered(session, sql, types, plan_text(session, sql, types, brief))


def cached_text(session: Session, sql: bytes, types: Sequence[int]) -> Prepared | None:
    """The plan that the cache has for a Parse."""
    cached = session.cache.plans.get((sql, tuple(types)) if types else sql)
    return cached if cached is not None and cached.catalog is session.committed_catalog and session.plain() else None


def remembered(session: Session, sql: bytes, types: Sequence[int], prepared: Prepared) -> Prepared:
    """Puts the plan of a Parse into the cache, where it belongs there."""
    if prepared.catalog is session.committed_catalog and session.plain() and cacheable(prepared):
        keep(session, (sql, tuple(types)) if types else sql, prepared)
    return prepared


def keep(session: Session, key: bytes | tuple[bytes, object], prepared: Prepared | None) -> None:
    """Puts a plan into the cache (None: there is none), perhaps in the place of one that the schema left behind. Not
    for a text that would be longer than what it saves."""
    if len(key if isinstance(key, bytes) else key[0]) > LONGEST_KEPT:
        return
    before = session.cache.plans.get(key)
    if before is not None and prepared is not None:
        follow(session, before, prepared)
    session.cache.put(key, prepared)


def follow(session: Session, before: Prepared, prepared: Prepared) -> None:
    """A text is planned again: its plan stays away from the row path as the one before did."""
    if prepared.kind == "row" and not prepared.writes:
        if before.elsewhere:
            with contextlib.suppress(SqlError):  # this schema lets it have no columnar plan
                columnar_of(session, prepared)
        prepared.follow(before)


def plan_text(session: Session, sql: bytes, types: Sequence[int], brief: bool = False) -> Prepared:
    """Plans the text of a Parse; `brief`: see `prepare`. Changes nothing of the session's, so it may run in a thread
    while the session waits. Raises 42601 for several statements."""
    statements = parse(utf8(sql), session.key.conforming)
    if len(statements) > 1:
        raise SqlError("42601", "cannot insert multiple commands into a prepared statement")
    types = [0 if oid == UNKNOWN else oid for oid in types]  # said of a parameter, it is to be inferred
    return prepare(session, statements[0] if statements else ast.Statement(ast.Node(), ""), types, brief=brief)


def plan_present(session: Session, sql: bytes, types: Sequence[int]) -> Prepared | None:
    """`plan_text` in a thread; None for a text that may read the past, which the engine's thread plans."""
    return None if may_read_past(sql.decode(errors="replace")) else plan_text(session, sql, types)


def cacheable(prepared: Prepared) -> bool:
    """Utility statements but transaction control depend on more than their text. A thousand texts of a megabyte would
    be more memory than planning them again is worth."""
    return (
        prepared.lasting
        and len(prepared.statement.text) <= LONGEST_KEPT
        and (prepared.kind != "utility" or isinstance(prepared.statement.tree, ast.TransactionStmt))
    )


def prepare(
    session: Session,
    statement: ast.Statement,
    types: Sequence[int],
    with_places: bool = False,
    literals: int = 0,
    brief: bool = False,
) -> Prepared:
    """Plans one parsed statement. Errors carry their position in the whole query string. `with_places`: that of a
    cursor, whose plan is to give the places of its rows too (engine/session/positioned.py). `literals`: see
    tree.Analyzed. `brief`: the plan will run once, see engine/execute/code.py."""
    session.node.activity.planned += 1
    begin_folding()
    if session.status == "E":
        session.refuse_in_failed_block(statement)
    if may_read_past(statement.text):
        from engine.session import past

        if (found := past.prepared_as_of(session, statement, types, literals)) is not None:
            return found
    if isinstance(statement.tree, QUERY_STATEMENTS) and not _creates_table(statement.tree):
        transaction = session.transaction
        try:
            with reading_constants(transaction.start_time if transaction is not None else None) as reading:
                prepared = _prepare_query(session, statement, types, with_places, literals, brief)
            prepared.lasting = not reading.timely
            if len(statement.text) >= LONG_TEXT:
                prepared.description = described(statement, prepared.relations, session.key.conforming)
            return prepared
        except RecursionError:
            hint = "Simplify the statement: it nests too deeply."
            raise SqlError("54001", "stack depth limit exceeded", hint=hint) from None
    if type(statement.tree) is ast.Node:
        return Prepared("empty", statement, (), None, session.catalog, session.key)
    from engine.session import utility

    fields = utility.fields(session, statement.tree)
    types = _types_within(session, statement, types)
    return Prepared("utility", statement, tuple(types), fields, session.catalog, session.key)


def _types_within(session: Session, statement: ast.Statement, types: Sequence[int]) -> Sequence[int]:
    """The types of the parameters of a cursor, of a query whose rows become a table, or of what is explained: as the
    query wants them."""
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
    session: Session, statement: ast.Statement, types: Sequence[int], with_places: bool, literals: int, brief: bool
) -> Prepared:
    environment = session.environment
    analyzed = analyze(statement.tree, environment, types, literals)
    if session.transaction is not None and session.transaction.changed_objects:
        _refuse_new_labels(session, analyzed.statement)
    if session.catalog.routines:
        from engine.session import routines

        call = routines.whole_call(session, analyzed.statement)
        if call is not None:
            return routines.prepared_select(session, statement, analyzed, call)
    return planned(session, statement, analyzed, environment, with_places, brief)


def _refuse_new_labels(session: Session, statement: tree.Statement) -> None:
    """55P04 for constants of an enum whose label this transaction has added to it, unless the type is its own too."""
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


def planned(
    session: Session,
    statement: ast.Statement,
    analyzed: tree.Analyzed,
    environment: Environment,
    with_places: bool = False,
    brief: bool = False,
) -> Prepared:
    """The plan of an analysed query or change."""
    session.check_privileges(analyzed)
    analyzed = settled(expanded(analyzed, environment), session.catalog)
    root = analyzed.statement
    for part in (root, *(cte.query for cte in root.ctes)) if analyzed.written else ():
        if isinstance(part, tree.Insert | tree.Update) or (isinstance(part, tree.Merge) and part.makes_rows):
            check_calls(part.table, environment)
    returned = root.output if isinstance(root, tree.Query) else root.returning
    fields = tuple(
        Field(target.name, target.expression.type, target.origin_table, target.origin_column) for target in returned
    )
    is_query = isinstance(root, tree.Query)
    marked = isinstance(root, tree.Query) and bool(root.row_marks)
    prepared = Prepared(
        "row",
        statement,
        analyzed.parameter_types,
        fields if is_query or fields else None,
        session.catalog,
        session.key,
        command=COMMANDS[type(root)],
        writes=bool(analyzed.written) or marked,
        relations=analyzed.relations,
        written=analyzed.written,
        analyzed=analyzed,
        locks=_lock_modes(_lockable(session, analyzed.relations), analyzed.written, marked),
        temporary=not marked and _are_temporary(session, analyzed.written),
    )
    if analyzed.collated:
        analyzed = prepared.analyzed = collate(analyzed, session.catalog)
        root = analyzed.statement
    if has_failing(analyzed):
        analyzed = prepared.analyzed = without_unreached(analyzed)
        prepared.fails_first = fails_first(analyzed, session.key.format)
    root = analyzed.statement
    inherited = concerns(analyzed, session.catalog)
    if with_places and isinstance(root, tree.Query) and not inherited:
        query, prepared.places = placed(root)
        analyzed = prepared.analyzed = replace(analyzed, statement=query)
    if inherited:
        prepared.row = plan_by_parameters(analyzed, session.environment, session.key.format)
        _take_members(session, prepared, analyzed, marked)
    else:
        prepared.row = plan_row(analyzed, session.catalog, session.key.format, brief)
    if prepared.row is None:
        columnar_of(session, prepared)
    elif session.key.path == "columnar":
        move_to_columnar(session, prepared)
    return prepared


def _take_members(session: Session, prepared: Prepared, analyzed: tree.Analyzed, marked: bool) -> None:
    """The statement over the members of its tables (engine/partitions/expand.py), with their locks."""
    prepared.analyzed = analyzed = expand(analyzed, session.environment)
    prepared.relations, prepared.written = analyzed.relations, analyzed.written
    prepared.all_locks = _lock_modes(_lockable(session, analyzed.relations), analyzed.written, marked)
    if prepared.row is None:
        prepared.locks = prepared.all_locks
        prepared.row = plan_row(analyzed, session.catalog, session.key.format)


def move_to_columnar(session: Session, prepared: Prepared) -> None:
    """`shoal.path` is columnar: the row plan is dropped, unless the columnar path refuses the statement."""
    row, prepared.row = prepared.row, None
    try:
        columnar_of(session, prepared)
    except SqlError as error:
        if error.sqlstate != "0A000":
            raise
        prepared.row = row


def _are_temporary(session: Session, written: Sequence[int]) -> bool:
    """Whether there are such tables, and all of them are temporary ones of the session."""
    temporary = session.temporary_schema
    if temporary is None or not written:
        return False
    return all(session.catalog.table(oid).schema == temporary for oid in written)


def _lockable(session: Session, relations: Sequence[int]) -> list[int]:
    objects = session.catalog.objects
    return [oid for oid in relations if oid in objects]


def _lock_modes(relations: Sequence[int], written: Sequence[int], marked: bool) -> tuple[tuple[int, int], ...]:
    """The table locks of a statement: (OID, mode)."""
    modes = {oid: ROW_SHARE if marked else ACCESS_SHARE for oid in relations}
    modes.update(dict.fromkeys(written, ROW_EXCLUSIVE))
    return tuple(modes.items())


def columnar_of(session: Session, prepared: Prepared) -> Prepared:
    """Makes the statement's columnar plan, once; the kind tells which."""
    assert prepared.analyzed is not None
    root = prepared.analyzed.statement
    if prepared.all_locks:
        prepared.locks = prepared.all_locks
    if prepared.compound is not None:
        return prepared
    changes_members = isinstance(root, tree.Update | tree.Delete) and root.members
    if (prepared.row is None or changes_members) and (parts := parts_of(root, session.environment)) is not None:
        from engine.session import compound

        prepared.compound = compound.plan(session, prepared, parts)
        if prepared.row is None:
            prepared.kind = "compound"
        prepared.writes = True
    elif isinstance(root, tree.Query):
        if prepared.columnar is None:
            prepared.columnar = generate(root, prepared.parameter_types, prepared.key.format, (), prepared.computes)
        if prepared.row is None:
            prepared.kind = "columnar"
    else:
        if prepared.dml is None:
            prepared.dml = generate_dml(root, prepared.parameter_types, prepared.key.format, prepared.computes)
        if prepared.row is None:
            prepared.kind = "dml"
    return prepared


def overflowed(session: Session, prepared: Prepared) -> None:
    """The row path has given up: this execution, which begins anew, and the next ones go elsewhere if they can."""
    if prepared.kind == "row" and not prepared.writes:
        with contextlib.suppress(SqlError):  # no columnar plan: the row path has to go on with it
            columnar_of(session, prepared)
            prepared.overflowed()


def columnar_in(prepared: Prepared, formats: tuple[int, ...]) -> ColumnarQuery:
    """The columnar plan for results in these formats: records and names of objects in binary have one of their own."""
    found = prepared.binary_columnar.get(formats)
    if found is not None:
        return found
    found = prepared.columnar
    assert found is not None and prepared.analyzed is not None
    binary = {n for n, column in enumerate(found.columns) if formats[n] and _has_text_of_its_own(column.type.oid)}
    if binary:
        assert isinstance(prepared.analyzed.statement, tree.Query)
        root, types = prepared.analyzed.statement, prepared.parameter_types
        found = generate(root, types, prepared.key.format, binary, prepared.computes)
    prepared.binary_columnar[formats] = found
    return found


def _has_text_of_its_own(oid: int) -> bool:
    """Whether columns of the type come as text from the worker where nothing else is asked for."""
    return oid == RECORD or holds_names(lookup(oid))


def fail_first(session: Session, prepared: Prepared, parameters: Sequence[object]) -> None:
    """What PostgreSQL's planner would find to fail fails now; what takes too long now fails when it is computed."""
    if prepared.fails_first is not None:
        with contextlib.suppress(TooLong):
            prepared.fails_first(session.context(), parameters)


def columnar_call(
    session: Session,
    prepared: Prepared,
    parameters: Sequence[object],
    context: ExecContext,
    formats: tuple[int, ...] | None = None,
) -> tuple[ColumnarQuery, list[object]]:
    """The columnar plan (`formats`: for results in these), and the values of its parameters."""
    while True:
        query = prepared.columnar if formats is None else columnar_in(prepared, formats)
        assert query is not None
        try:
            return query, columnar_parameters(session, query, parameters, context)
        except TooLong:
            compute_in_worker(session, prepared)


def compute_in_worker(session: Session, prepared: Prepared) -> None:
    """The statement's plans are such from now on that the worker computes what the engine has found to take long.
    Raises 54000 where it cannot."""
    if not prepared.computes or prepared.compound is not None:
        raise too_long() from None
    prepared.computes = False
    prepared.columnar = prepared.dml = None
    prepared.binary_columnar = {}
    prepared.settled = {}
    columnar_of(session, prepared)


def columnar_parameters(
    session: Session, query: ColumnarQuery, parameters: Sequence[object], context: ExecContext
) -> list[object]:
    """The values of `query.parameters`, in their order. Raises TooLong where the worker is to compute them."""
    if query.computed:
        computed = _computed(query, parameters, context)
    values: list[object] = []
    texts = dict(query.texts)
    for source, _ in query.parameters:
        if source >= 1:
            value = parameters[source - 1]
            if value is not None and source in texts:
                value = lookup(texts[source]).text_encoder()(value).decode()
            values.append(value)
        elif source == STATEMENT_TIME:
            values.append(context.call.statement_time)
        elif source == TRANSACTION_TIME:
            values.append(context.call.transaction_time)
        else:
            values.append(computed[FIRST_COMPUTED - source])
    return values


def _computed(query: ColumnarQuery, parameters: Sequence[object], context: ExecContext) -> list[object]:
    """What the engine computes for the query, of values that are not large. Raises TooLong."""
    if any(isinstance(value, str | bytes) and len(value) > HEAVY for value in parameters):
        raise TooLong
    begin_folding()
    with small_values(context):
        return [
            fold(compile_expression(expression, context.format), (context, parameters)) for expression in query.computed
        ]


def prepare_lifted(session: Session, template: bytes, tags: bytes, brief: bool) -> Prepared | None:
    """A row plan for a template with lifted literals; None when it is not to be cached so. `brief`: see `prepare`."""
    types = tuple(LITERAL_TYPES[chr(tag)] for tag in tags)
    try:
        statements = parse(utf8(template))
        if len(statements) != 1 or not isinstance(statements[0].tree, QUERY_STATEMENTS):
            return None
        prepared = prepare(session, statements[0], types, literals=len(types), brief=brief)
    except SqlError:
        return None  # the text with its literals in place gives the error, or works
    if prepared.kind not in ("row", "past") or not prepared.lasting:
        return None
    prepared.literal_decoders = tuple(
        _literal_decoder(chr(tag), oid, prepared) for tag, oid in zip(tags, prepared.parameter_types, strict=True)
    )
    return prepared


def _literal_decoder(tag: str, oid: int, prepared: Prepared) -> Callable[[bytes], object]:
    if tag in "il":
        return int
    decode = prepared.text_decoder(oid)
    return lambda literal: decode(utf8(literal))


def decode_parameters(
    session: Session, prepared: Prepared, parameters: list[bytes | None], formats: tuple[int, ...]
) -> list[object]:
    """Bind's parameters in internal form; 'now' is when the session's transaction began."""
    try:
        return prepared.decode(parameters, formats)
    except OfThisMoment:
        transaction = session.transaction
        with reading_constants(transaction.start_time if transaction is not None else None):
            return prepared.decode(parameters, formats)


def bound_values(
    session: Session, prepared: Prepared, name: bytes, parameters: list[bytes | None], formats: tuple[int, ...]
) -> list[object]:
    """The same, for a portal of that name: an error says which parameter it was."""
    try:
        return decode_parameters(session, prepared, parameters, formats)
    except SqlError as error:
        prepared.explain_parameter(error, name, parameters, formats)
        raise
    except RecursionError:
        raise stack_depth_exceeded() from None


def decode_literals(prepared: Prepared, literals: Sequence[bytes], tags: bytes) -> list[object]:
    """Lifted literals in internal form."""
    return [decode(literal) for decode, literal in zip(prepared.literal_decoders, literals, strict=True)]


def renew(session: Session, prepared: Prepared) -> Prepared:
    """The statement planned against today's catalog, once for all sessions that have this plan. Raises 0A000 when its
    result would have other columns."""
    if prepared.kind == "past":
        return prepared  # it is planned when it runs
    if prepared.kind == "unplanned":
        return prepare_text(session, prepared.statement.text.encode(), prepared.declared_types)
    shared = session.plain()
    if shared and prepared.successor is not None:
        found = prepared.successor()
        if found is not None and found.catalog is session.committed_catalog and found.key is session.key:
            return found
    again = prepare(session, prepared.statement, prepared.declared_types, prepared.places is not None)
    old, new = prepared.fields, again.fields
    if old is not None and new is not None and [f.type for f in old] != [f.type for f in new]:
        raise SqlError("0A000", "cached plan must not change result type", routine="RevalidateCachedQuery")
    follow(session, prepared, again)
    if shared and cacheable(again):
        prepared.successor = weakref.ref(again)
    return again


def type_name(type_: TypeRef) -> ast.TypeName:
    """A type as a definition spells it, so that CREATE TABLE AS goes through CREATE TABLE."""
    if type_.oid in UNDECLARED:
        raise SqlError("42P16", f"column has pseudo-type {format_type(type_.oid)}")
    return parse_type_name(format_type(type_.declared, -1 if type_.domain else type_.typmod))
