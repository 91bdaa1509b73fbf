"""Names, definitions and privileges for a session, and services of its node for functions.

Definitions that must be deparsed again (pretty ones, and those with names that the search path shortens) are cached by
their text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, cast

from catalog.errors import SqlError
from catalog.identifiers import quote_identifier
from catalog.rewrite_rules import RewriteRule
from catalog.routines import function_in
from catalog.schema import (
    Role,
    Routine,
    Table,
    View,
)
from catalog.system import content, lookups
from catalog.system.definitions import relation_name
from catalog.system.objects import qualified_name
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.columnar.generate.catalog_functions import register_catalog_function
from engine.index_checks import check_indexes
from engine.node import sizes
from engine.node.exported_snapshots import ExportedSnapshots
from engine.node.stages import Stages
from engine.replica import token
from engine.session import activity
from engine.session.errors import canceled_error
from engine.session.open_sessions import open_sessions
from engine.session.other_waits import result_of
from engine.session.signals import check_signal
from engine.sql import tree
from engine.sql.analyze import Environment, analyze_expression, inner_environment
from engine.sql.analyze.literals import read_literal
from engine.sql.analyze.policies import POLICY_KIND
from engine.sql.analyze.references import Reference, references
from engine.sql.analyze.routines import body_of
from engine.sql.analyze.rule_actions import analyse_action, analyse_rule_condition
from engine.sql.analyze.targets import column_name
from engine.sql.analyze.trigger_conditions import analyse_condition, entries_of
from engine.sql.analyze.updatable import updatable_events
from engine.sql.analyze.views import stored_query
from engine.sql.deparse import deparse_expression, deparse_query
from engine.sql.deparse_changes import deparse_change
from engine.sql.deparse_expressions import STANDARD
from engine.sql.parser import parse_change, parse_expression
from engine.system_views.change_streams import StreamCalls
from engine.system_views.history import History
from engine.system_views.key_ranges import key_ranges
from engine.system_views.live import NodeStatus

if TYPE_CHECKING:
    from engine.session.session import Session

_QUALIFIED = re.compile(r'[A-Za-z0-9_"]\.["A-Za-z_]|OPERATOR\(')
_BARE_PARENTHESIS = re.compile(r'(?<![A-Za-z0-9_"])\(')
_ONE_OPERATOR = re.compile(r"\([^()]*\)")
_SEQUENCE_DEFAULT = re.compile(r"nextval\('((?:[^']|'')+)'::regclass\)")
_EVENTS = {"a": "INSERT", "w": "UPDATE", "d": "DELETE"}
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*")

for _source, _call in lookups.catalog_calls.items():
    register_catalog_function(_source, _call.sql, _call.tables, _call.udfs)


class SessionSurroundings:
    """A catalog.system.content.Surroundings for a session at this moment."""

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
        """Whether it is still valid for the session."""
        return (
            self.catalog is session.catalog and self._key is session.key and self._temporary == session.temporary_schema
        )

    def session_key(self, scope: str) -> tuple[object, ...]:
        """The dependencies of a part with this scope, other than schema objects."""
        return (self.path, self.user, self.temporary_schema) if scope == "session" else ()

    def expression(self, text: str, table: Table | None, pretty: bool) -> str:
        """A stored expression as pg_get_expr shows it. It is deparsed only if that can change the text."""
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
        return self.cache.text(key, lambda: self._print(text, table, pretty))

    def _relation_text(self, name: str) -> str:
        schema, _, relation = name.partition(".")
        found = self.environment.find_relation(None, relation)
        wanted = self.environment.find_relation(schema, relation)
        return relation if found is not None and wanted is not None and found.oid == wanted.oid else name

    def _analyse(self, text: str, table: Table | None) -> tree.Expr:
        with self._stored_environment() as inside:
            # A policy's condition may have sub-queries; the other texts were checked when they were stored.
            return analyze_expression(parse_expression(text), inside, table, None, POLICY_KIND if table else "")

    def _stored_environment(self) -> AbstractContextManager[Environment]:
        """The environment of a stored text."""
        return inner_environment(self.catalog, ("pg_catalog", "public"), self.session.user_name)

    def _print(self, text: str, table: Table | None, pretty: bool) -> str:
        entries = () if table is None else self._entries(table)
        return deparse_expression(self._analyse(text, table), entries, self.catalog, self.path, pretty)

    def condition(self, text: str, relation: Table | View, pretty: bool) -> str:
        """The condition of a trigger."""
        if not pretty and _QUALIFIED.search(text.replace("old.", "").replace("new.", "")) is None:
            return text

        def show() -> str:
            with self._stored_environment() as inside:
                found = analyse_condition(parse_expression(text), inside, relation)
            return deparse_expression(found, entries_of(relation), self.catalog, self.path, pretty)

        key = ("condition", self.catalog.database, self.catalog.version, self.path, relation.oid, text, pretty)
        return self.cache.text(key, show)

    def rule(self, relation: Table | View, rule: RewriteRule, pretty: bool) -> str:
        """The CREATE RULE statement of a rule."""
        key = ("rule", self.catalog.database, self.catalog.version, self.path, rule.oid, pretty)
        return self.cache.text(key, lambda: self._print_rule(relation, rule, pretty))

    def _print_rule(self, relation: Table | View, rule: RewriteRule, pretty: bool) -> str:
        entries: tuple[tree.RangeEntry, ...] = entries_of(relation)
        parts, actions = [self._rule_head(relation, rule.name, _EVENTS[rule.event], pretty)], []
        with self._stored_environment() as inside:
            named = entries
            for text in rule.actions:
                node = parse_change(text)
                action, _ = analyse_action(node, relation, inside)
                actions.append(deparse_change(action, node, entries, self.catalog, self.path, pretty))
                if named is entries:  # the names in the first action are not used again in the condition
                    source = action.source if isinstance(action, tree.Insert) else None
                    named = (*entries, *(action.range_table if source is None else source.range_table))
            if rule.condition is not None:
                condition, _ = analyse_rule_condition(parse_expression(rule.condition), relation, rule.event, inside)
                shown = deparse_expression(condition, named, self.catalog, self.path, pretty, STANDARD)
                parts.append(f"\n   WHERE {shown}")
        parts.append(" DO INSTEAD " if rule.instead else " DO ")
        if len(actions) > 1:
            parts += ["(", *(f"{action};\n" for action in actions), ");"]
        else:
            parts.append(f"{actions[0] if actions else 'NOTHING'};")
        return "".join(parts)

    def _rule_head(self, relation: Table | View, name: str, event: str, pretty: bool) -> str:
        """CREATE RULE name AS ON event TO relation"""
        shown = relation_name(self.catalog, self.path, relation) if pretty else qualified_name(self.catalog, relation)
        return f"CREATE RULE {quote_identifier(name)} AS\n    ON {event} TO {shown}"

    def rule_of_view(self, view: View | Table, pretty: bool) -> str:
        """The same of the rule that makes a relation a view."""
        return f"{self._rule_head(view, '_RETURN', 'SELECT', pretty)} DO INSTEAD {self.view(view, pretty)}"

    @staticmethod
    def _entries(table: Table) -> tuple[tree.RangeEntry, ...]:
        columns = tuple(tree.RangeColumn(column.name, column.type) for column in table.columns)
        return (tree.RangeTable(table, table.name, columns),)

    def is_call(self, text: str, table: Table) -> bool:
        """Whether an index definition shows the expression without parentheses around it."""
        found = self._analyse(text, table)
        if isinstance(found, tree.FuncExpr):
            return found.operator is None and found.display in ("call", "sql_syntax")
        return isinstance(found, tree.CoalesceExpr | tree.MinMaxExpr | tree.NullIfExpr | tree.SqlValueFunction)

    def expression_name(self, text: str) -> str:
        """The name of an index column over the expression."""
        name = self.cache.text(("name", text), lambda: column_name(parse_expression(text)))
        return "expr" if name == "?column?" else name

    def read_name(self, type_oid: int, text: str) -> int:
        """The OID of the object that the input of a reg type names. Raises 42P01, 42704, 42883, 3F000."""
        found = read_literal(self.environment, text, type_oid, -1, -1)
        assert isinstance(found, int)
        return found

    def last_commit_token(self) -> str:
        """The session's last commit, for `read_after` on another node."""
        return token(self.session.last_commit)

    def write_checkpoint(self, run: object) -> int:
        """shoal_checkpoint(): the LSN of the checkpoint. Raises LockWait until it is written, 42501, 55000."""
        write = self.session.node.write_checkpoint
        self.session.identity.require_superuser("shoal_checkpoint")
        if write is None:
            hint = "CHECKPOINT flushes what is in memory."
            raise SqlError("55000", "this node is not part of a cluster: it has no store for checkpoints", hint=hint)
        return cast(int, result_of(self.session, "shoal_checkpoint", run, write))

    def begin_check(self, run: object) -> str:
        """shoal_check(): the id of the check, 32 hexadecimal digits. Raises LockWait until it has started, 42501,
        25006, 55000."""
        self.session.identity.require_superuser("shoal_check")
        if self.session.transaction is not None:
            self.session.transaction.refuse_if_read_only("shoal_check()")
        found = result_of(self.session, "shoal_check", run, self.session.node.checks.request)
        return cast(bytes, found).hex()

    def check_indexes(self, run: object) -> str:
        """shoal_check_indexes(): the result as JSON. Raises LockWait until it is complete, 42501."""
        self.session.identity.require_superuser("shoal_check_indexes")
        return cast(str, result_of(self.session, "shoal_check_indexes", run, partial(check_indexes, self.session)))

    @property
    def history(self) -> History:
        """Services for functions of backups, LSNs and times."""
        return History(self.session)

    @property
    def change_streams(self) -> StreamCalls:
        """Services for the functions of change streams."""
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

    def query_text(self) -> str:
        """The text that the client sent and that runs now."""
        return activity.query_text(self.session)

    def signal(self, process_id: int, terminate: bool) -> bool:
        """Cancels the running statement of a session, or ends the session. False, with a warning, if there is no such
        session. Raises 42501."""
        target = open_sessions(self.session.node).get(process_id)
        if target is None:
            self.session.warn("01000", f"PID {process_id} is not a PostgreSQL backend process")
            return False
        check_signal(self.session, target, terminate)
        error = canceled_error()
        if terminate:
            error = SqlError("57P01", "terminating connection due to administrator command", severity="FATAL")
        if target is self.session:
            raise error
        target.cancel(error)
        return True

    def transaction_number(self, assign: bool) -> int | None:
        """The number of the session's transaction, which is assigned at the first call."""
        numbers, transaction = self.session.node.numbers, self.session.transaction
        if assign:
            return numbers.assign(transaction)
        return None if transaction is None else numbers.find(transaction)

    def transaction_status(self, number: int) -> str | None:
        """What has become of a transaction on this node. Raises 22023."""
        node = self.session.node
        return node.numbers.status(number, node.store.durable_lsn)

    def snapshot_of_numbers(self) -> tuple[int, int, tuple[int, ...]]:
        """The numbers of the transactions that the statement does not see."""
        node, transaction = self.session.node, self.session.transaction
        return node.numbers.snapshot(node.store.durable_lsn if transaction is None else transaction.snapshot_lsn)

    def relation_size(self, oid: int) -> tuple[int | None, int] | None:
        """(its own size, its indexes' size) in bytes, as engine/node/sizes.py says."""
        return sizes.relation_size(self.session.node, self.catalog, oid)

    def rows_written(self, kind: str, oid: int) -> int:
        """The number of rows of a table that were inserted, updated or deleted (`kind`) on this node
        (engine/execute/written.py)."""
        counts: dict[int, int] = getattr(self.session.node.written, kind)
        return counts.get(oid, 0)

    def reset_rows_written(self, oid: int = 0) -> None:
        """The statistics of a table, or those of all tables and functions of the database, begin again at 0."""
        self.session.node.written.reset(self.catalog, oid)
        if not oid:
            self.session.function_calls.reset_all()

    def live_rows(self, oid: int) -> int:
        item = self.catalog.objects.get(oid)
        return sizes.rows_in(self.session.node, item) if isinstance(item, Table) else 0

    def database_size(self, oid: int) -> int | None:
        return sizes.database_size(self.session.node, oid)

    def tablespace_size(self, oid: int) -> int:
        return sizes.tablespace_size(self.session.node, oid)

    def updatable(self, view: View) -> tuple[int, dict[int, int]]:
        """The changes that a view allows, as a whole and by column."""
        with inner_environment(self.catalog, user_name=self.session.user_name) as inside:
            return updatable_events(view, inside)

    def references(self, item: View | Table | Routine) -> Sequence[Reference]:
        """The references of a view's query, or of a body of SQL statements."""
        with self._stored_environment() as inside:
            if not isinstance(item, Routine):
                return references((stored_query(item, inside),))
            return references(self._statements(item, inside))

    def _statements(self, item: Routine, inside: Environment) -> Sequence[tree.Query]:
        """The queries of a body of SQL statements as they were written, before the conversion to the result type."""
        function = function_in(self.catalog, item)
        body = body_of(item, inside, function, item.signature, TypeRef(oids.VOID))
        return [cast(tree.Query, statement.statement) for statement in body.queries_and_changes]

    def body(self, routine: Routine) -> Sequence[str]:
        """The statements of a body of SQL statements, as definitions show them to this session."""
        with self._stored_environment() as inside:
            queries = self._statements(routine, inside)
        if routine.is_expression:
            return [f"SELECT {deparse_expression(queries[0].output[0].expression, (), self.catalog, self.path)}"]
        return [deparse_query(query, self.catalog, self.path) for query in queries]

    def expression_references(self, text: str, table: Table) -> Sequence[Reference]:
        """The references of an expression over a table."""
        return references((self._analyse(text, table),), self._entries(table))

    def view(self, view: View | Table, pretty: bool) -> str:
        """A view's query as this session sees it."""
        key = (self.catalog.database, self.catalog.version, self.path, view.oid, pretty)
        return self.cache.text(key, lambda: self._printed_view(view, pretty))

    def _printed_view(self, view: View | Table, pretty: bool) -> str:
        with inner_environment(self.catalog, user_name=self.session.user_name) as inside:
            query = stored_query(view, inside)
        names = tuple(column.name for column in view.columns)
        return deparse_query(query, self.catalog, self.path, names, pretty) + ";"
