"""Relations by name: [ONLY] name [*] and aliases."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from catalog.errors import SqlError
from engine.sql import ast
from engine.sql.parser.cursor import Cursor

MOMENTS = ("lsn", "timestamp")


class Relations(Cursor):
    """relation_expr and alias_clause."""

    if TYPE_CHECKING:
        # Defined in subclasses.
        def preparable_statement(self) -> ast.Node: ...
        def expression(self) -> ast.Node: ...

    def relation_expression(self, *, alias: bool = False) -> ast.RangeVar:
        """name, name *, ONLY name or ONLY (name); `alias`: with an optional alias."""
        if self.accept("only"):
            if self.accept("("):
                relation = self.qualified_name(only=True)
                self.expect(")")
            else:
                relation = self.qualified_name(only=True)
        else:
            relation = self.qualified_name()
            self.accept("*")
        if not alias:
            return relation
        if self._curr.key == "as" and self.peek() == "of" and self._at_moment():
            relation = replace(relation, as_of=self.as_of())
        written = self.optional_alias()
        return relation if written is None else replace(relation, alias=written)

    def _at_moment(self) -> bool:
        """Whether AS OF is followed by LSN or TIMESTAMP. Otherwise `of` is an alias."""
        return self._index + 2 < len(self._tokens) and self._tokens[self._index + 2].text.lower() in MOMENTS

    def as_of(self) -> ast.AsOf:
        """AS OF LSN expression, AS OF TIMESTAMP expression"""
        start = self.expect("as").start
        self.expect("of")
        kind = self.advance().text.lower()
        moment = self.expression()
        return ast.AsOf(kind, moment, self._tokens[self._index - 1].end, location=start)

    def relation_expressions(self) -> tuple[ast.RangeVar, ...]:
        items = [self.relation_expression()]
        while self.accept(","):
            items.append(self.relation_expression())
        return tuple(items)

    def optional_alias(self) -> ast.Alias | None:
        """[AS] name [(columns)]"""
        start = self._curr.start
        if not self.accept("as") and not self.at_name():
            return None
        return ast.Alias(self.column_name(), self.optional_names_in_parentheses(), location=start)

    def target_relation(self) -> ast.RangeVar:
        """The relation of UPDATE and DELETE, where SET is an alias only after AS."""
        relation = self.relation_expression()
        start = self._curr.start
        if self.accept("as") or (self.at_name() and self._curr.key != "set"):
            return replace(relation, alias=ast.Alias(self.column_name(), location=start))
        return relation

    def complain_with_hint(self, location: int) -> NoReturn:
        """Raises 42601 for LIMIT a, b."""
        raise SqlError(
            "42601",
            "LIMIT #,# syntax is not supported",
            hint="Use separate LIMIT and OFFSET clauses.",
            position=location + 1,
        )
