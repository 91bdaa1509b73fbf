"""The syntax of SQL/XML: XMLELEMENT, XMLFOREST, XMLPARSE, ... become calls of the functions in
catalog/functions/xml.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from catalog.functions.xml_names import IS_DOCUMENT, xml_name
from engine.sql import ast
from engine.sql.parser.lexer import Token
from engine.sql.parser.type_names import TypeNames


class XmlSyntax(TypeNames):
    """func_expr_common_subexpr of XML."""

    if TYPE_CHECKING:

        def expression(self) -> ast.Node: ...
        def restricted_expression(self) -> ast.Node: ...
        def expressions(self) -> tuple[ast.Node, ...]: ...

    def _call_of(self, name: str, arguments: Sequence[ast.Node], token: Token) -> ast.Node:
        return ast.FuncCall(("pg_catalog", name), tuple(arguments), sql_syntax=True, location=token.start)

    def _text(self, text: str | None) -> ast.Node:
        return self.literal("string", text) if text is not None else self.literal("null", None)

    def is_document(self, value: ast.Node, token: Token) -> ast.Node:
        return self._call_of(IS_DOCUMENT, (value,), token)

    def _xmlconcat(self, token: Token) -> ast.Node:
        return self._call_of("xmlconcat", self.expressions(), token)

    def _xmlelement(self, token: Token) -> ast.Node:
        self.expect("name")
        name = xml_name(self.label())
        attributes: list[ast.Node] = []
        content: tuple[ast.Node, ...] = ()
        if self.accept(","):
            if self._curr.key == "xmlattributes" and self.peek() == "(":
                self.advance()
                self.expect("(")
                attributes = self._pairs("attribute")
                self.expect(")")
                content = self.expressions() if self.accept(",") else ()
            else:
                content = self.expressions()
        count = self._text(str(len(attributes) // 2))
        return self._call_of("xmlelement", (self._text(name), count, *attributes, *content), token)

    def _pairs(self, what: str) -> list[ast.Node]:
        """xml_attribute_list: names and values by turns. Raises 42601."""
        found: list[ast.Node] = []
        names: set[str] = set()
        while True:
            at = self._curr.start
            value = self.expression()
            if self.accept("as"):
                name = xml_name(self.label())
            elif isinstance(value, ast.ColumnRef) and value.names[-1] != "*":
                name = xml_name(value.names[-1], whole=True)
            else:
                self.complain(f"unnamed XML {what} value must be a column reference", at)
            if what == "attribute" and name in names:
                self.complain(f'XML attribute name "{name}" appears more than once', at)
            names.add(name)
            found += (self._text(name), value)
            if not self.accept(","):
                return found

    def _xmlforest(self, token: Token) -> ast.Node:
        return self._call_of("xmlforest", self._pairs("element"), token)

    def _xmlpi(self, token: Token) -> ast.Node:
        self.expect("name")
        name = xml_name(self.label())
        content = (self.expression(),) if self.accept(",") else ()
        return self._call_of("xmlpi", (self._text(name), *content), token)

    def _xmlroot(self, token: Token) -> ast.Node:
        value = self.expression()
        self.expect(",", "version")
        if self._curr.key == "no" and self.peek() == "value":
            self.expect("no", "value")
            version: ast.Node = self._text(None)
        else:
            version = self.expression()
        standalone = "-2"
        if self.accept(","):
            self.expect("standalone")
            if self.accept("yes"):
                standalone = "1"
            else:
                self.expect("no")
                standalone = "-1" if self.accept("value") else "0"
        return self._call_of("xmlroot", (value, version, self._text(standalone)), token)

    def _xmlparse(self, token: Token) -> ast.Node:
        kind = self.expect_one_of("document", "content")
        value = self.expression()
        word = self.optional_keyword("preserve", "strip")
        if word:
            self.expect("whitespace")
        keeps = self._text("true" if word == "preserve" else "false")
        return self._call_of("xmlparse", (self._text(kind), value, keeps), token)

    def _xmlserialize(self, token: Token) -> ast.Node:
        kind = self.expect_one_of("document", "content")
        value = self.expression()
        self.expect("as")
        call = self._call_of("xmlserialize", (self._text(kind), value), token)
        at = self._curr.start
        target = self.type_name()
        if target.modifiers:
            self.refuse("XMLSERIALIZE to a type with a modifier", at)
        return ast.TypeCast(call, target, location=token.start)

    def _xmlexists(self, token: Token) -> ast.Node:
        path = self.restricted_expression()
        self.expect("passing")
        self._by()
        value = self.restricted_expression()
        self._by()
        return self._call_of("xmlexists", (path, value), token)

    def _by(self) -> None:
        """BY REF and BY VALUE, which mean nothing."""
        if self.accept("by"):
            self.expect_one_of("ref", "value")


XML_CALLS = frozenset(name[1:] for name in vars(XmlSyntax) if name.startswith("_xml"))
"""The words that begin a call with a syntax of its own."""
