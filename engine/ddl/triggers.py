"""Triggers: CREATE, ALTER, DROP TRIGGER, and ALTER TABLE ... ENABLE TRIGGER (trigger.c).

A trigger is a part of its table (`Table.triggers`). A row trigger of a partitioned table has a copy in every partition,
with the same name, which the commands on the partitioned table's trigger change too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

from catalog.errors import SqlError, not_supported
from catalog.functions import registry
from catalog.functions.base import Function
from catalog.privileges import may
from catalog.schema import (
    INFORMATION_SCHEMA_OID,
    PG_CATALOG_OID,
    Constraint,
    Index,
    Routine,
    Sequence,
    Table,
    Trigger,
    View,
    VirtualTable,
)
from catalog.types import format_type, oids
from engine.ddl import names, ownership
from engine.sql import ast, tree
from engine.sql.analyze.routine_rights import check_execute
from engine.sql.analyze.trigger_conditions import NEW, OLD, analyse_condition, entries_of
from engine.sql.deparse import deparse_expression
from engine.sql.parser import parse_expression
from engine.sql.tree_walk import walk

if TYPE_CHECKING:
    from engine.ddl.context import DdlContext

Owner = Table | View
_TIMINGS = {"before": "b", "after": "a", "instead": "i"}
_LETTERS = {"insert": "i", "update": "u", "delete": "d", "truncate": "t"}
_RELKINDS: dict[type, str] = {Index: "indexes", Sequence: "sequences"}


def is_owner(item: object) -> TypeGuard[Owner]:
    """Whether a relation may have triggers."""
    return isinstance(item, View) or (isinstance(item, Table) and item.query is None)


# ---- CREATE ---------------------------------------------------------------------------------------------------------


def create(context: DdlContext, statement: ast.CreateTriggerStmt) -> str:
    """CREATE [OR REPLACE] [CONSTRAINT] TRIGGER. Raises 42P01, 42809, 42501, 0A000, 42P17, 42883, 42710, 42703,
    42701."""
    if statement.replace and statement.constraint:
        raise SqlError("0A000", "CREATE OR REPLACE CONSTRAINT TRIGGER is not supported")
    table = _owner(context, statement.relation, "share row exclusive")
    if isinstance(table, Table) and table.server:
        not_supported("a trigger of a foreign table")
    _check_kind(table, statement)
    references = 0
    if statement.references is not None:
        references = _owner(context, statement.references, "access share").oid
    for oid in filter(None, (table.oid, references)):
        item = context.catalog.get(oid)
        assert isinstance(item, Table | View)
        if not may(context.catalog, item, ownership.user_role(context), "t"):
            raise SqlError("42501", f"permission denied for {names.WORDS[type(item)]} {item.name}")
    old_table, new_table = _transitions(table, statement)
    _check_form(statement)
    condition = None if statement.condition is None else _condition(context, table, statement)
    function = function_named(context, statement.function, oids.TRIGGER)
    columns = _columns(table, statement.columns)
    events = "".join(_LETTERS[event] for event in statement.events)
    made = Trigger(
        0, statement.name, function, _TIMINGS[statement.timing], events, statement.for_row, columns, condition,
        statement.arguments, "O", old_table, new_table, 0, references, statement.deferrable,
        statement.initially_deferred,
    )  # fmt: skip
    _put(context, table.oid, made, statement.replace, statement.constraint)
    return "CREATE TRIGGER"


def _owner(context: DdlContext, relation: ast.RangeVar, mode: str) -> Owner:
    found = names.find(context, relation)
    if found is None:
        raise SqlError("42P01", f'relation "{names.show_relation(relation)}" does not exist')
    if isinstance(found, VirtualTable) or found.schema in (PG_CATALOG_OID, INFORMATION_SCHEMA_OID):
        raise SqlError("42501", f'permission denied: "{found.name}" is a system catalog')
    if not is_owner(found):
        kind = _RELKINDS.get(type(found), "materialized views")
        detail = f"This operation is not supported for {kind}."
        raise SqlError("42809", f'relation "{found.name}" cannot have triggers', detail=detail)
    context.lock_relation(found.oid, mode)
    current = context.catalog.get(found.oid)
    if not is_owner(current):
        raise SqlError("42P01", f'relation "{names.show_relation(relation)}" does not exist')
    return current


def _check_kind(table: Owner, statement: ast.CreateTriggerStmt) -> None:
    """42809 for a timing or level that tables or views do not have."""
    message, detail = f'"{table.name}" is a {"view" if isinstance(table, View) else "table"}', ""
    if isinstance(table, Table):
        if statement.timing == "instead":
            detail = "Tables cannot have INSTEAD OF triggers."
        elif table.partitioning is not None and statement.for_row and statement.transitions:
            detail = "ROW triggers with transition tables are not supported on partitioned tables."
            raise SqlError("0A000", f'"{table.name}" is a partitioned table', detail=detail)
    elif statement.timing != "instead" and statement.for_row:
        detail = "Views cannot have row-level BEFORE or AFTER triggers."
    elif "truncate" in statement.events:
        detail = "Views cannot have TRUNCATE triggers."
    if detail:
        raise SqlError("42809", message, detail=detail)


def _check_form(statement: ast.CreateTriggerStmt) -> None:
    """0A000 for combinations that no relation has."""
    message = ""
    if statement.for_row and "truncate" in statement.events:
        message = "TRUNCATE FOR EACH ROW triggers are not supported"
    elif statement.timing == "instead":
        if not statement.for_row:
            message = "INSTEAD OF triggers must be FOR EACH ROW"
        elif statement.condition is not None:
            message = "INSTEAD OF triggers cannot have WHEN conditions"
        elif statement.columns:
            message = "INSTEAD OF triggers cannot have column lists"
    if message:
        raise SqlError("0A000", message)


def _transitions(table: Owner, statement: ast.CreateTriggerStmt) -> tuple[str, str]:
    """The names of the transition tables of old and new rows."""
    found: dict[bool, str] = {}
    for is_new, is_table, name in statement.transitions:
        _check_transition(table, statement, is_table)
        word, others = ("NEW", "an INSERT or UPDATE") if is_new else ("OLD", "a DELETE or UPDATE")
        if statement.events[0] not in ("update", "insert" if is_new else "delete"):
            raise SqlError("42P17", f"{word} TABLE can only be specified for {others} trigger")
        if is_new in found:
            raise SqlError("42P17", f"{word} TABLE cannot be specified multiple times")
        found[is_new] = name
    if len(found) == 2 and found[True] == found[False]:
        raise SqlError("42P17", "OLD TABLE name and NEW TABLE name cannot be the same")
    return found.get(False, ""), found.get(True, "")


def _check_transition(table: Owner, statement: ast.CreateTriggerStmt, is_table: bool) -> None:
    if not is_table:
        hint = "Use OLD TABLE or NEW TABLE for naming transition tables."
        raise SqlError("0A000", "ROW variable naming in the REFERENCING clause is not supported", hint=hint)
    if isinstance(table, View):
        detail = "Triggers on views cannot have transition tables."
        raise SqlError("42809", f'"{table.name}" is a view', detail=detail)
    if statement.for_row and table.parents:
        what = "inheritance children" if table.bound is None else "partitions"
        raise SqlError("0A000", f"ROW triggers with transition tables are not supported on {what}")
    if statement.timing != "after":
        raise SqlError("42P17", "transition table name can only be specified for an AFTER trigger")
    if "truncate" in statement.events:
        raise SqlError("42P17", "TRUNCATE triggers with transition tables are not supported")
    if len(statement.events) > 1:
        message = "transition tables cannot be specified for triggers with more than one event"
        raise SqlError("0A000", message)
    if statement.columns:
        raise SqlError("0A000", "transition tables cannot be specified for triggers with column lists")


def _condition(context: DdlContext, table: Owner, statement: ast.CreateTriggerStmt) -> str:
    """The text of WHEN. Raises 42P17 for rows that the trigger does not have."""
    assert statement.condition is not None
    found = analyse_condition(statement.condition, context.environment, table)
    for item in walk(found):
        if not isinstance(item, tree.Var):
            continue
        if not statement.for_row:
            _refuse_condition("statement trigger's WHEN condition cannot reference column values", item)
        if item.relation == OLD and "insert" in statement.events:
            _refuse_condition("INSERT trigger's WHEN condition cannot reference OLD values", item)
        if item.relation == NEW and "delete" in statement.events:
            _refuse_condition("DELETE trigger's WHEN condition cannot reference NEW values", item)
        if item.relation == NEW and statement.timing == "before":
            if item.column < 0:
                _refuse_condition("BEFORE trigger's WHEN condition cannot reference NEW system columns", item)
            _refuse_generated(table, item)
    return condition_text(context, found, table)


def _refuse_condition(message: str, item: tree.Var, detail: str | None = None) -> None:
    position = item.location + 1 if item.location >= 0 else None
    raise SqlError("42P17", message, detail=detail, position=position)


def _refuse_generated(table: Owner, item: tree.Var) -> None:
    message = "BEFORE trigger's WHEN condition cannot reference NEW generated columns"
    generated = {column.number: column.name for column in table.columns if column.generated is not None}
    if item.column == 0 and generated:
        detail = "A whole-row reference is used and the table contains generated columns."
        _refuse_condition(message, item, detail)
    if item.column in generated:
        _refuse_condition(message, item, f'Column "{generated[item.column]}" is a generated column.')


def condition_text(context: DdlContext, condition: tree.Expr, table: Owner) -> str:
    """A condition as stored text."""
    return deparse_expression(condition, entries_of(table), context.catalog)


def function_named(context: DdlContext, parts: tuple[str, ...], wanted: int) -> int:
    """The function of a trigger, which returns this type. Raises 42883, 42501, 42P17."""
    environment, catalog = context.environment, context.catalog
    shown = ".".join(parts)
    name, schema = parts[-1], parts[-2] if len(parts) > 1 else None
    if schema is not None and not environment.schema_oid(schema):
        raise SqlError("3F000", f'schema "{schema}" does not exist')
    places = environment.path_oids if schema is None else (environment.schema_oid(schema),)
    found: Routine | Function | None = None
    for place in places:
        if place == PG_CATALOG_OID:
            found = next((item for item in registry.functions_named(name) if not item.argument_types), None)
        else:
            here = (item for item in catalog.routines.get(name, ()) if item.schema == place and not item.inputs)
            found = next(here, None)
        if found is not None:
            break
    if found is None:
        raise SqlError("42883", f"function {shown}() does not exist")
    if isinstance(found, Routine):
        check_execute(found, catalog, ownership.user_role(context))
    result = found.result.oid if isinstance(found, Routine) else found.result_type
    if result != wanted:
        raise SqlError("42P17", f"function {shown} must return type {format_type(wanted)}")
    return found.oid


def _columns(table: Owner, given: tuple[str, ...]) -> tuple[int, ...]:
    numbers: list[int] = []
    by_name = {column.name: column.number for column in table.columns}
    for name in given:
        if name not in by_name:
            raise SqlError("42703", f'column "{name}" of relation "{table.name}" does not exist')
        if by_name[name] in numbers:
            raise SqlError("42701", f'column "{name}" specified more than once')
        numbers.append(by_name[name])
    return tuple(numbers)


def _put(context: DdlContext, oid: int, made: Trigger, may_replace: bool, is_constraint: bool) -> None:
    """Adds a trigger to a relation, and copies of a row trigger to its partitions."""
    table = context.catalog.get(oid)
    assert isinstance(table, Table | View)
    before = find(table, made.name)
    if before is not None:
        shown = f'trigger "{made.name}" for relation "{table.name}"'
        if not may_replace:
            raise SqlError("42710", f"{shown} already exists")
        if before.parent and not made.parent:
            raise SqlError("42710", f"{shown} is an internal or a child trigger")
        if before.constraint:
            raise SqlError("42710", f"{shown} is a constraint trigger")
        made = replace(made, oid=before.oid, enabled=before.enabled if made.parent else "O")
    else:
        made = replace(made, oid=context.new_oid(), constraint=context.new_oid() if is_constraint else 0)
    kept = tuple(item for item in table.triggers if item.name != made.name)
    context.change({oid: replace(table, triggers=tuple(sorted((*kept, made), key=lambda item: item.name)))})
    if isinstance(table, Table) and table.partitioning is not None and made.for_row:
        for child in context.catalog.children.get(oid, ()):
            context.lock_relation(child, "share row exclusive")
            copy_to(context, made, table, context.catalog.table(child), may_replace)


def copy_to(context: DdlContext, trigger: Trigger, parent: Table, child: Table, may_replace: bool = False) -> None:
    """Adds the copy of a partitioned table's row trigger to a partition. Raises 42710 if the name is taken."""
    numbers = {column.number: _column_of(child, column.name) for column in parent.columns}
    copied = replace(trigger, parent=trigger.oid, columns=tuple(numbers[number] for number in trigger.columns))
    _put(context, child.oid, replace(copied, comment=None), may_replace, bool(trigger.constraint))


def _column_of(table: Table, name: str) -> int:
    column = table.column(name)
    return 0 if column is None else column.number


def copy_all(context: DdlContext, parent: Table, child: Table) -> None:
    """The row triggers of a partitioned table for a new partition (CloneRowTriggersToPartition)."""
    for trigger in parent.triggers:
        if trigger.for_row:
            copy_to(context, trigger, parent, context.catalog.table(child.oid))


def without_copies(context: DdlContext, child: Table) -> None:
    """A partition that is detached loses the copies, and so do those below it (DropClonedTriggersFromPartition)."""
    for trigger in child.triggers:
        if trigger.parent:
            _remove(context, context.catalog.table(child.oid), trigger)


# ---- the triggers of a relation -------------------------------------------------------------------------------------


def find(table: Owner, name: str) -> Trigger | None:
    """The relation's trigger of that name."""
    return next((item for item in table.triggers if item.name == name), None)


def copies(context: DdlContext, table: Owner, trigger: Trigger) -> Iterator[tuple[Table, Trigger]]:
    """The copies of a trigger in the partitions directly below its table."""
    for oid in context.catalog.children.get(table.oid, ()):
        child = context.catalog.table(oid)
        for item in child.triggers:
            if item.parent == trigger.oid:
                yield child, item


def _with_trigger(table: Owner, trigger: Trigger, new: Trigger | None) -> Owner:
    kept = [item for item in table.triggers if item.oid != trigger.oid]
    kept += [] if new is None else [new]
    return replace(table, triggers=tuple(sorted(kept, key=lambda item: item.name)))


def _remove(context: DdlContext, table: Owner, trigger: Trigger) -> None:
    for child, copied in list(copies(context, table, trigger)):
        _remove(context, child, copied)
    current = context.catalog.get(table.oid)
    assert isinstance(current, Table | View)
    context.change({table.oid: _with_trigger(current, trigger, None)})


def remove(context: DdlContext, oid: int, trigger: int) -> None:
    """Removes a trigger whose function is dropped."""
    table = context.catalog.get(oid)
    found = next((item for item in getattr(table, "triggers", ()) if item.oid == trigger), None)
    if found is not None:
        assert isinstance(table, Table | View)
        _remove(context, table, found)


def drop(context: DdlContext, statement: ast.DropFromTableStmt) -> str | None:
    """DROP TRIGGER; None if there is no such trigger. Raises 42501, 2BP01."""
    relation = names.find(context, statement.relation)
    if not is_owner(relation):
        return None
    trigger = find(relation, statement.name)
    if trigger is None:
        return None
    if not ownership.owns(context, relation):
        raise SqlError("42501", f"must be owner of relation {relation.name}")
    context.lock_relation(relation.oid, "access exclusive")
    if trigger.parent:
        above = next(
            table for table in context.catalog.tables() if any(item.oid == trigger.parent for item in table.triggers)
        )
        required = f"trigger {trigger.name} on table {above.name}"
        raise SqlError(
            "2BP01",
            f"cannot drop trigger {trigger.name} on table {relation.name} because {required} requires it",
            hint=f"You can drop {required} instead.",
        )
    context.refuse_in_use(relation, "DROP TRIGGER")
    _remove(context, relation, trigger)
    return "DROP TRIGGER"


def rename(context: DdlContext, statement: ast.RenameStmt) -> str:
    """ALTER TRIGGER ... RENAME. Raises 42704, 42710, 42501, XX000 for a copy."""
    assert statement.relation is not None and statement.name is not None
    table = _owner(context, statement.relation, "access exclusive")
    ownership.must_own(context, table)
    trigger = find(table, statement.name)
    if trigger is None:
        raise _missing(statement.name, table)
    if trigger.parent:
        assert isinstance(table, Table)
        above = context.catalog.table(table.parents[0])
        raise SqlError(
            "XX000",
            f'cannot rename trigger "{trigger.name}" on table "{table.name}"',
            hint=f'Rename the trigger on the partitioned table "{above.name}" instead.',
        )
    _rename(context, table, trigger, statement.new_name)
    return "ALTER TRIGGER"


def _rename(context: DdlContext, table: Owner, trigger: Trigger, name: str) -> None:
    if name != trigger.name and find(table, name) is not None:
        raise SqlError("42710", f'trigger "{name}" for relation "{table.name}" already exists')
    context.change({table.oid: _with_trigger(table, trigger, replace(trigger, name=name))})
    for child, copied in list(copies(context, table, trigger)):
        _rename(context, child, copied, name)


def comment(context: DdlContext, name: str, parts: tuple[str, ...], text: str | None) -> str:
    """COMMENT ON TRIGGER."""
    relation = ast.RangeVar(None, parts[-2] if len(parts) > 1 else None, parts[-1])
    table = _owner(context, relation, "share update exclusive")
    ownership.must_own(context, table)
    trigger = find(table, name)
    if trigger is None:
        raise _missing(name, table)
    context.change({table.oid: _with_trigger(table, trigger, replace(trigger, comment=text))})
    return "COMMENT"


def _missing(name: str, table: Owner) -> SqlError:
    return SqlError("42704", f'trigger "{name}" for table "{table.name}" does not exist')


def enable(context: DdlContext, table: Table, command: ast.AlterTableCmd) -> Table:
    """ALTER TABLE ... ENABLE and DISABLE TRIGGER: the changed table. Its partitions are changed at once."""
    enabled = {"always": "A", "replica": "R"}.get(command.value or "", "O")
    if command.action == "disable_trigger":
        enabled = "D"
    every = command.value == "every"
    if not every and find(table, command.name or "") is None:
        raise _missing(command.name or "", table)
    chosen = [item for item in table.triggers if every or item.name == command.name]
    for trigger in chosen:
        _enable_copies(context, table, trigger, enabled)
        changed = _with_trigger(table, trigger, replace(trigger, enabled=enabled))
        assert isinstance(changed, Table)
        table = changed
    return _set_references(context, table, enabled == "D") if every and command.name == "all" else table


def _set_references(context: DdlContext, table: Table, off: bool) -> Table:
    """ENABLE and DISABLE TRIGGER ALL: the triggers of foreign keys, and those of the partitions. Raises 42501 for a
    table that has some."""
    own = [item for item in table.constraints if item.kind == "f"]
    if not context.is_superuser and (own or context.catalog.referencing.get(table.oid)):
        side = "c" if own else "a"
        raise SqlError("42501", f'permission denied: "RI_ConstraintTrigger_{side}_{table.oid}" is a system trigger')
    for part in context.catalog.descendants(table.oid) if table.partitioning is not None else ():
        context.lock_relation(part.oid, "share row exclusive")
        context.change({part.oid: replace(context.catalog.table(part.oid), references_off=off)})
    return replace(table, references_off=off)


def _enable_copies(context: DdlContext, table: Table, trigger: Trigger, enabled: str) -> None:
    for child, copied in list(copies(context, table, trigger)):
        context.lock_relation(child.oid, "share row exclusive")
        context.change({child.oid: _with_trigger(child, copied, replace(copied, enabled=enabled))})
        _enable_copies(context, context.catalog.table(child.oid), copied, enabled)


# ---- dependencies ---------------------------------------------------------------------------------------------------


def with_columns(context: DdlContext, old: Table, new: Table) -> tuple[Trigger, ...]:
    """The triggers of a table with other names of columns."""
    return tuple(
        item
        if item.condition is None
        else replace(item, condition=condition_text(context, _condition_tree(context, old, item.condition), new))
        for item in new.triggers
    )


def _condition_tree(context: DdlContext, table: Table, text: str) -> tree.Expr:
    return analyse_condition(parse_expression(text), context.environment, table)


def using_column(context: DdlContext, table: Table, number: int) -> list[Trigger]:
    """The triggers that depend on a column: by UPDATE OF or WHEN."""
    return [
        item
        for item in table.triggers
        if number in item.columns
        or (
            item.condition is not None
            and any(
                isinstance(part, tree.Var) and part.column == number
                for part in walk(_condition_tree(context, table, item.condition))
            )
        )
    ]


def constraint_of(trigger: Trigger) -> Constraint:
    """The row of pg_constraint of a constraint trigger."""
    return Constraint(
        trigger.constraint, trigger.name, "t", deferrable=trigger.deferrable,
        initially_deferred=trigger.initially_deferred, no_inherit=True,
    )  # fmt: skip
