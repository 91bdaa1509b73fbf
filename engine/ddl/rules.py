"""CREATE, DROP and RENAME RULE, ALTER TABLE ... ENABLE RULE, COMMENT ON RULE (rewriteDefine.c, rewriteRemove.c).

A rule is a part of its table or view (`Table.rules`). Its condition and actions are stored as text with qualified
names. So what a rule uses keeps its names, columns and types: `check_uses` refuses changes of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from catalog.errors import SqlError, not_supported
from catalog.functions.base import Function, Operator
from catalog.rewrite_rules import RewriteRule
from catalog.schema import (
    INFORMATION_SCHEMA_OID,
    PG_CATALOG_OID,
    Index,
    Routine,
    Schema,
    SchemaObject,
    Table,
    UserOperator,
    View,
    VirtualTable,
)
from catalog.types import format_type
from engine.ddl import names, ownership
from engine.ddl.context import DdlContext
from engine.sql import ast, tree
from engine.sql.analyze.rule_actions import analyse_action, analyse_rule_condition, outer_columns
from engine.sql.analyze.trigger_conditions import NEW, OLD, entries_of
from engine.sql.deparse import deparse_expression
from engine.sql.deparse_changes import RuleAction, deparse_change
from engine.sql.tree_walk import walk

Owner = Table | View
_LETTERS = {"insert": "a", "update": "w", "delete": "d"}


def create(context: DdlContext, statement: ast.CreateRuleStmt) -> str:
    """CREATE [OR REPLACE] RULE. Raises 42P01, 42809, 42501, 42P17, 42710, 0A000."""
    relation = _owner_of_rules(context, statement.relation)
    if statement.event == "select":
        not_supported("a rule ON SELECT")
    if isinstance(relation, Table) and relation.query is not None:
        not_supported("a rule of a materialized view")
    event = _LETTERS[statement.event]
    environment = context.environment
    condition, used = None, {relation.oid: None}
    if statement.condition is not None:
        found, shared = analyse_rule_condition(statement.condition, relation, event, environment)
        condition = deparse_expression(found, entries_of(relation), context.catalog)
        used |= shared.relations | _code_of(context, found)
    texts, returning = [], 0
    for node in statement.actions:
        _check_form(node, context)
        action, shared = analyse_action(node, relation, environment)
        _check_rows(action, event)
        used |= shared.relations | _code_of(context, action)
        assert isinstance(node, ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt)
        texts.append(deparse_change(action, node, entries_of(relation), context.catalog))
        if action.returning:
            returning += 1
            _check_returning(relation, action, statement, returning)
    for oid in used:
        if isinstance(context.catalog.get(oid), Table | View) and oid != relation.oid:
            context.lock_relation(oid, "access share")
    kept = tuple(oid for oid in used if oid in context.catalog.objects)
    made = RewriteRule(0, statement.name, event, statement.instead, condition, tuple(texts), "O", kept)
    _put(context, relation, made, statement.replace)
    return "CREATE RULE"


def _owner_of_rules(context: DdlContext, named: ast.RangeVar) -> Owner:
    """The relation of a rule, locked, which the user owns."""
    found = names.find(context, named)
    if found is None:
        raise SqlError("42P01", f'relation "{names.show_relation(named)}" does not exist')
    if isinstance(found, VirtualTable) or found.schema in (PG_CATALOG_OID, INFORMATION_SCHEMA_OID):
        raise SqlError("42501", f'permission denied: "{found.name}" is a system catalog')
    if isinstance(found, Index):
        raise SqlError("42809", f'"{found.name}" is an index')
    if not isinstance(found, Table | View):
        detail = "This operation is not supported for sequences."
        raise SqlError("42809", f'relation "{found.name}" cannot have rules', detail=detail)
    ownership.must_own(context, found)
    context.lock_relation(found.oid, "access exclusive")
    current = context.catalog.get(found.oid)
    assert isinstance(current, Table | View)
    return current


def _check_form(node: ast.Node, context: DdlContext) -> None:
    """Raises 0A000 for what an action cannot be."""
    if isinstance(node, ast.SelectStmt):
        not_supported("a rule with SELECT as an action")
    if not isinstance(node, ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt):
        not_supported("a rule with MERGE as an action")
    if node.with_clause is not None:
        not_supported("WITH in an action of a rule")
    if isinstance(node, ast.InsertStmt):
        if node.on_conflict is not None:
            not_supported("ON CONFLICT in an action of a rule")
        if any(item.indirection for item in node.columns):
            not_supported("a part of a column in an action of a rule")
        if node.query is not None and len(node.query.values) > 1:
            not_supported("VALUES of several rows in an action of a rule")
    elif isinstance(node, ast.UpdateStmt) and any(
        isinstance(item, ast.MultiAssign) or item.indirection for item in node.assignments
    ):
        not_supported("SET of several columns or of a part of one in an action of a rule")
    target = context.environment.find_relation(node.relation.schema, node.relation.name)
    if isinstance(target, View):
        not_supported("a rule whose action changes a view")


def _check_rows(action: RuleAction, event: str) -> None:
    """42P17 for OLD in an ON INSERT rule, and NEW in an ON DELETE rule; 0A000 for whole rows, whose form is not
    kept."""
    names_used = {getattr(part, "alias", None) for part in walk(action)} & {"old", "new"}
    if names_used:
        not_supported("a relation with the alias old or new in an action of a rule")
    source = action.source if isinstance(action, tree.Insert) else None
    used = outer_columns(action)
    if used and source is not None and (source.has_aggregates or source.group_by or source.set_operation):
        not_supported("OLD or NEW beside aggregates or UNION in an action of a rule")
    for relation, column in used:
        if relation == OLD and event == "a":
            raise SqlError("42P17", "ON INSERT rule cannot use OLD")
        if relation == NEW and event == "d":
            raise SqlError("42P17", "ON DELETE rule cannot use NEW")
        if column == 0:
            not_supported("a whole row in an action of a rule")


def _check_returning(relation: Owner, action: RuleAction, statement: ast.CreateRuleStmt, number: int) -> None:
    """The errors of DefineQueryRewrite and checkRuleResultList."""
    if number > 1:
        raise SqlError("0A000", "cannot have multiple RETURNING lists in a rule")
    if statement.condition is not None:
        raise SqlError("0A000", "RETURNING lists are not supported in conditional rules")
    if not statement.instead:
        raise SqlError("0A000", "RETURNING lists are not supported in non-INSTEAD rules")
    for place, target in enumerate(action.returning):
        if place >= len(relation.columns):
            raise SqlError("42P17", "RETURNING list has too many entries")
        column, given = relation.columns[place], target.expression.type
        if given.declared != column.type.declared:
            shown, wanted = format_type(given.declared), format_type(column.type.declared)
            message = f'RETURNING list\'s entry {place + 1} has different type from column "{column.name}"'
            detail = f"RETURNING list entry has type {shown}, but column has type {wanted}."
            raise SqlError("42P17", message, detail=detail)
        if given.typmod not in (column.type.typmod, -1) and column.type.typmod != -1:
            message = f'RETURNING list\'s entry {place + 1} has different size from column "{column.name}"'
            shown, wanted = (format_type(item.declared, item.typmod) for item in (given, column.type))
            detail = f"RETURNING list entry has type {shown}, but column has type {wanted}."
            raise SqlError("42P17", message, detail=detail)
    if len(action.returning) < len(relation.columns):
        raise SqlError("42P17", "RETURNING list has too few entries")


def _code_of(context: DdlContext, node: object) -> dict[int, None]:
    """The functions and operators of users in a tree."""
    used: dict[int, None] = {}
    for item in walk(node):
        for name in ("function", "operator"):
            found = getattr(item, name, None)
            if isinstance(found, Function | Operator) and context.catalog.get(found.oid) is not None:
                used[found.oid] = None
    return used


def find(relation: object, name: str) -> RewriteRule | None:
    """The rule of a relation with this name."""
    rules = relation.rules if isinstance(relation, Table | View) else ()
    return next((rule for rule in rules if rule.name == name), None)


def _missing(relation: Owner, name: str) -> SqlError:
    return SqlError("42704", f'rule "{name}" for relation "{relation.name}" does not exist')


def _duplicate(relation: Owner, name: str) -> SqlError:
    return SqlError("42710", f'rule "{name}" for relation "{relation.name}" already exists')


def _put(context: DdlContext, relation: Owner, made: RewriteRule, may_replace: bool) -> None:
    before = find(relation, made.name)
    if before is not None and not may_replace:
        raise _duplicate(relation, made.name)
    if before is None:
        made = replace(made, oid=context.new_oid())
        rules = (*relation.rules, made)
    else:
        made = replace(made, oid=before.oid, enabled=before.enabled, comment=before.comment)
        rules = tuple(made if rule is before else rule for rule in relation.rules)
    context.change({relation.oid: replace(relation, rules=rules)})


def _with_rule(relation: Owner, before: RewriteRule, after: RewriteRule | None) -> Owner:
    rules = [after if rule.oid == before.oid else rule for rule in relation.rules]
    return replace(relation, rules=tuple(rule for rule in rules if rule is not None))


# ---- DROP, RENAME, COMMENT, ENABLE ----------------------------------------------------------------------------------


def drop_rule(context: DdlContext, relation: object, name: str) -> bool:
    """Drops a rule; returns whether it exists. Raises 42501."""
    found = find(relation, name)
    if found is None:
        return False
    assert isinstance(relation, Table | View)
    _must_own(context, relation)
    context.lock_relation(relation.oid, "access exclusive")
    remove_rules(context, [(relation.oid, found.oid)])
    return True


def _must_own(context: DdlContext, relation: Owner) -> None:
    if not ownership.owns(context, relation):
        raise SqlError("42501", f"must be owner of relation {relation.name}")


def remove_rules(context: DdlContext, rules: list[tuple[int, int]]) -> None:
    """Removes rules: (relation OID, rule OID)."""
    for oid in dict.fromkeys(oid for oid, _ in rules):
        relation = context.catalog.get(oid)
        assert isinstance(relation, Table | View)
        kept = tuple(rule for rule in relation.rules if (oid, rule.oid) not in rules)
        context.change({oid: replace(relation, rules=kept)})


def rename_rule(context: DdlContext, statement: ast.RenameStmt) -> str:
    """ALTER RULE ... RENAME TO. Raises 42P01, 42501, 42704, 42710, 42809."""
    assert statement.relation is not None and statement.name is not None
    relation = _owner_of_rules(context, statement.relation)
    if isinstance(relation, View) and statement.name == "_RETURN":
        raise SqlError("42809", "renaming an ON SELECT rule is not allowed")
    found = find(relation, statement.name)
    if found is None:
        raise _missing(relation, statement.name)
    if find(relation, statement.new_name) is not None:
        raise _duplicate(relation, statement.new_name)
    context.change({relation.oid: _with_rule(relation, found, replace(found, name=statement.new_name))})
    return "ALTER RULE"


def comment_on_rule(context: DdlContext, parts: tuple[str, ...], name: str, text: str | None) -> str:
    """COMMENT ON RULE. Raises 42P01, 42704, 42501, 0A000 for the rule of a view."""
    named = ast.RangeVar(None, parts[-2] if len(parts) > 1 else None, parts[-1])
    relation = names.find(context, named)
    if relation is None:
        raise SqlError("42P01", f'relation "{names.show_relation(named)}" does not exist')
    if isinstance(relation, View) and name == "_RETURN":
        not_supported("a comment on the rule of a view")
    found = find(relation, name)
    if found is None:
        raise SqlError("42704", f'rule "{name}" for relation "{relation.name}" does not exist')
    assert isinstance(relation, Table | View)
    _must_own(context, relation)
    context.change({relation.oid: _with_rule(relation, found, replace(found, comment=text))})
    return "COMMENT"


def enable(relation: Table, command: ast.AlterTableCmd) -> Table:
    """ALTER TABLE ... ENABLE and DISABLE RULE. Raises 42704."""
    found = find(relation, command.name or "")
    if found is None:
        raise _missing(relation, command.name or "")
    mode = "D" if command.action == "disable_rule" else {"always": "A", "replica": "R"}.get(command.value or "", "O")
    changed = _with_rule(relation, found, replace(found, enabled=mode))
    assert isinstance(changed, Table)
    return changed


# ---- dependencies ---------------------------------------------------------------------------------------------------


def all_rules(context: DdlContext) -> Iterator[tuple[Owner, RewriteRule]]:
    """The rules of this database."""
    for kind in (Table, View) if context.catalog.with_rules else ():
        for relation in context.catalog.by_kind.get(kind, ()):
            assert isinstance(relation, Table | View)
            for rule in relation.rules:
                yield relation, rule


def rules_over(context: DdlContext, oid: int) -> list[tuple[Owner, RewriteRule]]:
    """The rules of other relations that use an object."""
    return [(owner, rule) for owner, rule in all_rules(context) if oid in rule.depends_on and owner.oid != oid]


def check_uses(context: DdlContext, changes: Mapping[int, SchemaObject | None]) -> None:
    """0A000 for a change of a name, a column or a type that the text of a rule contains, and for keys whose actions
    would have to follow rules."""
    for oid, item in changes.items():
        before = context.catalog.get(oid)
        if isinstance(item, Table) and item.rules:
            _refuse_actions_of_keys(item)
        if item is None or before is None or _shape(before) == _shape(item):
            continue
        for owner, rule in all_rules(context):
            in_schema = isinstance(item, Schema) and any(
                getattr(context.catalog.get(used), "schema", 0) == oid for used in rule.depends_on
            )
            if in_schema or (oid in rule.depends_on and not _only_adds(before, item)):
                not_supported(f'a change of "{getattr(before, "name", "")}", which rule {rule.name} on '
                              f'{owner.name} uses,')  # fmt: skip


def _shape(item: SchemaObject) -> object:
    """What texts name."""
    if isinstance(item, Table | View):
        columns = [(column.number, column.name, column.type) for column in item.columns]
        return item.name, item.schema, columns
    return (item.name, getattr(item, "schema", 0)) if isinstance(item, Routine | UserOperator | Schema) else None


def _only_adds(before: SchemaObject, item: SchemaObject) -> bool:
    if not isinstance(before, Table | View) or not isinstance(item, Table | View):
        return False
    known = [(column.number, column.name, column.type) for column in before.columns]
    now = [(column.number, column.name, column.type) for column in item.columns]
    return (before.name, before.schema) == (item.name, item.schema) and now[: len(known)] == known


def _refuse_actions_of_keys(table: Table) -> None:
    changed = {rule.event for rule in table.rules} & {"w", "d"}
    for constraint in table.constraints if changed else ():
        if constraint.kind == "f" and {constraint.on_delete, constraint.on_update} & set("cnd"):
            not_supported("a rule on a table whose rows the actions of a foreign key change")
