"""Row security policies in a statement (rowsecurity.c, rewriteHandler.c).

    a table that is read              only rows that the SELECT policies show (FOR UPDATE: the UPDATE policies too)
    UPDATE, DELETE                    only rows that their policies show, and the SELECT policies if the statement reads
                                      columns of the table
    new rows                          checks of the INSERT or UPDATE policies; and of the SELECT policies, as above
    ON CONFLICT DO UPDATE, MERGE      also checks of the old row, which raise an error

The role is the current user; in a view its owner; in the body of a SECURITY DEFINER function the function's owner
(`role` of tree.RangeTable).

No function that may reveal its arguments sees a row that the policies hide (engine/sql/barriers.py). So there are three
forms of the conditions:

    SELECT ... FROM t WHERE policy AND condition                  if nothing in the statement may reveal values early
    SELECT ... FROM (SELECT ... FROM t WHERE policy) t WHERE ...  a sub-query that stays apart; also at nullable places
    UPDATE t ... WHERE CASE WHEN policy THEN condition END        for targets and locked tables, which must be tables
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from catalog.catalog import Catalog
from catalog.errors import SqlError, not_supported
from catalog.privileges import is_owner, roles_of
from catalog.row_security import concerns_role, is_restricted
from catalog.schema import Role, Table
from catalog.types.base import TypeRef
from catalog.types.oids import INT4, INT8, OID
from engine.sql import tree
from engine.sql.analyze.collation_needs import needs_collations
from engine.sql.analyze.environment import Environment
from engine.sql.analyze.policies import BoundPolicy, bind_policy, table_policies
from engine.sql.analyze.routines import Expansion, as_user
from engine.sql.analyze.typeinfo import BOOL_REF
from engine.sql.analyze.updatable import join_conditions
from engine.sql.barriers import guard_conditions, may_reveal, may_reveal_early, tells
from engine.sql.privileges import check_sublinks, reads_target, runs_as
from engine.sql.table_subqueries import as_subquery, uses
from engine.sql.tree_walk import firm_places, has_sublink, substitute, transform, walk

Check = tuple[str, tree.Expr]
_Tree = TypeVar("_Tree")
_Reading = TypeVar("_Reading", tree.Query, tree.Update, tree.Delete, tree.Merge)
_FALSE = tree.Const(False, BOOL_REF)
NEW_ROW, CONFLICTING_ROW, TARGET_ROW = "n", "c", "t"
"""Kinds of checks, in their names: they determine the error's message."""


@dataclass(frozen=True, slots=True)
class SecurityContext:
    """`user`: the current user. `enabled`: the setting row_security; if it is off, statements that policies would
    restrict are refused. `today`: the present catalog and user, if the statement reads the past."""

    user: Role
    enabled: bool = True
    today: tuple[Catalog, Role] | None = None


def has_policies(catalog: Catalog, today: Catalog | None, relations: Iterable[int]) -> bool:
    """Whether row security is enabled for one of the relations, now or at the moment that is read. Nearly all
    statements have none."""
    return any(
        isinstance(item := one.get(oid), Table) and item.row_security
        for one in (catalog, today)
        if one is not None
        for oid in relations
    )


def apply_policies(analyzed: tree.Analyzed, environment: Environment, context: SecurityContext) -> tree.Analyzed:
    """The statement with the conditions of all policies. Raises 42501 if row_security is off and for sub-queries in
    policies, 42P17 for policies that read each other."""
    application = _Application(environment, context, may_reveal_early(analyzed.statement))
    statement = application.within(analyzed.statement, context.user)
    if statement is analyzed.statement:
        return analyzed
    relations = tuple(dict.fromkeys((*analyzed.relations, *application.relations)))
    named = analyzed.collated or any(isinstance(item, tree.CollateExpr) for item in walk(statement))
    return replace(
        analyzed,
        statement=statement,
        relations=relations,
        table_oids=analyzed.table_oids or application.table_oids,
        collated=needs_collations(environment.catalog, relations, named),
    )


def affected_by_policies(catalog: Catalog, table: Table, role: Role) -> SqlError:
    """42501 for a statement that policies would restrict, while row_security is off."""
    hint = "To disable the policy for the table's owner, use ALTER TABLE NO FORCE ROW LEVEL SECURITY."
    message = f'query would be affected by row-level security policy for table "{table.name}"'
    return SqlError("42501", message, hint=hint if is_owner(catalog, table, role) else None)


def check_rewrite(analyzed: tree.Analyzed, environment: Environment, context: SecurityContext) -> None:
    """Raises the errors that PostgreSQL finds before it checks privileges: 42501 if row_security is off, 42P17."""
    if has_policies(environment.catalog, None, analyzed.relations):
        _Application(environment, context, False, asks=False).within(analyzed.statement, context.user)


@dataclass(frozen=True, slots=True)
class _Conditions:
    """The policies of a table for a role. `definer`: the role is the owner of a SECURITY DEFINER function."""

    table: Table
    role: Role
    definer: bool
    policies: Sequence[BoundPolicy]
    more: Sequence[Sequence[BoundPolicy]] = ()  # the policies of today, for a statement that reads the past

    def quals(self, command: str) -> list[tree.Expr]:
        """The conditions under which existing rows are visible to a command (add_security_quals)."""
        return [item for policies in (self.policies, *self.more) for item in _quals(policies, command)]

    def checks(self, command: str, kind: str, using: bool = False) -> list[Check]:
        """The checks of a row (add_with_check_options). `using`: by USING in any case."""
        found = [item for policies in (self.policies, *self.more) for item in _row_checks(policies, command, using)]
        return [(f"{kind}{name}\1{self.table.name}", condition) for name, condition in found]

    @property
    def relations(self) -> Iterator[int]:
        """The relations that the conditions of the policies read."""
        for item in (*self.policies, *(item for policies in self.more for item in policies)):
            yield from item.relations


def _for_command(policies: Sequence[BoundPolicy], command: str) -> tuple[list[BoundPolicy], list[BoundPolicy]]:
    """The permissive and the restrictive policies for a command."""
    found = [item for item in policies if item.policy.command in ("*", command)]
    return [item for item in found if item.policy.permissive], [item for item in found if not item.policy.permissive]


def _any_of(conditions: Sequence[tree.Expr]) -> tree.Expr:
    return conditions[0] if len(conditions) == 1 else tree.BoolExpr("or", tuple(conditions), BOOL_REF)


def _quals(policies: Sequence[BoundPolicy], command: str) -> list[tree.Expr]:
    permissive, restrictive = _for_command(policies, command)
    allowed = [item.using for item in permissive if item.using is not None]
    if not allowed:
        return [_FALSE]
    return [*(item.using for item in restrictive if item.using is not None), _any_of(allowed)]


def _row_checks(policies: Sequence[BoundPolicy], command: str, using: bool) -> list[Check]:
    """The checks with the names of restrictive policies, '' for the permissive ones together."""

    def condition(item: BoundPolicy) -> tree.Expr | None:
        return item.using if using or item.check is None else item.check

    permissive, restrictive = _for_command(policies, command)
    allowed = [found for item in permissive if (found := condition(item)) is not None]
    if not allowed:
        return [("", _FALSE)]
    named = [(item.policy.name, found) for item in restrictive if (found := condition(item)) is not None]
    return [("", _any_of(allowed)), *named]


def _name_checks(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Checks under names that keep their order: the prefix, a number of four digits, the kind of row, the policy's name
    or nothing, and after the prefix again the table's name. NULL is no yes."""
    return tuple(
        (f"{tree.POLICY_CHECK}{number:04}{name}", tree.BooleanTest(condition, "is_true", BOOL_REF))
        for number, (name, condition) in enumerate(checks)
    )


class _Application:
    """Rebuilds one statement. `reveals`: whether something in it may reveal values before its conditions are evaluated.
    `asks`: whether the privileges of sub-queries and functions in policies are checked."""

    def __init__(self, environment: Environment, context: SecurityContext, reveals: bool, asks: bool = True) -> None:
        self._asks = asks
        self._environment = environment
        self._catalog = environment.catalog
        self._context = context
        self._reveals = reveals
        self._active: list[int] = []  # the tables whose policies are expanded at the moment
        self.relations: dict[int, None] = {}
        self.table_oids = False

    def within(self, node: _Tree, role: Role, root: object = None) -> _Tree:
        """A tree in which a role reads; without `root` itself, but with everything in it."""

        def change(item: object, depth: int) -> object:
            if item is root:
                return None
            if isinstance(item, tree.RangeSubquery) and item.view is not None:
                inner = runs_as(self._catalog, self._catalog.get(item.view), role)
                found = self.within(item.query, inner)
                return item if found is item.query else replace(item, query=found)
            if isinstance(item, tree.Query):
                return self._query(self.within(item, role, item), role)
            if isinstance(item, tree.Insert | tree.Update | tree.Delete | tree.Merge):
                return self._change(self.within(item, role, item), role)
            return None

        return substitute(node, change)

    # ---- the policies of a table ------------------------------------------------------------------------------------

    def _conditions(self, entry: tree.RangeEntry, role: Role) -> _Conditions | None:
        """The policies that apply to a role at a table, None if it may see every row. Raises 42501 if row_security is
        off."""
        if not isinstance(entry, tree.RangeTable) or not isinstance(entry.table, Table):
            return None
        table, catalog = entry.table, self._catalog
        if entry.role:
            definer = catalog.get(entry.role)
            role = definer if isinstance(definer, Role) else role
        more = self._of_today(table, role)
        restricted = is_restricted(catalog, table, role)
        if not restricted and not more:
            return None
        if not self._context.enabled:
            raise affected_by_policies(catalog, table, role)
        groups = roles_of(catalog, role)
        bound = table_policies(table, self._environment) if restricted else ()
        policies = [item for item in bound if concerns_role(item.policy, groups)]
        lists = [policies, *more] if restricted else more
        found = _Conditions(table, role, bool(entry.role), lists[0], lists[1:])
        self.relations.update(dict.fromkeys(found.relations))
        return found

    def _of_today(self, table: Table, role: Role) -> list[list[BoundPolicy]]:
        """The present policies of a table that is read in the past, if they apply: reading the past does not give back
        rights that were taken since then."""
        if self._context.today is None:
            return []
        catalog, user = self._context.today
        present, now = catalog.get(table.oid), catalog.get(role.oid)
        if role.oid == self._context.user.oid:
            now = user
        if not isinstance(present, Table) or not present.row_security:
            return []
        if isinstance(now, Role) and not is_restricted(catalog, present, now):
            return []
        groups = roles_of(catalog, now) if isinstance(now, Role) else set[int]()
        policies = sorted(present.policies, key=lambda item: item.name)
        try:
            return [[bind_policy(item, table, self._environment) for item in policies if concerns_role(item, groups)]]
        except SqlError:
            not_supported(f"reading the past of table {table.name} under policies that did not fit it then")

    def _expand_conditions(self, conditions: _Conditions, part: _Tree) -> _Tree:
        """Conditions with the bodies of their functions, and with the policies of the tables in their sub-queries.
        Raises 42P17, 42501."""
        table, role = conditions.table, conditions.role
        if self._asks:
            check_sublinks(self._catalog, role, part)
        if self._catalog.routines and self._asks:
            expansion = Expansion(self._environment, role)
            part = cast("_Tree", expansion.of(part))
            self.relations.update(expansion.relations)
        if any(isinstance(item, tree.Var) and item.column == tree.TABLE_OID for item in walk(part)):
            self.table_oids = True
        if has_sublink(part):
            if table.oid in self._active:
                message = f'infinite recursion detected in policy for relation "{table.name}"'
                raise SqlError("42P17", message)
            before, self._reveals = self._reveals, self._reveals or tells(part)
            self._active.append(table.oid)
            part = self.within(part, role)
            self._active.pop()
            self._reveals = before
        return cast("_Tree", as_user(part, role)) if conditions.definer else part

    # ---- reading ----------------------------------------------------------------------------------------------------

    def _query(self, query: tree.Query, role: Role) -> tree.Query:
        marked = {mark.relation for mark in query.row_marks}
        quals = self._entry_quals(query, 0, role, marked)
        if not quals:
            return query
        if marked and self._reveals and (not marked.issuperset(quals) or may_reveal(query.from_items)):
            not_supported("row locks on a table with row security, with functions in joins that are not leakproof")
        return self._restrict(query, query.from_items, quals, marked)

    def _entry_quals(
        self, node: tree.Statement, first: int, role: Role, marked: Collection[int] = ()
    ) -> dict[int, tuple[tree.Expr, ...]]:
        """The conditions of the tables that are read, from that range table entry on."""
        found = {}
        for relation, entry in enumerate(node.range_table):
            conditions = self._conditions(entry, role) if relation >= first else None
            if conditions is not None:
                wanted = [*(conditions.quals("w") if relation in marked else []), *conditions.quals("r")]
                found[relation] = self._expand_conditions(conditions, tuple(dict.fromkeys(wanted)))
        return found

    def _restrict(
        self,
        node: _Reading,
        from_items: Sequence[tree.FromItem],
        quals: Mapping[int, tuple[tree.Expr, ...]],
        whole: Collection[int],
    ) -> _Reading:
        """A statement with conditions on its tables. Those in `whole` must remain tables."""
        firm = set[int]() if isinstance(node, tree.Merge) else set(firm_places(tuple(from_items)))
        above: list[tree.Expr] = []
        entries = list(node.range_table)
        for relation, conditions in quals.items():
            if relation in whole or (relation in firm and not self._reveals):
                above += [_move(condition, relation) for condition in conditions]
            else:
                entry = entries[relation]
                assert isinstance(entry, tree.RangeTable)
                with_oid = uses(node, relation, tree.TABLE_OID)
                numbered = uses(node, relation, tree.ROW_NUMBER)
                entries[relation] = replace(_subquery(entry, conditions, with_oid, numbered), apart=self._reveals)
        changed = replace(node, range_table=tuple(entries))
        for relation in quals:
            before, after = node.range_table[relation], entries[relation]
            if isinstance(before, tree.RangeTable) and isinstance(after, tree.RangeSubquery):
                changed = as_subquery(changed, relation, before, after)
        if isinstance(changed, tree.Merge):
            condition = join_conditions(guard_conditions(above, changed.condition))
            assert condition is not None
            return replace(changed, condition=condition)
        return replace(changed, where=join_conditions(guard_conditions(above, changed.where)))

    # ---- changes ----------------------------------------------------------------------------------------------------

    def _change(self, node: tree.Insert | tree.Update | tree.Delete | tree.Merge, role: Role) -> tree.Statement:
        owner = role
        for used in () if isinstance(node, tree.Merge) else node.views:
            owner = runs_as(self._catalog, self._catalog.get(used.oid), owner)
        target = self._conditions(node.range_table[0], owner)
        if isinstance(node, tree.Insert):  # its other entry is EXCLUDED
            return node if target is None else self._insert(node, target)
        quals = {} if target is None else {0: self._target_quals(node, target)}
        quals |= self._entry_quals(node, 1, role)
        if not quals:
            return node
        if isinstance(node, tree.Merge):
            merged = self._restrict(node, (node.source,), quals, (0,))
            return merged if target is None else self._merge(merged, target)
        if isinstance(node, tree.Delete):
            return self._restrict(node, (tree.FromRef(0), *node.from_items), quals, (0,))
        changed = self._restrict(node, (tree.FromRef(0), *node.from_items), quals, (0,))
        if target is None:
            return changed
        return replace(changed, checks=(*changed.checks, *self._new_row_checks(target, "w", reads_target(node))))

    def _target_quals(self, node: tree.Update | tree.Delete | tree.Merge, target: _Conditions) -> tuple[tree.Expr, ...]:
        """The conditions of the rows that a change may see."""
        if not isinstance(node, tree.Merge) and isinstance(node.where, tree.CurrentOf):
            not_supported("WHERE CURRENT OF for a table with row security")
        wanted = target.quals("r") if reads_target(node) else []
        if not isinstance(node, tree.Merge):
            wanted += target.quals("w" if isinstance(node, tree.Update) else "d")
        return self._expand_conditions(target, tuple(dict.fromkeys(wanted)))

    def _new_row_checks(self, target: _Conditions, command: str, reads: bool, kind: str = NEW_ROW) -> tuple[Check, ...]:
        """The checks of a row by the policies of a command and, if the statement reads the table, those of SELECT."""
        using = kind != NEW_ROW
        found = [*target.checks(command, kind, using), *(target.checks("r", kind, True) if reads else [])]
        return self._expand_conditions(target, _name_checks(dict.fromkeys(found)))

    def _insert(self, node: tree.Insert, target: _Conditions) -> tree.Insert:
        reads = reads_target(node)
        conflict = node.on_conflict
        if conflict is not None and conflict.action == "update":
            conflict = replace(
                conflict,
                policies=self._new_row_checks(target, "w", reads, CONFLICTING_ROW),
                checks=self._new_row_checks(target, "w", reads),
            )
        checks = (*node.checks, *self._new_row_checks(target, "a", reads))
        return replace(node, checks=checks, on_conflict=conflict)

    def _merge(self, node: tree.Merge, target: _Conditions) -> tree.Merge:
        return replace(node, actions=tuple(self._action(action, target) for action in node.actions))

    def _action(self, action: tree.MergeAction, target: _Conditions) -> tree.MergeAction:
        if action.action == "insert":
            return replace(action, checks=self._new_row_checks(target, "a", False))
        if action.action == "update":
            old = self._new_row_checks(target, "w", False, TARGET_ROW)
            return replace(action, policies=old, checks=self._new_row_checks(target, "w", True))
        if action.action == "delete":
            return replace(action, policies=self._new_row_checks(target, "d", False, TARGET_ROW))
        return action


def _move(condition: tree.Expr, relation: int) -> tree.Expr:
    """A condition over range entry 0 as one over another entry."""
    if not relation:
        return condition

    def change(item: object, depth: int) -> object:
        is_own = isinstance(item, tree.Var) and item.levels_up == depth and item.relation == 0
        return replace(cast(tree.Var, item), relation=relation) if is_own else item

    return transform(condition, change)


def _subquery(
    entry: tree.RangeTable, conditions: Sequence[tree.Expr], with_oid: bool, numbered: bool
) -> tree.RangeSubquery:
    """The rows of a table that meet conditions, as a sub-query whose columns are at the positions of their numbers."""
    table = entry.table
    assert isinstance(table, Table)
    shown = {column.number: (item.name, column.type) for column, item in zip(table.columns, entry.columns, strict=True)}
    targets = []
    for number in range(1, table.next_column):
        name, type_ = shown.get(number, ("", TypeRef(INT4)))
        value: tree.Expr = tree.Var(0, number, type_, 0, name) if number in shown else tree.Const(None, type_)
        targets.append(tree.Target(value, name))
    if numbered:
        targets.append(tree.Target(tree.Var(0, tree.ROW_NUMBER, TypeRef(INT8)), ""))
    if with_oid:
        targets.append(tree.Target(tree.Var(0, tree.TABLE_OID, TypeRef(OID), 0, "tableoid"), "tableoid"))
    columns = tuple(tree.RangeColumn(target.name, target.expression.type) for target in targets)
    query = tree.Query(tuple(targets), (entry,), (tree.FromRef(0),), join_conditions(list(conditions)))
    return tree.RangeSubquery(query, entry.alias, columns)
