"""The table of the kinds of statements: one row each; registry.py explains the fields."""

from __future__ import annotations

from typing import Any

from catalog.errors import not_supported
from engine.ddl import (
    aggregates,
    alter,
    casts,
    change_streams,
    collations,
    composites,
    default_privileges,
    drop,
    event_triggers,
    extensions,
    foreign,
    foreign_tables,
    grants,
    indexes,
    objects,
    operators,
    owned,
    policies,
    ranges,
    routines,
    rules,
    sequences,
    statistics_objects,
    tables,
    text_search,
    triggers,
    user_types,
    views,
)
from engine.ddl import physical_order as ddl_physical_order
from engine.ddl import roles as ddl_roles
from engine.ddl import tablespaces as ddl_tablespaces
from engine.ddl import truncate as ddl_truncate
from engine.ddl.context import DdlContext
from engine.session.answer import Sink
from engine.session.portal import Portal
from engine.session.session import Session
from engine.sql import ast
from engine.statements import (
    alter_system,
    as_of,
    call,
    checkpoint,
    command_tags,
    copy,
    create_table_as,
    cursors,
    databases,
    discard,
    explain,
    import_schema,
    lock_table,
    matviews,
    notify,
    physical_order,
    prepared_statements,
    registry,
    reindex,
    roles,
    routing,
    rule_plans,
    schema_change,
    schemas,
    settings,
    tablespaces,
    transaction,
    truncate,
    vacuum,
    view_triggers,
)
from engine.statements.detach import detach_command
from engine.statements.needs import Needs, of_query
from engine.statements.registry import SchemaChange, StatementKind

_OFF = ("off", "false", "0")
_TWO_PHASE = frozenset(("prepare", "commit_prepared", "rollback_prepared"))
_NAMED = ("table", "index", "view", "matview", "sequence", "foreign table")  # kinds of relations in DROP


def _change(node: type[ast.Node], change: SchemaChange, **known: Any) -> StatementKind:
    """A schema change without further work."""
    return StatementKind(node, change=change, **{"run": schema_change.run, "fires": True, **known})


def _relation(node: type[ast.Node], change: SchemaChange, **known: Any) -> StatementKind:
    """A change of the schema of relations that the text names."""
    return _change(node, change, **{"changes_schema": True, "tells_all": True, **known})


def _own(node: type[ast.Node], run: registry.Handler, **known: Any) -> StatementKind:
    """A statement of the session itself: it runs on any node."""
    return StatementKind(node, run=run, **{"needs": Needs.NOTHING, **known})


async def _refuse(session: Session, tree: ast.RefusedStmt, portal: Portal, sink: Sink) -> None:
    not_supported(tree.what)


def _transaction_needs(tree: ast.TransactionStmt) -> Needs:
    return Needs.LEADER if tree.kind in _TWO_PHASE else Needs.NOTHING


def _set_needs(tree: ast.SetStmt) -> Needs:
    if tree.name == "TRANSACTION SNAPSHOT":
        return Needs.LEADER
    return Needs.READ if tree.name.lower() in ("role", "session_authorization") else Needs.NOTHING


def _execute_needs(tree: ast.ExecuteStmt) -> Needs:
    return max(map(of_query, tree.arguments), default=Needs.NOTHING)


def _declare_needs(tree: ast.DeclareCursorStmt) -> Needs:
    return Needs.LEADER if "hold" in tree.options else max(Needs.READ, of_query(tree.query))


def _declare_tells(tree: ast.DeclareCursorStmt) -> bool:
    return "hold" not in tree.options and routing.tells_all(tree.query)


def _explain_needs(tree: ast.ExplainStmt) -> Needs:
    runs = any(name == "analyze" and value.lower() not in _OFF for name, value in tree.options)
    return max(Needs.READ, routing.needs(tree.query)) if runs else Needs.READ


def _notify_needs(tree: ast.NotifyStmt) -> Needs:
    return Needs.LEADER if tree.kind.lower() == "notify" else Needs.NOTHING


QUERIES = (
    StatementKind(
        ast.SelectStmt,  # SELECT INTO runs here
        run=create_table_as.run,
        command=command_tags.of_select,
        fires=command_tags.is_select_into,
        needs=of_query,
        tells_all=True,
    ),
    StatementKind(ast.InsertStmt, tells_all=True),
    StatementKind(ast.UpdateStmt, tells_all=True),
    StatementKind(ast.DeleteStmt, tells_all=True),
    StatementKind(ast.MergeStmt, tells_all=True),
)

OF_SESSIONS = (
    _own(
        ast.TransactionStmt,
        transaction.run_transaction,
        has_snapshot=False,
        answer=transaction.answer,
        needs=_transaction_needs,
    ),
    StatementKind(ast.SetConstraintsStmt, run=transaction.run_set_constraints, has_snapshot=False),
    _own(ast.SetStmt, settings.run_set, has_snapshot=False, needs=_set_needs),
    _own(ast.ShowStmt, settings.run_show, has_snapshot=False, fields=settings.show_fields),
    _own(ast.AlterSystemStmt, alter_system.alter_system, outside_blocks=lambda tree: "ALTER SYSTEM"),
    StatementKind(ast.PrepareStmt, run=prepared_statements.run_prepare, is_counted=False, needs=Needs.READ),
    StatementKind(
        ast.ExecuteStmt,
        run=prepared_statements.run_execute,
        fields=prepared_statements.execute_fields,
        has_snapshot=False,  # it has the one of its statement
        is_counted=False,
        needs=_execute_needs,
        tells_all=True,
    ),
    _own(ast.DeallocateStmt, prepared_statements.run_deallocate, has_snapshot=False, is_counted=False),
    StatementKind(ast.DeclareCursorStmt, run=cursors.run_declare, needs=_declare_needs, tells_all=_declare_tells),
    _own(
        ast.FetchStmt,
        cursors.run_fetch,
        fields=cursors.fetch_fields,
        formats=cursors.fetch_formats,
        has_snapshot=False,
    ),
    _own(ast.ClosePortalStmt, cursors.run_close, has_snapshot=False),
    _own(
        ast.DiscardStmt,
        discard.run_discard,
        has_snapshot=False,
        outside_blocks=lambda tree: "DISCARD ALL" if tree.target == "all" else None,
    ),
    StatementKind(ast.NotifyStmt, run=notify.run_notify, has_snapshot=False, needs=_notify_needs),
    StatementKind(
        ast.ExplainStmt,
        run=explain.run_explain,
        fields=explain.explain_fields,
        needs=_explain_needs,
        tells_all=lambda tree: routing.tells_all(tree.query),
    ),
)

OTHERS = (
    StatementKind(ast.CallStmt, run=call.run_call, fields=call.call_fields),
    StatementKind(ast.DoStmt, run=call.run_do, command="DO"),
    StatementKind(ast.CopyStmt, run=copy.run_copy, tells_all=True),
    StatementKind(ast.LockStmt, run=lock_table.lock, has_snapshot=False, tells_all=True),
    StatementKind(
        ast.VacuumStmt,
        run=vacuum.vacuum,
        needs=Needs.READ,
        outside_blocks=lambda tree: "VACUUM" if tree.is_vacuum else None,
    ),
    StatementKind(ast.ClusterStmt, run=physical_order.cluster, change=ddl_physical_order.cluster, command="CLUSTER"),
    StatementKind(ast.ReindexStmt, run=reindex.reindex, change=indexes.rebuild),
    _own(ast.CheckPointStmt, checkpoint.run_checkpoint, has_snapshot=False),
    StatementKind(
        ast.RefreshMatViewStmt,
        run=matviews.run_refresh,
        command="REFRESH MATERIALIZED VIEW",
        fires=True,
        changes_schema=True,
        tells_all=True,
    ),
    StatementKind(
        ast.CreateTableAsStmt,
        run=create_table_as.run,
        command=command_tags.of_table_as,
        fires=True,
        changes_schema=True,
        tells_all=True,
        makes_table=True,
    ),
    StatementKind(ast.ImportForeignSchemaStmt, run=import_schema.run),
    _own(ast.RefusedStmt, _refuse),  # other statements that are parsed and refused by their names
)


def _create_table(context: DdlContext, tree: ast.CreateStmt) -> str:
    return (tables.create_table if tree.server is None else foreign_tables.create)(context, tree)


def _create_command(tree: ast.CreateStmt) -> str:
    return "CREATE TABLE" if tree.server is None else "CREATE FOREIGN TABLE"


def _drop(context: DdlContext, tree: ast.DropStmt) -> str:
    return (foreign.drop if tree.kind in ("server", "foreign data wrapper") else drop.drop)(context, tree)


def _detach_concurrently(tree: ast.AlterTableStmt) -> str | None:
    return None if detach_command(tree, "concurrently") is None else "ALTER TABLE ... DETACH CONCURRENTLY"


SCHEMA_CHANGES = (
    _relation(ast.CreateStmt, _create_table, command=_create_command, makes_table=True),
    _relation(
        ast.IndexStmt,
        indexes.create_index,
        command="CREATE INDEX",
        outside_blocks=lambda tree: "CREATE INDEX CONCURRENTLY" if tree.concurrently else None,
    ),
    _relation(ast.AlterTableStmt, alter.alter_table, command=command_tags.of_kind, outside_blocks=_detach_concurrently),
    _relation(ast.SequenceStmt, sequences.define_sequence, command=command_tags.of_sequence),
    _relation(ast.ViewStmt, views.create_view, command="CREATE VIEW"),
    _relation(
        ast.DropStmt,
        _drop,
        command=command_tags.of_drop,
        fires=command_tags.is_local,
        outside_blocks=lambda tree: "DROP INDEX CONCURRENTLY" if tree.concurrently else None,
        tells_all=lambda tree: tree.kind in _NAMED,
    ),
    _relation(ast.TruncateStmt, ddl_truncate.truncate, command="TRUNCATE TABLE", run=truncate.run, fires=False),
    _change(ast.RenameStmt, objects.rename, command=command_tags.of_rename, fires=command_tags.is_local),
    _change(ast.AlterObjectSchemaStmt, objects.set_schema, command=command_tags.of_kind),
    _change(ast.AlterOwnerStmt, objects.set_owner, command=command_tags.of_kind, fires=command_tags.is_local),
    StatementKind(
        ast.CreateSchemaStmt,
        run=schemas.run_create,
        change=objects.create_schema,
        command="CREATE SCHEMA",
        fires=True,
    ),
    StatementKind(
        ast.CreateDatabaseStmt,
        command="CREATE DATABASE",
        run=databases.run_create,
        change=objects.create_database,
        outside_blocks=lambda tree: "CREATE DATABASE",
    ),
    StatementKind(
        ast.DropDatabaseStmt,
        command="DROP DATABASE",
        run=databases.run_drop,
        change=objects.drop_database,
        outside_blocks=lambda tree: "DROP DATABASE",
    ),
    _change(ast.AlterDatabaseStmt, objects.alter_database, command="ALTER DATABASE", fires=False),
    StatementKind(
        ast.TablespaceStmt,
        command=command_tags.of_tablespace,
        run=tablespaces.run,
        change=ddl_tablespaces.tablespace,
        outside_blocks=lambda tree: None if tree.action == "alter" else f"{tree.action.upper()} TABLESPACE",
    ),
    StatementKind(ast.RoleStmt, run=roles.run, change=ddl_roles.role, command=command_tags.of_role),
    StatementKind(
        ast.OwnedStmt,
        run=roles.run,
        change=owned.run_owned,
        command=command_tags.of_owned,
        fires=command_tags.is_drop_owned,
    ),
    _change(ast.CommentStmt, objects.comment, command="COMMENT", fires=command_tags.is_local),
    _change(ast.GrantStmt, grants.grant, command=command_tags.of_grant, fires=command_tags.is_local_grant),
    _change(ast.DefaultPrivilegesStmt, default_privileges.alter, command="ALTER DEFAULT PRIVILEGES"),
    _change(ast.CreateEnumStmt, user_types.create_enum, command="CREATE TYPE"),
    _change(ast.CreateRangeStmt, ranges.create, command="CREATE TYPE"),
    _change(ast.CreateStatisticsStmt, statistics_objects.create, command="CREATE STATISTICS"),
    _change(ast.AlterStatisticsStmt, statistics_objects.alter, command="ALTER STATISTICS"),
    _change(ast.AlterEnumStmt, user_types.alter_enum, command="ALTER TYPE"),
    _change(ast.CreateDomainStmt, user_types.create_domain, command="CREATE DOMAIN"),
    _change(ast.AlterDomainStmt, user_types.alter_domain, command="ALTER DOMAIN"),
    _change(ast.AlterTypeStmt, user_types.alter_type, command=command_tags.of_kind),
    _change(ast.CollationStmt, collations.define, command="CREATE COLLATION"),
    _change(ast.CompositeTypeStmt, composites.create_composite, command="CREATE TYPE"),
    _change(ast.AlterCompositeStmt, composites.alter_composite, command="ALTER TYPE"),
    _change(ast.ExtensionStmt, extensions.extension, command=command_tags.of_extension),
    _change(ast.ChangeStreamStmt, change_streams.change_stream, command=command_tags.of_change_stream, fires=False),
    _change(ast.CreateFunctionStmt, routines.create, command=command_tags.of_new_function),
    _change(ast.CreateAggregateStmt, aggregates.create, command="CREATE AGGREGATE"),
    _change(ast.ForeignWrapperStmt, foreign.define_wrapper, command=command_tags.of_foreign),
    _change(ast.ForeignServerStmt, foreign.define_server, command=command_tags.of_foreign),
    _change(ast.UserMappingStmt, foreign.user_mapping, command=command_tags.of_foreign),
    _change(ast.CreateCastStmt, casts.create, command="CREATE CAST"),
    _change(ast.DropCastStmt, casts.drop, command="DROP CAST"),
    _change(ast.CommentOnCastStmt, casts.comment, command="COMMENT"),
    _change(ast.CreateOperatorStmt, operators.create, command="CREATE OPERATOR"),
    _change(ast.AlterOperatorStmt, operators.alter, command=command_tags.of_operator),
    _change(ast.DropOperatorStmt, operators.drop, command="DROP OPERATOR"),
    _change(ast.DropFunctionStmt, routines.drop, command=command_tags.of_drop),
    _change(ast.CreateTextSearchStmt, text_search.create, command=command_tags.of_text_search),
    _change(ast.AlterTextSearchStmt, text_search.alter, command=command_tags.of_text_search),
    _relation(ast.CreateTriggerStmt, triggers.create, command="CREATE TRIGGER"),
    _change(ast.DropFromTableStmt, drop.drop_from_table, command=command_tags.of_drop),
    _relation(ast.CreateRuleStmt, rules.create, command="CREATE RULE"),
    _change(ast.CreateEventTriggerStmt, event_triggers.create, command="CREATE EVENT TRIGGER", fires=False),
    _change(ast.AlterEventTriggerStmt, event_triggers.alter, command="ALTER EVENT TRIGGER", fires=False),
    _relation(ast.CreatePolicyStmt, policies.create_policy, command="CREATE POLICY", tells_all=False),
    _relation(ast.AlterPolicyStmt, policies.alter_policy, command="ALTER POLICY", tells_all=False),
    _change(ast.AlterFunctionStmt, routines.alter, command=command_tags.of_function),
)

registry.register(
    (*QUERIES, *OF_SESSIONS, *OTHERS, *SCHEMA_CHANGES), planners=(as_of.plan, rule_plans.plan, view_triggers.plan)
)
