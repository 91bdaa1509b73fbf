"""Derives the collation of every comparison, order and case mapping, and rewrites the tree for it (parse_collate.c).

A collation is *derived* bottom-up. The state of an expression is a `Derived`:

    none        no text
    implicit    a column's collation, or its type's; the default one gives way to any other
    conflict    two columns disagree: an operation that needs a collation raises 42P22
    explicit    COLLATE; two different ones are an error at once (42P21)

`collate` walks a statement after analysis and returns a tree without COLLATE, in which types represent ICU collations
(catalog/types/collated.py). The operands of `<` are relabelled to the collated type, and the function is `collated_lt`.
The same is done for ORDER BY, min and max, GREATEST, and, if the collation is not deterministic, for equality (=,
DISTINCT, GROUP BY, UNION). upper, lower and initcap become ICU's. All other collations compare bytes, as an unchanged
tree does. So a statement without an ICU collation changes only in its COLLATEs.

It runs when a statement is analysed, for its errors, and again when it is planned, for its result. Between the two, the
text of a view can still be printed from the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from catalog import collations
from catalog.catalog import Catalog
from catalog.errors import SqlError, not_supported
from catalog.functions import registry
from catalog.functions.base import Function, Operator, Trait
from catalog.functions.registry import has_trait
from catalog.identifiers import quote_identifier
from catalog.schema import PG_CATALOG_OID, Domain, Table, VirtualTable
from catalog.types import format_type
from catalog.types.base import TypeRef
from catalog.types.collated import Rules
from catalog.types.oids import UNKNOWN
from engine.sql import tree
from engine.sql.analyze.collated_functions import (
    ascii_function,
    ascii_mapping,
    collated_comparison,
    collated_extreme,
    collated_mapping,
    collated_pair,
    decides,
    like_function,
)
from engine.sql.analyze.collated_trees import (
    as_collated,
    grouped_loosely,
    loose,
    texts,
    with_collated_output,
)
from engine.sql.analyze.derived_collations import CONFLICT, EXPLICIT, IMPLICIT, NONE, Derived, indeterminate
from engine.sql.analyze.errors import expr_location, fail
from engine.sql.tree_walk import node_fields, walk

_NOTHING = Derived()
_NOT_DERIVED = Derived(other=-1)
"""The collation of a column with conflicting collations in the arms of a UNION ALL. Any other collation has precedence,
and an expression that needs a collation and has only this one fails."""
_EXPRESSIONS = {
    tree.OnConflict: ("assignments", "where", "policies", "checks"),
    tree.MergeAction: ("condition", "assignments", "policies", "checks"),
}
_LEVELS = (tree.Query, tree.Insert, tree.Update, tree.Delete, tree.Merge)


class _Level:
    """One query level: the collations of the columns of each range table entry, and of each WITH item."""

    __slots__ = ("arms", "ctes", "entries")

    def __init__(self) -> None:
        self.entries: list[dict[int, int]] = []
        self.ctes: dict[str, list[int]] = {}
        self.arms: dict[int, list[Derived]] = {}  # of set operations: what the columns of each arm derive


def collate(analyzed: tree.Analyzed, catalog: Catalog) -> tree.Analyzed:
    """The statement in the form for the executors. Raises 42P21, 42P22, 0A000 (operations that nondeterministic
    collations do not support)."""
    if not analyzed.collated:
        return analyzed
    walker = Collator(catalog)
    statement = walker.statement(analyzed.statement)
    return replace(analyzed, statement=statement, collated=False, outputs=tuple(walker.outputs))


def collate_expression(expression: tree.Expr, catalog: Catalog, table: Table | None) -> tree.Expr:
    """The expression, outside of any query, in the form for the executors, over the columns of `table`."""
    named = any(isinstance(item, tree.CollateExpr | tree.CoerceToDomain) for item in walk(expression))
    named = named or catalog.knows_ascii_only
    if not named and (table is None or not any(column.collation for column in table.columns)):
        return expression
    made: tree.Expr = Collator(catalog, table).expression(expression)[0]
    return made


def collation_of(expression: tree.Expr, catalog: Catalog, table: Table | None) -> Derived:
    """The collation of an expression outside of any query: of an index, a partition key, pg_collation_for()."""
    return Collator(catalog, table).expression(expression)[1]


def output_collations(query: tree.Statement, catalog: Catalog) -> list[int]:
    """The collation of each output column of a query, or 0 if it has none or it could not be derived."""
    walker = Collator(catalog)
    walker.statement(query)
    return walker.outputs


class Collator:
    """Derives and rewrites. `table`: the table of an expression outside of queries (range entry 0)."""

    def __init__(self, catalog: Catalog, table: Table | None = None) -> None:
        self._catalog = catalog
        self._levels: list[_Level] = []
        self._case_values: list[Derived] = []
        self.outputs: list[int] = []
        self._columns: list[Derived] = []  # what the columns of the last query derive
        self._first_arm: list[int] = []  # of the last set operation: the collations of its first arm
        if table is not None:
            level = _Level()
            level.entries.append(_of_columns(table))
            self._levels.append(level)

    # ---- statements -------------------------------------------------------------------------------------------------

    def statement(self, node: Any) -> Any:
        """Rewrites a statement. `outputs` are then the collations of its output columns."""
        if isinstance(node, tree.Query):
            return self.query(node)
        level = _Level()
        self._levels.append(level)
        try:
            changes: dict[str, Any] = {"ctes": self._ctes(level, node.ctes)}
            changes["range_table"] = self._range_table(level, node.range_table)
            outputs: list[int] = []
            for name in node_fields[type(node)]:
                if name in ("ctes", "range_table"):
                    continue
                value = getattr(node, name)
                if name == "returning":
                    changes[name], outputs = self._targets(value)
                else:
                    changes[name] = self._part(value)
            self.outputs = outputs
            return replace(node, **changes)
        finally:
            self._levels.pop()

    def _part(self, value: Any) -> Any:
        """Rewrites a node whose expressions pass no collation on."""
        if isinstance(value, tuple):
            items = tuple(self._part(item) for item in value)
            return value if all(a is b for a, b in zip(items, value, strict=True)) else items
        if isinstance(value, tree.Query):
            return self.query(value)
        if isinstance(value, tree.FromRef):
            return value
        if isinstance(value, tree.FromJoin):
            left, right = self._part(value.left), self._part(value.right)
            return replace(value, left=left, right=right, condition=self._part(value.condition))
        if isinstance(value, tree.Assignment):
            return replace(value, expression=self._part(value.expression))
        if isinstance(value, tree.OnConflict | tree.MergeAction):
            return replace(value, **{name: self._part(getattr(value, name)) for name in _EXPRESSIONS[type(value)]})
        if type(value).__module__ == tree.__name__:
            return self.expression(value)[0]
        return value

    def query(self, node: tree.Query) -> tree.Query:
        level = _Level()
        self._levels.append(level)
        try:
            ctes = self._ctes(level, node.ctes)
            range_table = self._range_table(level, node.range_table)
            changed = replace(node, ctes=ctes, range_table=range_table, from_items=self._part(node.from_items))
            if node.set_operation is not None:
                return self._set_operation(changed, level)
            return self._select(changed)
        finally:
            self._levels.pop()

    def _ctes(self, level: _Level, ctes: tuple[tree.Cte, ...]) -> tuple[tree.Cte, ...]:
        made = []
        for cte in ctes:
            columns = [collations.of_type(column.type.oid) for column in cte.columns]
            level.ctes[cte.name] = columns
            query = self.statement(cte.query)
            if cte.recursive and isinstance(query, tree.Query) and query.set_operation is not None:
                first = self._first_arm
                if first != columns[: len(first)]:
                    level.ctes[cte.name] = [*first, *columns[len(first) :]]
                    query = self.statement(cte.query)
                self._refuse_other_overall(cte.name, first, self.outputs)
            level.ctes[cte.name] = [*self.outputs, *columns[len(self.outputs) :]]
            made.append(replace(cte, query=query))
        return tuple(made)

    def _refuse_other_overall(self, name: str, first: list[int], overall: list[int]) -> None:
        """42P21 for a recursive query whose recursive term has another collation than its non-recursive term."""
        for number, (one, other) in enumerate(zip(first, overall, strict=False), 1):
            if one != other:
                names = [f'"{self._name(oid)}"' if oid else "none" for oid in (one, other)]
                raise SqlError(
                    "42P21",
                    f'recursive query "{name}" column {number} has collation {names[0]} in non-recursive term but '
                    f"collation {names[1]} overall",
                    hint="Use the COLLATE clause to set the collation of the non-recursive term.",
                )

    def _range_table(self, level: _Level, entries: tuple[tree.RangeEntry, ...]) -> tuple[tree.RangeEntry, ...]:
        made: list[tree.RangeEntry] = []
        for entry in entries:
            changed, columns = self._entry(entry)
            columns.update({place: item.collation for place, item in enumerate(entry.columns, 1) if item.collation})
            if isinstance(entry, tree.RangeSubquery):
                at = [expr_location(item.expression) for item in entry.query.output]
                level.arms[len(made)] = [
                    replace(derived, location=place) for derived, place in zip(self._columns, at, strict=False)
                ]
            level.entries.append(columns)
            made.append(changed)
        return tuple(made)

    def _entry(self, entry: tree.RangeEntry) -> tuple[tree.RangeEntry, dict[int, int]]:
        own = dict(enumerate((collations.of_type(column.type.oid) for column in entry.columns), 1))
        if isinstance(entry, tree.RangeTable):
            return entry, _of_columns(entry.table)
        if isinstance(entry, tree.RangeSubquery):
            changed: tree.RangeEntry = replace(entry, query=self.query(entry.query))
            return changed, dict(enumerate(self.outputs, 1))
        if isinstance(entry, tree.RangeFunction):
            found = [self.expression(item) for item in entry.functions]
            if len(found) == 1 and len(entry.columns) == 1 + entry.ordinality and found[0][1].strength != NONE:
                own[1] = found[0][1].oid
            return replace(entry, functions=tuple(item for item, _ in found)), own
        if isinstance(entry, tree.RangeValues):
            rows = [[self.expression(item) for item in row] for row in entry.rows]
            for number in own:
                merged = self._merge([row[number - 1][1] for row in rows])
                own[number] = merged.oid if merged.strength != CONFLICT else 0
            return replace(entry, rows=tuple(tuple(item for item, _ in row) for row in rows)), own
        if isinstance(entry, tree.RangeCte):
            known = self._levels[-1 - entry.levels_up].ctes.get(entry.name)
            return entry, own if known is None else {**own, **dict(enumerate(known, 1))}
        expressions = [self.expression(item) for item in entry.expressions]
        changed = replace(entry, expressions=tuple(item for item, _ in expressions))
        return changed, dict(enumerate((_settle(derived) for _, derived in expressions), 1))

    def _targets(self, targets: tuple[tree.Target, ...]) -> tuple[tuple[tree.Target, ...], list[int]]:
        made, columns = [], []
        for target in targets:
            expression, derived = self.expression(target.expression)
            made.append(replace(target, expression=expression))
            if not target.junk:
                columns.append(derived)
        self._columns = columns
        return tuple(made), [_settle(derived) for derived in columns]

    # ---- queries ----------------------------------------------------------------------------------------------------

    def _select(self, node: tree.Query) -> tree.Query:
        targets, outputs = self._targets(node.targets)
        columns = self._columns
        grouped = [self.expression(item) for item in node.group_by]
        for item, derived in grouped:
            self._refuse_mismatch(derived)
            if texts(item):
                self._require_rules(derived)
        distinct, whole = node.distinct, node.distinct == ()
        if distinct:
            distinct = tuple(self._order(item) for item in distinct)
        changed = replace(
            node, targets=targets, where=self._part(node.where), having=self._part(node.having),
            group_by=tuple(item for item, _ in grouped), windows=tuple(map(self._window, node.windows)),
            distinct=distinct, order_by=self._sort(node.order_by), limit=self._part(node.limit),
            offset=self._part(node.offset),
        )  # fmt: skip
        if whole:
            changed = replace(changed, targets=self._distinct_targets(node.targets, targets))
        equal = [(item, self._rules(derived)) for item, derived in grouped if texts(item)]
        equal = [(item, rules) for item, rules in equal if loose(rules)]
        if equal:
            changed = grouped_loosely(changed, equal)
        self.outputs, self._columns = outputs, columns
        return changed

    def _distinct_targets(
        self, before: tuple[tree.Target, ...], targets: tuple[tree.Target, ...]
    ) -> tuple[tree.Target, ...]:
        """SELECT DISTINCT: equality by the collation. ORDER BY then finds the same expressions."""
        made = []
        for old, target in zip(before, targets, strict=True):
            derived = self.expression(old.expression)[1]
            self._refuse_mismatch(derived)
            rules = self._require_rules(derived) if texts(old.expression) else None
            made.append(replace(target, expression=as_collated(target.expression, rules)))
        return tuple(made)

    def _set_operation(self, node: tree.Query, level: _Level) -> tree.Query:
        assert node.set_operation is not None
        operation, outputs = self._combine(node.set_operation, level)
        assert isinstance(operation, tree.SetOperation)
        targets = node.targets
        leftmost: tree.SetOperation | tree.FromRef = node.set_operation
        while isinstance(leftmost, tree.SetOperation):
            leftmost = leftmost.left
        level.entries[leftmost.relation] = dict(enumerate(outputs, 1))
        changed = replace(
            node, set_operation=operation, targets=targets, order_by=self._sort(node.order_by),
            limit=self._part(node.limit), offset=self._part(node.offset),
        )  # fmt: skip
        self.outputs = outputs
        self._columns = [Derived(IMPLICIT if oid else NONE, oid) for oid in outputs]
        return changed

    def _combine(
        self, node: tree.SetOperation | tree.FromRef, level: _Level
    ) -> tuple[tree.SetOperation | tree.FromRef, list[int]]:
        """The set operation with collated column types, and the collations of its output. COLLATE in an arm is
        explicit; the output of a nested set operation is implicit."""
        if isinstance(node, tree.FromRef):
            return node, list(level.entries[node.relation].values())
        left, lefts = self._combine(node.left, level)
        right, rights = self._combine(node.right, level)
        types, outputs = [], []
        arms = (self._arm(node.left, lefts, level), self._arm(node.right, rights, level))
        for type_, first, second in zip(node.types, *arms, strict=False):
            merged = self._merge([first, second])
            if not (node.kind == "union" and node.all):
                self._refuse_mismatch(merged)
            rules = None if node.kind == "union" and node.all else self._rules(merged)
            types.append(collations.collated_type(type_.oid, rules) if rules is not None and loose(rules) else type_)
            outputs.append(_settle(merged))
        self._first_arm = lefts
        return replace(node, left=left, right=right, types=tuple(types)), outputs

    @staticmethod
    def _arm(node: tree.SetOperation | tree.FromRef, outputs: list[int], level: _Level) -> list[Derived]:
        """The derived collations of an arm's columns."""
        if isinstance(node, tree.FromRef):
            return level.arms[node.relation]
        while isinstance(node, tree.SetOperation):
            node = node.left
        at = [derived.location for derived in level.arms[node.relation]]
        return [Derived(IMPLICIT if oid else NONE, oid, location) for oid, location in zip(outputs, at, strict=False)]

    def _window(self, node: tree.WindowClause) -> tree.WindowClause:
        return replace(
            node,
            partition_by=tuple(self._equate(item) for item in node.partition_by),
            order_by=self._sort(node.order_by),
            frame_start=self._part(node.frame_start),
            frame_end=self._part(node.frame_end),
        )

    def _sort(self, clauses: tuple[tree.SortClause, ...]) -> tuple[tree.SortClause, ...]:
        return tuple(replace(clause, expression=self._order(clause.expression)) for clause in clauses)

    def _refuse_record(self, node: tree.Expr) -> None:
        """0A000 for a comparison of whole rows if ICU would have to compare one of their fields."""
        fields: list[int] = []
        if isinstance(node, tree.RowExpr):
            fields = [_settle(self.expression(item)[1]) for item in node.elements]
        elif isinstance(node, tree.Var) and node.column == 0 and node.levels_up < len(self._levels):
            fields = list(self._levels[-1 - node.levels_up].entries[node.relation].values())
        if any(oid and collations.rules(self._catalog, oid) for oid in fields):
            not_supported("comparing rows as a whole under an ICU collation")

    def _order(self, node: tree.Expr) -> tree.Expr:
        expression, derived = self.expression(node)
        self._refuse_record(node)
        self._refuse_mismatch(derived)
        made: tree.Expr = as_collated(expression, self._require_rules(derived))
        return made

    def _refuse_mismatch(self, derived: Derived) -> None:
        """42P21 for a conflict in sort keys, group keys and columns of UNION."""
        if derived.strength == CONFLICT:
            fail(
                "42P21",
                f'collation mismatch between implicit collations "{self._name(derived.oid)}" and '
                f'"{self._name(derived.other)}"',
                derived.location,
                hint="You can choose the collation by applying the COLLATE clause to one or both expressions.",
            )

    def _equate(self, node: tree.Expr) -> tree.Expr:
        expression, derived = self.expression(node)
        self._refuse_mismatch(derived)
        rules = self._rules(derived)
        made: tree.Expr = as_collated(expression, rules if loose(rules) else None)
        return made

    # ---- expressions ------------------------------------------------------------------------------------------------

    def expression(self, node: Any) -> tuple[Any, Derived]:
        """The expression without COLLATE, and its derived collation."""
        handler = _HANDLERS.get(type(node), Collator._plain)
        return handler(self, node)

    def _plain(self, node: Any) -> tuple[Any, Derived]:
        """Rewrites a node that has the collation of its operands."""
        changes, states = self._operands(node)
        return (replace(node, **changes) if changes else node), self._result(node.type, self._merge(states))

    def _operands(self, node: Any, skipped: Sequence[str] = ()) -> tuple[dict[str, Any], list[Derived]]:
        """The changed operands of a node, by field, and the collation that all of them derive."""
        changes: dict[str, Any] = {}
        states: list[Derived] = []
        for name in node_fields[type(node)]:
            value = getattr(node, name)
            if name in skipped or value is None:
                continue
            new = self._operand(value, states)
            if new is not value:
                changes[name] = new
        return changes, states

    def _operand(self, value: Any, states: list[Derived]) -> Any:
        if isinstance(value, tuple):
            items = tuple([self._operand(item, states) for item in value])
            return value if all(a is b for a, b in zip(items, value, strict=True)) else items
        if isinstance(value, tree.SortClause):
            return replace(value, expression=self._order(value.expression))
        if type(value).__module__ != tree.__name__:
            return value
        new, derived = self.expression(value)
        states.append(derived)
        return new

    def _collate(self, node: tree.CollateExpr) -> tuple[Any, Derived]:
        argument, _ = self.expression(node.argument)
        return argument, Derived(EXPLICIT, node.collation, node.location)

    def _var(self, node: tree.Var) -> tuple[Any, Derived]:
        typed = collations.of_type(node.type.oid)
        if not typed:
            return node, _NOTHING
        at = len(self._levels) - 1 - node.levels_up
        found = typed
        if at >= 0 and node.relation < len(self._levels[at].entries):
            found = self._levels[at].entries[node.relation].get(node.column, typed)
        return node, Derived(IMPLICIT, found, node.location) if found else _NOT_DERIVED

    def _leaf(self, node: Any) -> tuple[Any, Derived]:
        typed = collations.of_type(node.type.oid)
        return node, Derived(IMPLICIT, typed) if typed else _NOTHING

    def _case_test(self, node: tree.CaseTestExpr) -> tuple[Any, Derived]:
        return node, self._case_values[-1] if self._case_values else self._leaf(node)[1]

    def _function(self, node: tree.FuncExpr) -> tuple[Any, Derived]:
        changes, states = self._operands(node)
        merged = self._merge(states)
        made = replace(node, **changes) if changes else node
        return self._call(made, merged), self._result(node.type, merged)

    def _call(self, node: tree.FuncExpr, derived: Derived) -> tree.Expr:
        """A call under an input collation."""
        source = node.function.source
        if has_trait(source, Trait.COMPARES_TEXTS):
            rules = self._require_rules(derived)
            if rules is None or not decides(node.function, rules) or not texts(node.arguments[0]):
                return node
            arguments = tuple(as_collated(argument, rules) for argument in node.arguments)
            return replace(node, function=collated_comparison(node.function), arguments=arguments)
        if has_trait(source, Trait.MAPS_CASE):
            rules = self._require_rules(derived, f"{source}() function")
            if self._is_ascii(derived):
                return ascii_mapping(node)
            return node if rules is None else collated_mapping(node, rules)
        if has_trait(source, Trait.LIKE):
            _refuse_loose(self._rules(derived), "LIKE")
        elif has_trait(source, Trait.ILIKE):
            rules = self._require_rules(derived, "ILIKE")
            _refuse_loose(rules, "ILIKE")
            if self._is_ascii(derived):
                arguments = tuple(ascii_mapping(item, "lower") for item in node.arguments)
                return replace(node, arguments=arguments, function=like_function(node.function))
            if rules is None:
                return node
            return replace(node, arguments=tuple(collated_mapping(item, rules, "lower") for item in node.arguments))
        elif has_trait(source, Trait.REGULAR_EXPRESSION):
            _refuse_loose(self._require_rules(derived, "regular expression"), "regular expressions")
            if self._is_ascii(derived):
                return replace(node, function=ascii_function(node.function))
        elif source.startswith("record_"):
            for argument in node.arguments:
                self._refuse_record(argument)
        elif has_trait(source, Trait.SEARCHES_TEXT):
            _refuse_loose(self._rules(derived), "substring searches")
        elif (orders := has_trait(source, Trait.ORDERS_TEXTS)) or has_trait(source, Trait.MATCHES_TEXTS):
            rules = self._require_rules(derived) if texts(node.arguments[0]) else None
            if rules is not None and (orders or loose(rules)):
                not_supported(f"function {node.function.name} under an ICU collation")
        elif source == "pg_collation_for":
            return self._show(node, derived)
        return node

    def _show(self, node: tree.FuncExpr, derived: Derived) -> tree.Expr:
        """pg_collation_for(): a constant."""
        oid = node.arguments[0].type.oid
        if not collations.of_type(oid) and oid != UNKNOWN:
            fail("42804", f"collations are not supported by type {format_type(oid)}")
        found = _settle(derived)
        text = None
        if found:
            item = collations.collation(self._catalog, found)
            text = quote_identifier(item.name)
            if item.schema != PG_CATALOG_OID:
                text = f"{quote_identifier(self._catalog.schema_name(item.schema))}.{text}"
        return tree.Const(text, node.type, node.location)

    def _aggregate(self, node: tree.Aggref) -> tuple[Any, Derived]:
        changes, states = self._operands(node, ("filter", "order_by"))
        changes |= {"filter": self._part(node.filter), "order_by": self._sort(node.order_by)}
        ordered_set = bool(node.direct_arguments) or (
            bool(node.order_by) and node.function.kind == "a" and _within(node)
        )
        if ordered_set:
            sorted_by = (clause.expression for clause in node.order_by)
            states = [self.expression(item)[1] for item in (*node.direct_arguments, *sorted_by)]
        merged = self._merge(states)
        made = replace(node, **changes)
        result = self._result(node.type, merged)
        extreme = has_trait(node.function.source, Trait.EXTREME_OF_TEXTS) and texts(node.arguments[0])
        rules = self._require_rules(merged) if extreme or ordered_set else self._rules(merged)
        if rules is None:
            return made, result
        if extreme:
            return collated_extreme(made, rules), result
        if ordered_set:
            given = tuple(as_collated(item, rules) for item in made.direct_arguments)
            return replace(made, direct_arguments=given), result
        if node.distinct and (loose(rules) or node.order_by):
            made = replace(made, arguments=tuple(as_collated(item, rules) for item in made.arguments))
        return made, result

    def _window_call(self, node: tree.WindowFunc) -> tuple[Any, Derived]:
        changes, states = self._operands(node, ("filter",))
        merged = self._merge(states)
        made = replace(node, **changes, filter=self._part(node.filter))
        result = self._result(node.type, merged)
        extreme = has_trait(node.function.source, Trait.EXTREME_OF_TEXTS) and texts(node.arguments[0])
        rules = self._require_rules(merged) if extreme else None
        return (made if rules is None else collated_extreme(made, rules)), result

    def _min_max(self, node: tree.MinMaxExpr) -> tuple[Any, Derived]:
        changes, states = self._operands(node)
        merged = self._merge(states)
        made = replace(node, **changes) if changes else node
        result = self._result(node.type, merged)
        rules = self._require_rules(merged) if texts(node) else None
        if rules is None:
            return made, result
        arguments = tuple(as_collated(item, rules) for item in made.arguments)
        return tree.RelabelType(replace(made, arguments=arguments, type=arguments[0].type), node.type), result

    def _equality(self, node: Any) -> tuple[Any, Derived]:
        """IS DISTINCT FROM, NULLIF."""
        changes, states = self._operands(node)
        merged = self._merge(states)
        made = replace(node, **changes) if changes else node
        result = self._result(node.type, merged)
        rules = self._require_rules(merged) if texts(node.left) else None
        if rules is None or rules.deterministic:
            return made, result
        left, right = as_collated(made.left, rules), as_collated(made.right, rules)
        made = replace(made, function=collated_comparison(node.function), left=left, right=right)
        if isinstance(node, tree.NullIfExpr):
            return tree.RelabelType(replace(made, type=left.type), node.type), result
        return made, result

    def _any_all(self, node: tree.ScalarArrayOp) -> tuple[Any, Derived]:
        changes, states = self._operands(node)
        merged = self._merge(states)
        made = replace(node, **changes) if changes else node
        if not has_trait(node.function.source, Trait.COMPARES_TEXTS):
            return replace(made, function=self._matching(node.function, merged)), _NOTHING
        rules = self._require_rules(merged)
        if rules is None or not decides(node.function, rules) or not texts(node.left):
            return made, _NOTHING
        function, operator = collated_pair(node.function, node.operator, node.left.type, rules)
        left, right = as_collated(made.left, rules), as_collated(made.right, rules)
        made = replace(made, function=function, operator=operator, left=left, right=right)
        return made, _NOTHING

    def _matching(self, function: Function, derived: Derived) -> Function:
        """The function for matches with several patterns (LIKE ANY and others) under a collation."""
        source = function.source
        if has_trait(source, Trait.LIKE):
            _refuse_loose(self._rules(derived), "LIKE")
        elif (ilike := has_trait(source, Trait.ILIKE)) or has_trait(source, Trait.REGULAR_EXPRESSION):
            rules = self._require_rules(derived, "ILIKE" if ilike else "regular expression")
            if rules is not None and ilike:
                not_supported("ILIKE ANY or ALL under an ICU collation")
            _refuse_loose(rules, "regular expressions")
            if self._is_ascii(derived):
                return ascii_function(function)
        return function

    def _row(self, node: tree.RowExpr) -> tuple[Any, Derived]:
        return replace(node, elements=tuple(self.expression(item)[0] for item in node.elements)), _NOTHING

    def _row_compare(self, node: tree.RowCompare) -> tuple[Any, Derived]:
        columns = zip(node.functions, node.operators, node.left, node.right, strict=True)
        made = [self._row_column(*column) for column in columns]
        functions, operators, lefts, rights = zip(*made, strict=True)
        return replace(node, functions=functions, operators=operators, left=lefts, right=rights), _NOTHING

    def _row_column(self, function: Function, operator: Operator, left: tree.Expr, right: tree.Expr) -> tuple[Any, ...]:
        (first, one), (second, two) = self.expression(left), self.expression(right)
        compares = has_trait(function.source, Trait.COMPARES_TEXTS) and texts(left)
        rules = self._require_rules(self._merge([one, two])) if compares else None
        if rules is None:
            return function, operator, first, second
        return (
            *collated_pair(function, operator, left.type, rules),
            as_collated(first, rules),
            as_collated(second, rules),
        )

    def _case(self, node: tree.CaseExpr) -> tuple[Any, Derived]:
        argument = node.argument
        if argument is not None:
            argument, derived = self.expression(argument)
            self._case_values.append(derived)
        whens, states = [], []
        for condition, value in node.whens:
            test = self.expression(condition)[0]
            result, derived = self.expression(value)
            states.append(derived)
            whens.append((test, result))
        if argument is not None:
            self._case_values.pop()
        default, derived = self.expression(node.default)
        merged = self._merge([*states, derived])
        return replace(node, argument=argument, whens=tuple(whens), default=default), self._result(node.type, merged)

    def _array_coerce(self, node: tree.ArrayCoerce) -> tuple[Any, Derived]:
        argument, derived = self.expression(node.argument)
        return replace(node, argument=argument), self._result(node.type, derived)

    def _to_domain(self, node: tree.CoerceToDomain) -> tuple[Any, Derived]:
        argument, derived = self.expression(node.argument)
        domain = self._catalog.objects.get(node.type.domain)
        own = domain.collation if isinstance(domain, Domain) else 0
        checks = tuple((name, self.expression(check)[0]) for name, check in node.checks)  # VALUE has the base's own
        made = replace(node, argument=argument, checks=checks)
        return made, Derived(IMPLICIT, own) if own else self._result(node.type, derived)

    def _field(self, node: tree.FieldSelect) -> tuple[Any, Derived]:
        return replace(node, argument=self.expression(node.argument)[0]), self._leaf(node)[1]

    def _sublink(self, node: tree.SubLink) -> tuple[Any, Derived]:
        tests = [self.expression(item) for item in node.test]
        query = self.query(node.query)
        outputs = list(self.outputs)
        made = replace(node, query=query, test=tuple(item for item, _ in tests))
        if node.kind in ("expr", "array"):
            return made, Derived(IMPLICIT, outputs[0]) if outputs and outputs[0] else self._leaf(node)[1]
        if node.kind == "exists" or not tests:
            return made, _NOTHING
        return self._compare(made, [derived for _, derived in tests], outputs), _NOTHING

    def _compare(self, node: tree.SubLink, tests: list[Derived], outputs: list[int]) -> tree.SubLink:
        """x = ANY (SELECT ...): both sides have collated types if the result depends on the collation."""
        found: dict[int, Rules] = {}
        for place, ((_, function), derived, oid) in enumerate(zip(node.comparisons, tests, outputs, strict=False)):
            if has_trait(function.source, Trait.COMPARES_TEXTS) and texts(node.test[place]):
                rules = self._require_rules(self._merge([derived, Derived(IMPLICIT if oid else NONE, oid)]))
                if rules is not None and decides(function, rules):
                    found[place] = rules
        if not found:
            return node
        comparisons = tuple(
            collated_pair(function, operator, node.test[place].type, found[place])[::-1]
            if place in found
            else (operator, function)
            for place, (operator, function) in enumerate(node.comparisons)
        )
        test = tuple(as_collated(item, found.get(place)) for place, item in enumerate(node.test))
        return replace(node, comparisons=comparisons, test=test, query=with_collated_output(node.query, found))

    # ---- rules ------------------------------------------------------------------------------------------------------

    def _merge(self, states: Sequence[Derived]) -> Derived:
        """The collation that several operands derive together (merge_collation_state)."""
        found = _NOTHING
        for state in states:
            if state.strength > found.strength or (state.other and not found.strength):
                found = state
            elif state.strength == found.strength and state.oid != found.oid:
                if state.strength == IMPLICIT:
                    if found.oid == collations.DEFAULT:
                        found = state
                    elif state.oid != collations.DEFAULT:
                        found = Derived(CONFLICT, found.oid, state.location, state.oid)
                elif state.strength == EXPLICIT:
                    fail(
                        "42P21",
                        f'collation mismatch between explicit collations "{self._name(found.oid)}" and '
                        f'"{self._name(state.oid)}"',
                        state.location,
                    )
        return found

    @staticmethod
    def _result(type_: TypeRef, merged: Derived) -> Derived:
        typed = collations.of_type(type_.oid)
        if not typed:
            return _NOTHING
        return merged if merged.strength != NONE else Derived(IMPLICIT, typed)

    def _rules(self, derived: Derived) -> Rules | None:
        if derived.strength in (NONE, CONFLICT):
            return None
        return collations.rules(self._catalog, derived.oid)

    def _is_ascii(self, derived: Derived) -> bool:
        """Whether the collation maps ASCII letters only."""
        return derived.strength in (IMPLICIT, EXPLICIT) and collations.is_ascii(self._catalog, derived.oid)

    def _require_rules(self, derived: Derived, what: str = "string comparison") -> Rules | None:
        """The rules of a collation that an operation needs. Raises 42P22."""
        if derived.strength == CONFLICT or derived is _NOT_DERIVED:
            raise indeterminate(what)
        return self._rules(derived)

    def _name(self, oid: int) -> str:
        return collations.collation(self._catalog, oid).name


def _of_columns(table: Table | VirtualTable) -> dict[int, int]:
    """The collations of a table's columns, by number. A column without one has its type's."""
    return {column.number: column.collation or collations.of_type(column.type.oid) for column in table.columns}


def _settle(derived: Derived) -> int:
    """The collation of an output column, or 0."""
    return derived.oid if derived.strength in (IMPLICIT, EXPLICIT) else 0


def _refuse_loose(rules: Rules | None, what: str) -> None:
    if loose(rules):
        _fail_unsupported(what)


def _fail_unsupported(what: str) -> NoReturn:
    raise SqlError("0A000", f"nondeterministic collations are not supported for {what}")


def _within(node: tree.Aggref) -> bool:
    """Whether the call is WITHIN GROUP, whose ORDER BY has the aggregated values."""
    return registry.aggregate_of(node.function).kind != "n"


_Handler = Callable[["Collator", Any], tuple[Any, Derived]]
_HANDLERS: dict[type, _Handler] = {
    tree.CollateExpr: Collator._collate,
    tree.Var: Collator._var,
    **dict.fromkeys(
        (tree.Const, tree.Param, tree.DomainValue, tree.SqlValueFunction, tree.NextValueExpr, tree.SetToDefault,
         tree.CurrentOf, tree.GroupingFunc),
        Collator._leaf,
    ),
    tree.CaseTestExpr: Collator._case_test,
    tree.FuncExpr: Collator._function,
    tree.Aggref: Collator._aggregate,
    tree.WindowFunc: Collator._window_call,
    tree.MinMaxExpr: Collator._min_max,
    tree.DistinctExpr: Collator._equality,
    tree.NullIfExpr: Collator._equality,
    tree.ScalarArrayOp: Collator._any_all,
    tree.RowExpr: Collator._row,
    tree.RowCompare: Collator._row_compare,
    tree.CaseExpr: Collator._case,
    tree.ArrayCoerce: Collator._array_coerce,
    tree.CoerceToDomain: Collator._to_domain,
    tree.FieldSelect: Collator._field,
    tree.SubLink: Collator._sublink,
}  # fmt: skip
