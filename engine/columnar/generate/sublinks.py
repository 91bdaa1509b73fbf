"""Sub-queries in expressions."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.duckdb.nodes import Identifier, Sql, comma_list, fill, join_parts
from catalog.duckdb.types import BOOLEAN, CharType, ListType, list_of
from catalog.errors import not_supported
from catalog.functions.base import Function
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.columnar.generate import queries
from engine.columnar.generate.calls import call
from engine.columnar.generate.comparisons import COMPARISONS, comparable_pair, is_native, row_comparison
from engine.columnar.generate.forms import Piece, is_whole, with_blanks
from engine.columnar.generate.operands import Operand
from engine.columnar.generate.state import Scope, Source, compact_expression, makes
from engine.sql import tree
from engine.storage.columns import ShapedArray


@makes(tree.SubLink)
def _sublink(scope: Scope, node: tree.SubLink) -> Piece:
    if node.kind in ("any", "all"):
        return _quantified(scope, node)
    body = queries.query(node.query, scope)
    if node.kind == "exists":
        return Piece(fill("EXISTS ({})", body.sql), BOOLEAN)
    value = body.pieces[0]
    if node.kind == "array":
        if value.fields:
            not_supported("arrays of records on this query")
        if isinstance(value.form, ListType):
            raise ShapedArray
        if is_whole(node.query.output[0].expression.type.oid):
            not_supported("arrays of arrays from a sub-query on this query")
        array: Sql = fill("ARRAY({})", body.sql)
        if isinstance(value.form, CharType):
            item = scope.generation.alias()
            value = with_blanks(value._replace(sql=Identifier(item)))
            array = fill("list_transform({}, lambda {}: {})", array, item, value.sql)
        return scope.generation.as_whole(Piece(array, list_of(value.form)), node.type.oid)
    return Piece(fill("({})", body.sql), value.form, value.fields, once=not body.correlated)


@dataclass(slots=True)
class _Quantified:
    """`left operator ANY|ALL (query)`: the left values, and the query's columns."""

    scope: Scope
    left: list[Piece]
    left_types: list[TypeRef]
    body: queries.Body
    right_types: list[TypeRef]
    functions: list[Function]

    @property
    def symbols(self) -> list[str | None]:
        return [COMPARISONS.get(function.source) for function in self.functions]

    def native(self) -> bool:
        """Whether DuckDB compares all columns as PostgreSQL does, without keys."""
        pairs = (*zip(self.left, self.left_types, strict=True), *zip(self.body.pieces, self.right_types, strict=True))
        return all(is_native(piece, type_.oid) and not piece.fields for piece, type_ in pairs)

    def any(self) -> Sql:
        symbols = self.symbols
        if self.native():
            if len(self.left) == 1 and symbols[0]:
                word = "IN" if symbols[0] == "=" else f"{symbols[0]} ANY"
                return fill("({} {} ({}))", self.left[0].sql, word, self.body.sql)
            if len(self.left) > 1 and set(symbols) == {"="}:
                return fill("(({}) IN ({}))", comma_list([piece.sql for piece in self.left]), self.body.sql)
        return self.decided("TRUE", "bool_or")

    def all(self) -> Sql:
        symbol = self.symbols[0]
        if len(self.left) == 1 and symbol and self.native():
            return fill("({} {} ALL ({}))", self.left[0].sql, symbol, self.body.sql)
        return self.decided("FALSE", "bool_and")

    def test(self, right: list[Piece]) -> Sql:
        """Returns the comparison with one row: all columns are equal, any column differs, or the order of rows."""
        generation, symbols = self.scope.generation, self.symbols
        sides = list(zip(self.left, right, self.left_types, self.right_types, strict=True))
        if len(sides) > 1 and symbols[0] in ("<", "<=", ">", ">="):
            pairs = [comparable_pair(generation, a, b, (t.oid, u.oid)) for a, b, t, u in sides]
            return row_comparison(symbols[0], pairs)
        tests = [
            call(generation, function, [a, b], [t, u], TypeRef(oids.BOOL)).sql
            for function, (a, b, t, u) in zip(self.functions, sides, strict=True)
        ]
        return fill("({})", join_parts(" OR " if symbols[0] == "<>" else " AND ", tests))

    def decided(self, deciding: str, aggregate: str) -> Sql:
        """Returns `deciding` if the test has this result for any row, else NULL if it is NULL for any row."""
        generation = self.scope.generation
        if any(operand.volatile for operand in generation.operands or ()):
            return self._decided_in_list(deciding)
        alias, inner = generation.alias(), generation.alias()
        test = self.test(list(Source.of_pieces(alias, self.body.pieces).columns.values()))
        other = "FALSE" if deciding == "TRUE" else "TRUE"
        answers = fill("SELECT {} AS b FROM ({}) AS {}", test, self.body.sql, alias)
        return fill(
            "(SELECT CASE WHEN {aggregate}({inner}.b) IS NOT DISTINCT FROM {deciding} THEN {deciding} "
            "WHEN count(*) > count({inner}.b) THEN NULL ELSE {other} END FROM ({answers}) AS {inner})",
            aggregate=aggregate,
            inner=inner,
            deciding=deciding,
            other=other,
            answers=answers,
        )

    def _decided_in_list(self, deciding: str) -> Sql:
        """Returns the same over a list of the rows: inside a sub-query, a volatile left value would be evaluated for
        each row."""
        generation = self.scope.generation
        assert generation.operands is not None
        alias, row, rows, answer = (generation.alias() for _ in range(4))
        columns = Source.of_pieces(alias, self.body.pieces).columns
        packed = comma_list([fill("c{} := {}", number, piece.sql) for number, piece in columns.items()])
        array = fill("ARRAY(SELECT struct_pack({}) FROM ({}) AS {})", packed, self.body.sql, alias)
        rows_listed = Operand(rows, array, volatile=False, stays_outside=True)
        generation.operands.append(rows_listed)
        test = self.test(list(Source.of_pieces(row, self.body.pieces).columns.values()))
        other = "FALSE" if deciding == "TRUE" else "TRUE"
        return fill(
            "list_transform([list_transform({0}, lambda {1}: {2})], lambda {3}: CASE "
            "WHEN list_contains({3}, {4}) THEN {4} "
            "WHEN len(list_filter({3}, lambda e: e IS NULL)) > 0 THEN NULL ELSE {5} END)[1]",
            rows_listed.reference,
            row,
            test,
            answer,
            deciding,
            other,
        )


def _quantified(scope: Scope, node: tree.SubLink) -> Piece:
    """Returns `left operator ANY|ALL (query)`, which is NULL if the rows do not decide."""
    made = _Quantified(
        scope,
        [compact_expression(scope, item) for item in node.test],
        [item.type for item in node.test],
        queries.query(node.query, scope),
        [target.expression.type for target in node.query.output],
        [function for _, function in node.comparisons],
    )
    if node.kind == "any":
        return Piece(fill("(NOT {})", made.any()) if node.negated else made.any(), BOOLEAN)
    if node.negated and set(made.symbols) == {"="}:  # NOT IN: the comparison is still `=`
        return Piece(fill("(NOT {})", made.any()), BOOLEAN)
    return Piece(made.all(), BOOLEAN)
