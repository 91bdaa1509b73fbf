"""The indexes of a table in the form in which conditions are compared with them: their columns, expressions among them,
and the predicates of partial ones.

The catalog keeps expressions and predicates as text. They are analysed at the first statement over the table, and kept
for the version of the catalog. Most tables have only indexes over all rows on plain columns: nothing is kept for them.

An expression of an index has a number, as a column has: `FIRST_EXPRESSION` and below. Two indexes with the same
expression have the same number for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catalog.catalog import Catalog
from catalog.collations import is_current, key_type
from catalog.errors import SqlError
from catalog.records import dataclass
from catalog.schema import Index, Table
from catalog.types.base import TypeRef
from catalog.types.collated import Rules, rules_of
from catalog.types.oids import BOOL
from engine.execute.definition_expressions import bind_expression
from engine.sql import tree
from engine.sql.implication import Provided, same
from engine.sql.tree_walk import contains, variables

FIRST_EXPRESSION = -1000
"""The number of the first expression; those of system columns are above it."""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of a key, by attnum or by the number of its expression. `type`: the type of the values in the key;
    under an ICU collation a collated type."""

    number: int
    type: TypeRef
    nullable: bool
    expression: tree.Expr | None = None  # over range entry 0

    def takes(self, kind: str, rules: Rules | None) -> bool:
        """Whether a condition of this kind, which compares under the collation `rules`, uses the order of this key:
        under the same collation, or equality if both treat only identical texts as equal."""
        if kind in ("null", "not null"):
            return True
        own = rules_of(self.type.oid)
        if kind in ("=", "in") and (own is None or own.deterministic):
            return rules is None or rules.deterministic
        return rules == own


@dataclass(frozen=True, slots=True)
class IndexForms:
    """`columns` and `predicates` by the index's OID; indexes that scans cannot use are left out."""

    columns: Mapping[int, tuple[KeyColumn, ...]]
    predicates: Mapping[int, tree.Expr]
    expressions: Sequence[tree.Expr]

    def number_of(self, expression: tree.Expr, relation: int, without: frozenset[int] | None) -> tuple[int, Provided]:
        """The number of an expression over `relation` that is an index's, and the conditions on parameters under which
        it is; 0 if it is none. `without`: the indexes (OIDs) that such conditions may not lead to; None: to none."""
        found: tuple[int, Provided] = (0, ())
        for place, known in enumerate(self.expressions):
            if type(known) is not type(expression):
                continue
            way, number = same(expression, known, relation), FIRST_EXPRESSION - place
            if way == ():
                return number, ()
            if way is not None and not found[0] and without is not None and self._has(number, without):
                found = number, way
        return found

    def _has(self, number: int, without: frozenset[int]) -> bool:
        """Whether an index other than those has the expression."""
        return any(
            any(column.number == number for column in columns)
            for oid, columns in self.columns.items()
            if oid not in without
        )

    def type_of(self, number: int) -> TypeRef:
        return self.expressions[FIRST_EXPRESSION - number].type


NO_FORMS = IndexForms({}, {}, ())
_KEPT = 64
_known: dict[tuple[int, int], tuple[Catalog, Table, IndexForms]] = {}


def forms_of(catalog: Catalog, table: Table) -> IndexForms:
    """The forms of a table's indexes that have expressions or predicates, and of all others if there is one."""
    if not any(_is_special(catalog.index(oid)) for oid in table.indexes):
        return NO_FORMS
    key = (id(catalog), id(table))
    known = _known.get(key)
    if known is None or known[0] is not catalog or known[1] is not table:
        if len(_known) >= _KEPT:
            _known.clear()
        known = _known[key] = (catalog, table, _forms(catalog, table))
    return known[2]


def _is_special(index: Index) -> bool:
    return index.predicate is not None or any(not column.number for column in index.columns)


def _forms(catalog: Catalog, table: Table) -> IndexForms:
    expressions: list[tree.Expr] = []
    columns, predicates = {}, {}
    for oid in table.indexes:
        index = catalog.index(oid)
        if not usable(catalog, index):
            continue
        try:
            found = tuple(_column(catalog, table, index, place, expressions) for place in range(len(index.columns)))
            if index.predicate is not None:
                predicates[oid] = _bind(catalog, table, index.predicate, TypeRef(BOOL))
        except (SqlError, _Unsteady):
            continue
        columns[oid] = found
    return IndexForms(columns, predicates, expressions)


class _Unsteady(Exception):  # noqa: N818 - not an error: the index is left aside
    """The value depends on more than the row: a function was replaced since the index was made."""


def _bind(catalog: Catalog, table: Table, text: str, type_: TypeRef | None = None) -> tree.Expr:
    found = bind_expression(catalog, table, text, type_)
    if contains(found, _is_unsteady):
        raise _Unsteady
    return found


def _is_unsteady(node: object) -> bool:
    if isinstance(node, tree.FuncExpr):
        return node.function.volatility != "i"
    return isinstance(node, (tree.SqlValueFunction, tree.Param))


def _column(catalog: Catalog, table: Table, index: Index, place: int, expressions: list[tree.Expr]) -> KeyColumn:
    item = index.columns[place]
    if item.number:
        return plain_column(catalog, table, index, place)
    expression = _bind(catalog, table, str(item.expression))
    number = next((at for at, known in enumerate(expressions) if same(known, expression) == ()), len(expressions))
    if number == len(expressions):
        expressions.append(expression)
    type_ = key_type(catalog, item.type, item.collation)
    return KeyColumn(FIRST_EXPRESSION - number, type_, True, expression)


def columns_read(catalog: Catalog, table: Table, index: Index) -> frozenset[int] | None:
    """The columns (attnums) that decide what an index has of a row; None if that is not known: a whole row does, or the
    index cannot be used."""
    forms = forms_of(catalog, table)
    columns, predicate = forms.columns.get(index.oid), forms.predicates.get(index.oid)
    if columns is None:
        return None
    found = {column.number for column in columns if column.expression is None}
    for part in (*(column.expression for column in columns), predicate):
        if part is not None:
            found |= {item.column for item in variables(part)}
    return frozenset(found) if min(found, default=1) > 0 else None


def plain_column(catalog: Catalog, table: Table, index: Index, place: int) -> KeyColumn:
    """The key column of an index's column that is not an expression."""
    item = index.columns[place]
    column = table.column_by_number(item.number)
    return KeyColumn(item.number, key_type(catalog, column.type, item.collation), not column.not_null)


def usable(catalog: Catalog, index: Index) -> bool:
    """Whether scans may use it: it is complete, also for the snapshot, is not the table's own key again, and has the
    order of this machine's ICU."""
    whole = index.ready and index.is_tree and not index.primary and not index.unseen
    return whole and is_current(catalog, index)
