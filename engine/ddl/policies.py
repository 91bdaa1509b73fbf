"""CREATE POLICY, ALTER POLICY, DROP POLICY (policy.c), and policies as dependents of other objects.

A policy is a part of its table. Its conditions are stored as text with qualified names. When a relation, a column or a
type in them gets another name, they are deparsed again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from catalog.errors import SqlError
from catalog.schema import EVERYBODY, FIRST_USER_OID, Policy, Role, Table, VirtualTable
from engine.ddl import names, ownership
from engine.ddl.context import DdlContext
from engine.ddl.expressions import stored_text
from engine.sql import ast, tree
from engine.sql.analyze.policies import BoundPolicy, bind_condition, bind_policy
from engine.sql.analyze.views import reads_column
from engine.sql.tree_walk import transform

_COMMANDS = {"all": "*", "select": "r", "insert": "a", "update": "w", "delete": "d"}


def create_policy(context: DdlContext, statement: ast.CreatePolicyStmt) -> str:
    """Raises 42601, 42704, 42P01, 42809, 42501, 42710, and errors of the conditions."""
    command = _COMMANDS[statement.command]
    if command in ("r", "d") and statement.check is not None:
        raise SqlError("42601", "WITH CHECK cannot be applied to SELECT or DELETE")
    if command == "a" and statement.using is not None:
        raise SqlError("42601", "only WITH CHECK expression allowed for INSERT")
    roles = _roles(context, statement.roles)
    table = _table(context, statement.relation)
    policy = Policy(context.new_oid(), statement.name, command, statement.permissive, roles)
    policy = _with_conditions(context, table, policy, statement.using, statement.check)
    if _find(table, statement.name) is not None:
        raise _duplicate_name(table, statement.name)
    context.change({table.oid: replace(table, policies=(*table.policies, policy))})
    return "CREATE POLICY"


def alter_policy(context: DdlContext, statement: ast.AlterPolicyStmt) -> str:
    """Raises 42601, 42704, 42P01, 42809, 42501, and errors of the conditions."""
    roles = None if statement.roles is None else _roles(context, statement.roles)
    table = _table(context, statement.relation)
    made = _with_conditions(context, table, Policy(0, ""), statement.using, statement.check)
    policy = _find_existing(table, statement.name)
    if policy.command in ("r", "d") and statement.check is not None:
        raise SqlError("42601", "only USING expression allowed for SELECT, DELETE")
    if policy.command == "a" and statement.using is not None:
        raise SqlError("42601", "only WITH CHECK expression allowed for INSERT")
    changed = policy if roles is None else replace(policy, roles=roles)
    changed = replace(
        changed,
        using=policy.using if made.using is None else made.using,
        check=policy.check if made.check is None else made.check,
    )
    bound = bind_policy(changed, table, context.environment)
    _put(context, table, replace(changed, depends_on=_depends_on(table, bound.relations)))
    return "ALTER POLICY"


def rename_policy(context: DdlContext, statement: ast.RenameStmt) -> str:
    """ALTER POLICY ... RENAME TO; IF EXISTS has no effect there. Raises 42P01, 42809, 42501, 42710, 42704."""
    assert statement.relation is not None and statement.name is not None
    table = _table(context, statement.relation)
    if _find(table, statement.new_name) is not None:
        raise _duplicate_name(table, statement.new_name)
    _put(context, table, replace(_find_existing(table, statement.name), name=statement.new_name))
    return "ALTER POLICY"


def drop_policy(context: DdlContext, table: Table, name: str) -> bool:
    """Drops a policy. Returns whether it exists. Raises 42501."""
    found = _find(table, name)
    if found is None:
        return False
    _must_own(context, table)
    context.lock_relation(table.oid, "access exclusive")
    remove_policies(context, [(table.oid, found.oid)])
    return True


def comment_on_policy(context: DdlContext, parts: tuple[str, ...], name: str, text: str | None) -> str:
    """COMMENT ON POLICY. Raises 42P01, 42704, 42501."""
    relation = ast.RangeVar(None, parts[-2] if len(parts) > 1 else None, parts[-1])
    found = names.find(context, relation)
    if found is None:
        raise SqlError("42P01", f'relation "{names.show_relation(relation)}" does not exist')
    policy = _find(found, name) if isinstance(found, Table) else None
    if policy is None or not isinstance(found, Table):
        raise SqlError("42704", f'policy "{name}" for table "{found.name}" does not exist')
    _must_own(context, found)
    context.lock_relation(found.oid, "share update exclusive")
    _put(context, context.catalog.table(found.oid), replace(policy, comment=text))
    return "COMMENT"


# ---- parts of the statements ----------------------------------------------------------------------------------------


def _table(context: DdlContext, relation: ast.RangeVar) -> Table:
    """RangeVarCallbackForPolicy: the table, locked."""
    found = names.find(context, relation)
    if found is None:
        raise SqlError("42P01", f'relation "{names.show_relation(relation)}" does not exist')
    if not isinstance(found, VirtualTable) and found.oid >= FIRST_USER_OID:
        ownership.must_own(context, found)
    if isinstance(found, Table) and found.query is not None:
        raise SqlError("42809", f'"{found.name}" is not a table')
    return names.table_named(context, relation)


def _must_own(context: DdlContext, table: Table) -> None:
    if not ownership.owns(context, table):
        raise SqlError("42501", f"must be owner of relation {table.name}")


def _roles(context: DdlContext, given: tuple[str, ...]) -> tuple[int, ...]:
    """policy_role_list_to_array. Raises 42704."""
    if not given:
        return (EVERYBODY,)
    if "public" in given:
        if len(given) > 1:
            message, hint = "ignoring specified roles other than PUBLIC", "All roles are members of the PUBLIC role."
            context.notice(SqlError("22023", message, hint=hint, severity="WARNING"))
        return (EVERYBODY,)
    return tuple(ownership.role_named(context, name).oid for name in given)


def _with_conditions(
    context: DdlContext, table: Table, policy: Policy, using: ast.Node | None, check: ast.Node | None
) -> Policy:
    texts: list[str | None] = []
    relations: dict[int, None] = {}
    for node in (using, check):
        if node is None:
            texts.append(None)
            continue
        condition, read = bind_condition(node, table, context.environment)
        texts.append(stored_text(context, condition, table))
        relations.update(dict.fromkeys(read))
    for oid in relations:
        if oid != table.oid and oid in context.catalog.objects:
            context.lock_relation(oid, "access share")
    return replace(policy, using=texts[0], check=texts[1], depends_on=_depends_on(table, relations))


def _depends_on(table: Table, relations: Collection[int]) -> tuple[int, ...]:
    return tuple(oid for oid in relations if oid != table.oid)


def _find(table: object, name: str) -> Policy | None:
    policies = table.policies if isinstance(table, Table) else ()
    return next((policy for policy in policies if policy.name == name), None)


def _find_existing(table: Table, name: str) -> Policy:
    found = _find(table, name)
    if found is None:
        raise SqlError("42704", f'policy "{name}" for table "{table.name}" does not exist')
    return found


def _duplicate_name(table: Table, name: str) -> SqlError:
    return SqlError("42710", f'policy "{name}" for table "{table.name}" already exists')


def _put(context: DdlContext, table: Table, changed: Policy) -> None:
    policies = tuple(changed if policy.oid == changed.oid else policy for policy in table.policies)
    context.change({table.oid: replace(table, policies=policies)})


def remove_policies(context: DdlContext, policies: Collection[tuple[int, int]]) -> None:
    """Removes policies: (table OID, policy OID)."""
    for table_oid in dict.fromkeys(oid for oid, _ in policies):
        table = context.catalog.table(table_oid)
        kept = tuple(policy for policy in table.policies if (table_oid, policy.oid) not in policies)
        context.change({table_oid: replace(table, policies=kept)})


# ---- dependencies ---------------------------------------------------------------------------------------------------


def show_policy(policy: Policy, table: Table) -> str:
    """A policy as messages show it."""
    return f"policy {policy.name} on table {table.name}"


def all_policies(context: DdlContext) -> Iterator[tuple[Table, Policy]]:
    """The policies of this database."""
    for table in context.catalog.tables():
        for policy in table.policies:
            yield table, policy


def policies_over(context: DdlContext, oid: int) -> list[tuple[Table, Policy]]:
    """The policies of other tables whose conditions read a relation."""
    return [(table, policy) for table, policy in all_policies(context) if oid in policy.depends_on]


def policies_with_column(context: DdlContext, relation: Table, number: int) -> list[tuple[Table, Policy]]:
    """The policies whose conditions use a column (attnum) of a table."""
    found = []
    for table, policy in all_policies(context):
        if table.oid == relation.oid or relation.oid in policy.depends_on:
            bound = bind_policy(policy, table, context.environment)
            levels = ((_entry(table),),)
            if reads_column((bound.using, bound.check), relation.oid, number, levels):
                found.append((table, policy))
    return found


def _entry(table: Table) -> tree.RangeTable:
    columns = tuple(tree.RangeColumn(column.name, column.type) for column in table.columns)
    return tree.RangeTable(table, table.name, columns)


def policies_of_role(context: DdlContext, role: Role) -> Iterator[tuple[Table, Policy]]:
    """The policies, of any database, that name a role."""
    tables = [item for item in context.catalog.objects.values() if isinstance(item, Table)]
    for table in sorted(tables, key=lambda item: item.oid):
        for policy in table.policies:
            if role.oid in policy.roles:
                yield table, policy


def forget_role(context: DdlContext, role: Role) -> None:
    """DROP OWNED: removes a role from the policies of this database, which go with their last role
    (RemoveRoleFromObjectPolicy)."""
    here = set(context.catalog.schemas.values())
    for table, policy in list(policies_of_role(context, role)):
        if table.schema not in here:
            continue
        left = tuple(oid for oid in policy.roles if oid != role.oid)
        if left:
            _put(context, context.catalog.table(table.oid), replace(policy, roles=left))
        else:
            remove_policies(context, [(table.oid, policy.oid)])


# ---- new names ------------------------------------------------------------------------------------------------------


def policy_rewrites(context: DdlContext, concerns: Callable[[Table, Policy], bool]) -> list[Callable[[], None]]:
    """For policies whose text contains a name that is about to change: parses them now, and returns functions that
    deparse them after the change."""
    found = []
    for table, policy in all_policies(context):
        if concerns(table, policy):
            found.append(_rewrite(context, table, bind_policy(policy, table, context.environment)))
    return found


def policies_naming(oids: Collection[int]) -> Callable[[Table, Policy], bool]:
    """Whether a policy is of one of these relations or reads one."""

    def names_one(table: Table, policy: Policy) -> bool:
        return table.oid in oids or any(oid in oids for oid in policy.depends_on)

    return names_one


def _rewrite(context: DdlContext, table: Table, bound: BoundPolicy) -> Callable[[], None]:
    def rewrite() -> None:
        current = context.catalog.get(table.oid)
        assert isinstance(current, Table)
        policy = next((item for item in current.policies if item.oid == bound.policy.oid), None)
        if policy is None:
            return
        using, check = (
            None if part is None else stored_text(context, _of_today(context, part), current)
            for part in (bound.using, bound.check)
        )
        if (using, check) != (policy.using, policy.check):
            _put(context, current, replace(policy, using=using, check=check))

    return rewrite


def _of_today(context: DdlContext, condition: tree.Expr) -> tree.Expr:
    """The condition over the present relations, whose columns may have other names than when it was analysed."""

    def change(item: object, depth: int) -> object:
        if isinstance(item, tree.RangeTable) and isinstance(item.table, Table):
            return _present_entry(item, item.table, context.catalog.table(item.table.oid))
        return item

    return transform(condition, change)


def _present_entry(entry: tree.RangeTable, old: Table, now: Table) -> tree.RangeTable:
    """A range table entry with the present table. Names that the text gives to columns remain."""
    names_of = {column.number: item.name for column, item in zip(old.columns, entry.columns, strict=True)}
    given = frozenset(column.number for column in old.columns if names_of[column.number] != column.name)
    columns = tuple(
        tree.RangeColumn(names_of[column.number] if column.number in given else column.name, column.type)
        for column in now.columns
    )
    return replace(entry, table=now, columns=columns, given=given)
