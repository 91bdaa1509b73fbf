"""CREATE AGGREGATE and other statements whose definition is a list of parameters (DefineStmt), and the signatures of
aggregates."""

from __future__ import annotations

from typing import Final

from catalog.errors import SqlError
from engine.sql import ast
from engine.sql.parser.code_objects import CodeObjects
from engine.sql.parser.keywords import TYPE_FUNCTION_NAME
from engine.sql.parser.type_names import BUILT_IN_TYPES

_NUMBERS: Final = ("ICONST", "FCONST", "+", "-")


class Definitions(CodeObjects):
    """DefineStmt, aggregate_with_argtypes."""

    # ---- lists of parameters ----

    def definition(self) -> tuple[ast.DefinitionItem, ...]:
        """definition: ( label [= def_arg], ... )"""
        self.expect("(")
        found = [self._definition_item()]
        while self.accept(","):
            found.append(self._definition_item())
        self.expect(")")
        return tuple(found)

    def _definition_item(self) -> ast.DefinitionItem:
        """def_elem."""
        start = self._curr.start
        name = self.label()
        if not self.accept("="):
            return ast.DefinitionItem(name, "none", location=start)
        key = self._curr.key
        if key == "SCONST":
            return ast.DefinitionItem(name, "string", self.string(), location=start)
        if key in _NUMBERS and (key in _NUMBERS[:2] or self.peek() in _NUMBERS[:2]):
            return ast.DefinitionItem(name, "number", self.signed_number(), location=start)
        if self.at_operator():
            parts = self.operator_name()
            return ast.DefinitionItem(name, "operator", ".".join(parts), parts, location=start)
        if key == "none":
            self.advance()
            return ast.DefinitionItem(name, "word", "none", location=start)
        if key in TYPE_FUNCTION_NAME or key in BUILT_IN_TYPES or key == "setof":
            given = self._function_type("", "i", start)
            return ast.DefinitionItem(name, "type", ".".join(given.type.names), given.type.names, given.type,
                                      given.returns_set, location=start)  # fmt: skip
        return ast.DefinitionItem(name, "word", self.label(), location=start)

    def create_range(self, name: tuple[str, ...], start: int) -> ast.Node:
        return ast.CreateRangeStmt(name, self.definition(), location=start)

    # ---- aggregates ----

    def create_aggregate(self, start: int, *, replace: bool) -> ast.Node:
        """After CREATE [OR REPLACE]: with its arguments before the definition, or (old) with a parameter basetype."""
        self.expect("aggregate")
        name = (self.type_function_name(),) if self.peek() != "." else self.any_name()
        if self.peek(2) == "=":
            return ast.CreateAggregateStmt(name, None, self.definition(), replace, location=start)
        arguments = self.aggregate_arguments()
        return ast.CreateAggregateStmt(name, arguments, self.definition(), replace, location=start)

    def aggregate_arguments(self) -> ast.AggregateArguments:
        """aggr_args: (*), (argument, ...), ([argument, ...] ORDER BY argument, ...)."""
        self.expect("(")
        if self.accept("*"):
            self.expect(")")
            return ast.AggregateArguments(())
        direct: list[ast.FunctionParameter] = []
        if self._curr.key != "order":
            direct = self._arguments_of_aggregate()
        if not self.accept("order"):
            self.expect(")")
            return ast.AggregateArguments(tuple(direct))
        self.expect("by")
        ordered = self._arguments_of_aggregate()
        self.expect(")")
        count = len(direct)
        if direct and direct[-1].mode == "v":
            last = ordered[0]
            if len(ordered) != 1 or last.mode != "v" or last.type.names != direct[-1].type.names:
                message = "an ordered-set aggregate with a VARIADIC direct argument must have one VARIADIC aggregated "
                self.complain(f"{message}argument of the same data type", last.location, "0A000")
            return ast.AggregateArguments(tuple(direct), count)
        return ast.AggregateArguments((*direct, *ordered), count)

    def _arguments_of_aggregate(self) -> list[ast.FunctionParameter]:
        found = [self._declared_parameter(defaults=False)]
        while self.accept(","):
            found.append(self._declared_parameter(defaults=False))
        return found

    def aggregate_signature(self) -> ast.FunctionSignature:
        """aggregate_with_argtypes."""
        start = self._curr.start
        name = (self.type_function_name(),) if self.peek() != "." else self.any_name()
        return ast.FunctionSignature(name, self.aggregate_arguments().parameters, location=start)

    def drop_aggregates(self, start: int) -> ast.Node:
        """After DROP AGGREGATE."""
        if_exists = self.if_exists()
        signatures = [self.aggregate_signature()]
        while self.accept(","):
            signatures.append(self.aggregate_signature())
        return ast.DropFunctionStmt("aggregate", tuple(signatures), if_exists, self.drop_behavior(), location=start)

    def alter_aggregate(self, start: int) -> ast.Node:
        """After ALTER."""
        self.expect("aggregate")
        signature = self.aggregate_signature()
        action, value = self.change_of_any()
        return ast.AlterFunctionStmt("aggregate", signature, action, value, location=start)

    def comment_on_aggregate(self, start: int) -> ast.Node:
        """After COMMENT ON AGGREGATE."""
        signature = self.aggregate_signature()
        self.expect("is")
        text = None if self.accept("null") else self.string()
        return ast.AlterFunctionStmt("aggregate", signature, "comment", text, location=start)

    # ---- operators ----

    def create_operator(self, start: int) -> ast.Node:
        """After CREATE."""
        self.expect("operator")
        return ast.CreateOperatorStmt(self.any_operator(), self.definition(), location=start)

    def _operator_signature(self) -> ast.OperatorSignature:
        """operator_with_argtypes: a name and (type, type), where NONE is a missing operand."""
        start = self._curr.start
        name = self.any_operator()
        self.expect("(")
        operands = [self._operand_type()]
        if self._curr.key == ")" and operands[0] is not None:
            message, hint = "missing argument", "Use NONE to denote the missing argument of a unary operator."
            raise SqlError("42601", message, hint=hint, position=self._curr.start + 1)
        self.expect(",")
        operands.append(self._operand_type())
        self.expect(")")
        return ast.OperatorSignature(name, operands[0], operands[1], location=start)

    def _operand_type(self) -> ast.TypeName | None:
        return None if self.accept("none") else self.type_name()

    def drop_operators(self, start: int) -> ast.Node:
        """After DROP."""
        self.expect("operator")
        if_exists = self.if_exists()
        found = [self._operator_signature()]
        while self.accept(","):
            found.append(self._operator_signature())
        return ast.DropOperatorStmt(tuple(found), if_exists, self.drop_behavior(), location=start)

    def alter_operator(self, start: int) -> ast.Node:
        """After ALTER: OWNER TO, SET SCHEMA, SET (RESTRICT = ..., JOIN = ...)."""
        self.expect("operator")
        found = self._operator_signature()
        if self._curr.key == "set" and self.peek() == "(":
            self.expect("set")
            return ast.AlterOperatorStmt(found, "set", definition=self.definition(), location=start)
        if self._curr.key == "rename":
            self.fail()
        action, value = self.change_of_any()
        return ast.AlterOperatorStmt(found, action, value, location=start)

    def comment_on_operator(self, start: int) -> ast.Node:
        """After COMMENT ON."""
        self.expect("operator")
        found = self._operator_signature()
        self.expect("is")
        text = None if self.accept("null") else self.string()
        return ast.AlterOperatorStmt(found, "comment", text, location=start)

    # ---- casts ----

    def _cast_types(self) -> tuple[ast.TypeName, ast.TypeName]:
        """(source AS target)"""
        self.expect("(")
        source = self.type_name()
        self.expect("as")
        target = self.type_name()
        self.expect(")")
        return source, target

    def create_cast(self, start: int) -> ast.Node:
        """After CREATE."""
        self.expect("cast")
        source, target = self._cast_types()
        function, method = None, "b"
        if self.accept("without"):
            self.expect("function")
        else:
            self.expect("with")
            if self.accept("inout"):
                method = "i"
            else:
                self.expect("function")
                function, method = self.function_signature(), "f"
        context = "e"
        if self.accept("as"):
            context = "a" if self.accept("assignment") else "i"
            if context == "i":
                self.expect("implicit")
        return ast.CreateCastStmt(source, target, method, context, function, location=start)

    def drop_cast(self, start: int) -> ast.Node:
        """After DROP."""
        self.expect("cast")
        if_exists = self.if_exists()
        source, target = self._cast_types()
        return ast.DropCastStmt(source, target, if_exists, self.drop_behavior(), location=start)

    def comment_on_cast(self, start: int) -> ast.Node:
        """After COMMENT ON."""
        self.expect("cast")
        source, target = self._cast_types()
        self.expect("is")
        text = None if self.accept("null") else self.string()
        return ast.CommentOnCastStmt(source, target, text, location=start)

    def change_of_any(self) -> tuple[str, str]:
        """RENAME TO, OWNER TO, SET SCHEMA: the action and its value."""
        if self.accept("rename"):
            self.expect("to")
            return "rename", self.type_function_name()
        if self.accept("owner"):
            self.expect("to")
            return "owner", self.role_name()
        self.expect("set", "schema")
        return "schema", self.column_name()
