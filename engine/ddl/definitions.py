"""The parameters of CREATE AGGREGATE and CREATE OPERATOR (defGetQualifiedName, defGetTypeName, ...)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from catalog.errors import SqlError
from catalog.types.base import TypeRef
from engine.ddl.context import DdlContext
from engine.sql import ast
from engine.sql.analyze import resolve_type

_TRUE, _FALSE = ("true", "on", "1"), ("false", "off", "0")


@dataclass(slots=True)
class DefinitionItems:
    """The parameters of a definition, by name."""

    items: dict[str, ast.DefinitionItem] = field(default_factory=dict)

    def names(self, name: str) -> tuple[str, ...]:
        """The name of a function or an operator; () if it is not given (defGetQualifiedName)."""
        item = self.items.get(name)
        if item is None:
            return ()
        if item.kind in ("type", "operator"):
            return item.names
        if item.kind in ("string", "word"):
            return (item.text,)
        if item.kind == "none":
            raise SqlError("42601", f"{name} requires a parameter")
        raise SqlError("42601", f"argument of {name} must be a name")

    def type(self, context: DdlContext, name: str) -> TypeRef | None:
        """The type of a parameter (defGetTypeName). Raises 42704."""
        item = self.items.get(name)
        if item is None:
            return None
        if item.type is not None:
            return resolve_type(replace(item.type, location=-1), context.environment)
        if item.kind == "string":
            return resolve_type(ast.TypeName((item.text,)), context.environment)
        if item.kind == "none":
            raise SqlError("42601", f"{name} requires a parameter")
        raise SqlError("42601", f"argument of {name} must be a type name")

    def text(self, name: str) -> str | None:
        item = self.items.get(name)
        if item is not None and item.kind == "none":
            raise SqlError("42601", f"{name} requires a parameter")
        return None if item is None else item.text

    def boolean(self, name: str) -> bool:
        """defGetBoolean."""
        item = self.items.get(name)
        if item is None:
            return False
        text = "true" if item.kind == "none" else item.text.lower()
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        raise SqlError("42601", f"{name} requires a Boolean value")

    def integer(self, name: str) -> int:
        item = self.items.get(name)
        if item is None:
            return 0
        if item.kind != "number" or not item.text.lstrip("+-").isdigit():
            raise SqlError("42601", f"{name} requires an integer value")
        return int(item.text)
