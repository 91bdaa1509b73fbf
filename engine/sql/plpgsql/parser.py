"""The parser of PL/pgSQL: control structures, blocks, and whole bodies (PostgreSQL manual, 43.2 and 43.6 to 43.9).

    BodyReader -> Declarations -> SqlStatements -> Statements

As in PostgreSQL, the parser resolves the names of variables and the types of declarations, and raises at once what can
be known without running the function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.sql.plpgsql.conditions import OTHERS, conditions
from engine.sql.plpgsql.declarations import Declared, Types
from engine.sql.plpgsql.reader import BodyReader
from engine.sql.plpgsql.scope import BLOCK, LOOP, VariableScope
from engine.sql.plpgsql.sql_statements import SqlStatements, is_record
from engine.sql.plpgsql.tree import (
    Assert,
    Block,
    Body,
    Case,
    EndTransaction,
    Exit,
    ForCursor,
    Foreach,
    ForInteger,
    ForQuery,
    Fragment,
    Handler,
    If,
    Loop,
    Nothing,
    PlStatement,
    Raise,
    Return,
    ReturnNext,
    ReturnQuery,
    Statements,
    Target,
    Variable,
)

LEVELS = ("exception", "warning", "notice", "info", "log", "debug")
OPTIONS = ("message", "detail", "hint", "errcode", "column", "constraint", "datatype", "table", "schema")
CONFLICTS = ("error", "use_variable", "use_column")


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of the function. mode: i in, o out, b inout, v variadic, t column of RETURNS TABLE."""

    name: str
    type: TypeRef
    mode: str = "i"


@dataclass(frozen=True, slots=True)
class Signature:
    """What a body must know of its function. `result` None: record. `special`: variables that a trigger function has
    besides (tg_op, ...), with their types; None is record."""

    name: str
    arguments: tuple[Argument, ...]
    result: TypeRef | None
    returns_set: bool = False
    is_procedure: bool = False
    is_row: bool = False  # the result is of a composite type
    is_trigger: bool = False
    special: tuple[tuple[str, Declared], ...] = ()

    @property
    def outputs(self) -> int:
        """The number of OUT arguments."""
        return sum(argument.mode in "obt" for argument in self.arguments)


@dataclass(frozen=True, slots=True)
class _LoopVariable:
    """What stands between FOR and IN. `into`: known variables; empty for a new name."""

    name: str
    into: tuple[Target, ...]
    line: int
    offset: int

    @property
    def is_list(self) -> bool:
        """Whether it is several variables, or a record."""
        return len(self.into) > 1 or (len(self.into) == 1 and is_record(self.into[0]))


class BodyParser(SqlStatements):
    """Reads a whole body."""

    def __init__(self, body: str, conforming: bool, types: Types, signature: Signature) -> None:
        super().__init__(body, conforming, types)
        self._signature = signature

    def read(self) -> Body:
        """The body. Raises SqlError with a position in it."""
        scope = VariableScope().with_label(self._signature.name, BLOCK)
        arguments, outputs = [], []
        for number, argument in enumerate(self._signature.arguments, 1):
            variable = self.new_variable(argument.name or f"${number}", argument.type)
            scope = scope.with_variable(variable, f"${number}")
            if argument.name:
                scope = scope.with_variable(variable)
            if argument.mode in "ibv":
                arguments.append(variable)
            if argument.mode in "obt":
                outputs.append(variable)
        found = self.new_variable("found", TypeRef(oids.BOOL), made="found")
        scope = scope.with_variable(found)
        for name, type_ in self._signature.special:
            variable = self.new_variable(name, type_, made=name)
            scope = scope.with_variable(variable)
            arguments.append(variable)
        conflict, print_strict = self._options()
        block = self._block(scope, self._label())
        self.accept(";")
        if self.token.key != "":
            self.fail_near()
        return Body(block, tuple(arguments), tuple(outputs), tuple(self.variables), found, conflict, print_strict)

    def _options(self) -> tuple[str, bool | None]:
        """#option value ..."""
        conflict, print_strict = "", None
        while self.accept("#"):
            option = self.word
            if option == "variable_conflict" and self.peek() in CONFLICTS:
                self.advance()
                conflict = self.advance().text
            elif option == "print_strict_params":
                self.advance()
                value = self.word
                if value not in ("on", "off"):
                    self.complain(f"unrecognized print_strict_params option {value}", self.token.start)
                print_strict = self.advance().text == "on"
            elif option == "option" and self.peek() == "dump":
                self.advance()
                self.advance()
            else:
                self.fail_near()
        return conflict, print_strict

    # ---- blocks -----------------------------------------------------------------------------------------------------

    def _label(self) -> str:
        """[<<label>>]"""
        if not self.accept("<<"):
            return ""
        label = self._any_name()
        self.expect(">>")
        return label

    def _any_name(self) -> str:
        if not self.at_name():
            self.fail_near()
        return self.advance().text

    def _end_label(self, label: str) -> None:
        """[label] behind END"""
        at = self.token.start
        if not self.at_name():
            return
        name = self.advance().text
        if not label:
            self.complain(f'end label "{name}" specified for unlabeled block', at)
        if name != label:
            self.complain(f'end label "{name}" differs from block\'s label "{label}"', at)

    def _block(self, outer: VariableScope, label: str) -> Block:
        """[DECLARE ...] BEGIN ... [EXCEPTION ...] END [label], without what follows."""
        scope = outer.with_label(label, BLOCK)
        variables: tuple[Variable, ...] = ()
        if self.accept("declare"):
            scope, variables = self.declarations(scope)
        line = self.line
        self.expect("begin")
        statements = self._statements(scope, "end", "exception")
        handlers: list[Handler] = []
        errors: tuple[Variable, ...] = ()
        if self.accept("exception"):
            errors = tuple(self.new_variable(name, TypeRef(oids.TEXT), made=name) for name in ("sqlstate", "sqlerrm"))
            inside = scope
            for variable in errors:
                inside = inside.with_variable(variable)
            while self.word == "when" or not handlers:
                handlers.append(self._handler(inside))
        self.expect("end")
        self._end_label(label)
        return Block(label, variables, statements, tuple(handlers), errors, line=line)

    def _handler(self, scope: VariableScope) -> Handler:
        """WHEN condition [OR condition ...] THEN statements"""
        line = self.line
        self.expect("when")
        found: list[str] = []
        while True:
            if self.accept("sqlstate"):
                found.append(self._sqlstate())
            else:
                name = self._any_name()
                if name == "others":
                    found.append(OTHERS)
                elif name in conditions():
                    found.extend(conditions()[name])
                else:
                    raise SqlError("42704", f'unrecognized exception condition "{name}"')
            if not self.accept("or"):
                break
        self.expect("then")
        return Handler(tuple(found), self._statements(scope, "when", "end"), line)

    def _sqlstate(self) -> str:
        if self.token.key != "SCONST":
            self.fail_near()
        text = self.token.text
        if len(text) != 5 or not all("0" <= sign <= "9" or "A" <= sign <= "Z" for sign in text):
            self.fail_near("invalid SQLSTATE code")
        return self.advance().text

    def _statements(self, scope: VariableScope, *ends: str) -> Statements:
        found: list[PlStatement] = []
        while self.word not in ends:
            if self.token.key == "":
                self.fail_near()
            statement = self._statement(scope)
            if not isinstance(statement, Nothing):
                found.append(statement)
        return tuple(found)

    def _statement(self, scope: VariableScope) -> PlStatement:
        names = self.names_ahead()
        if names:
            found = scope.find(names)
            behind = self.peek(2 * len(names) - 1)
            if found is not None and (len(names) > 1 or behind in ("=", ":=", "[")):
                return self.assignment(scope, *found)
        word = self.word
        if word == "<<":
            return self._statement_with_label(scope)
        rule = _RULES.get(word)
        if rule is not None:
            return rule(self, scope)
        if self.token.key == "PARAM" and (found := scope.find((f"${self.token.text}",))) is not None:
            self.check_assignable(found[0], self.token.start)
            self.refuse("assignment to $n", self.token.start)
        if not names:
            self.fail_near()
        return self.sql(scope)

    def refuse(self, feature: str, offset: int) -> NoReturn:
        """0A000 for what PostgreSQL has and Shoal does not."""
        self.complain(f"{feature} is not supported", offset, "0A000")

    def _statement_with_label(self, scope: VariableScope) -> PlStatement:
        label = self._label()
        if self.word in ("declare", "begin"):
            return self._inner_block(scope, label)
        if self.word not in ("loop", "while", "for", "foreach"):
            self.fail_near()
        return self._loop(scope, label)

    def _inner_block(self, scope: VariableScope, label: str = "") -> PlStatement:
        block = self._block(scope, label)
        self.expect(";")
        return block

    # ---- conditions -------------------------------------------------------------------------------------------------

    def _if(self, scope: VariableScope) -> PlStatement:
        line = self.line
        branches: list[tuple[Fragment, Statements]] = []
        while not branches or self.word in ("elsif", "elseif"):
            self.advance()
            condition = self.expression(scope, "then")
            self.expect("then")
            branches.append((condition, self._statements(scope, "elsif", "elseif", "else", "end")))
        otherwise = self._statements(scope, "end") if self.accept("else") else ()
        self.expect("end", "if", ";")
        return If(tuple(branches), otherwise, line=line)

    def _case(self, scope: VariableScope) -> PlStatement:
        line = self.line
        self.expect("case")
        operand = variable = None
        if self.word != "when":
            operand = self.expression(scope, "when")
            variable = self.new_variable(f"__Case__Variable_{len(self.variables)}__", None, line, made="case")
        branches: list[tuple[Fragment, Statements]] = []
        while self.word == "when" or not branches:
            self.expect("when")
            condition = self.expression(scope, "then")
            if variable is not None:
                condition = self._is_one_of(variable, condition)
            self.expect("then")
            branches.append((condition, self._statements(scope, "when", "else", "end")))
        otherwise = self._statements(scope, "end") if self.accept("else") else None
        self.expect("end", "case", ";")
        return Case(operand, variable, tuple(branches), otherwise, line=line)

    def _is_one_of(self, variable: Variable, values: Fragment) -> Fragment:
        """variable.value IN (values): the variable is a record of one field, whose type is that of the operand."""
        beginning = f'"{variable.name}"."value" IN ('
        text = f"{beginning}{values.text})"
        scope = values.scope.with_variable(variable)
        inner = BodyReader(text, True).expression_between(0, len(text), scope)
        shown = f'"{variable.name}" IN ({values.text})'
        more = len(text) - len(shown)  # of characters before the values in what is read
        return Fragment(shown, values.offset - len(beginning) + more, inner.tree, scope, before=inner.before + more)

    # ---- loops ------------------------------------------------------------------------------------------------------

    def _loop(self, scope: VariableScope, label: str = "") -> PlStatement:
        word = self.word
        if word == "for":
            return self._for(scope, label)
        if word == "foreach":
            return self._foreach(scope, label)
        line = self.line
        condition = None
        if self.accept("while"):
            condition = self.expression(scope, "loop")
        return Loop(label, condition, self._loop_body(scope.with_label(label, LOOP), label), line=line)

    def _loop_body(self, scope: VariableScope, label: str) -> Statements:
        """LOOP statements END LOOP [label];"""
        self.expect("loop")
        statements = self._statements(scope, "end")
        self.expect("end", "loop")
        self._end_label(label)
        self.expect(";")
        return statements

    def _loop_variable(self, scope: VariableScope) -> _LoopVariable:
        token, line, names = self.token, self.line, self.names_ahead()
        if not names:
            self.fail_near()
        if scope.find(names) is None:
            if len(names) > 1 or self.peek() == ",":
                self.refuse_unknown(names, token.start)
            return _LoopVariable(self.advance().text, (), line, token.start)
        first = self.target(scope)
        into = [first]
        while self.word == "," and not is_record(first):
            self.advance()
            at = self.token
            item = self.target(scope)
            if is_record(item):
                self.complain(f'"{item.variable.name}" is not a scalar variable', at.start)
            into.append(item)
        return _LoopVariable(names[-1], tuple(into), line, token.start)

    def _for(self, scope: VariableScope, label: str) -> PlStatement:
        line = self.line
        self.expect("for")
        variable = self._loop_variable(scope)
        self.expect("in")
        inside = scope.with_label(label, LOOP)
        if self.accept("execute"):
            text = self.expression(scope, "loop", "using")
            using = self.using(scope, "loop")
            into = self._rows_into(variable)
            return ForQuery(label, into, text, True, using, self._loop_body(inside, label), line=line)
        names = self.names_ahead()
        found = scope.find(names) if names else None
        if found is not None and found[1] == len(names) and self._is_cursor(found[0]):
            return self._for_cursor(scope, label, variable, line)
        reverse = self.accept("reverse")
        start, stop = self.skip_to(("..", "loop"), "SQL expression")
        if self.word == "loop":
            if reverse:
                self.complain("cannot specify REVERSE in query FOR loop", start)
            query = self.statement_between(start, stop, scope)
            into = self._rows_into(variable)
            return ForQuery(label, into, query, False, (), self._loop_body(inside, label), line=line)
        low = self.expression_between(start, stop, scope)
        self.expect("..")
        high = self.expression(scope, "loop", "by")
        step = self.expression(scope, "loop") if self.accept("by") else None
        if len(variable.into) > 1:
            self.complain("integer FOR loop must have only one target variable", variable.offset)
        counter = self.new_variable(variable.name, TypeRef(oids.INT4), variable.line)
        body = self._loop_body(inside.with_variable(counter), label)
        return ForInteger(label, counter, low, high, step, reverse, body, line=line)

    def _rows_into(self, variable: _LoopVariable) -> tuple[Target, ...]:
        if not variable.into:
            message = "loop variable of loop over rows must be a record variable or list of scalar variables"
            self.complain(message, variable.offset)
        return variable.into

    @staticmethod
    def _is_cursor(variable: Variable) -> bool:
        return variable.type is not None and variable.type.oid == oids.REFCURSOR

    def _for_cursor(self, scope: VariableScope, label: str, variable: _LoopVariable, line: int) -> PlStatement:
        at = self.token.start
        if len(variable.into) > 1:
            self.complain("cursor FOR loop must have only one target variable", variable.offset)
        cursor = self.cursor_variable(scope)
        if cursor.cursor is None:
            self.complain("cursor FOR loop must use a bound cursor variable", at)
        arguments = self.cursor_arguments(scope, cursor, cursor.cursor, "loop")
        record = self.new_variable(variable.name, None, variable.line)
        inside = scope.with_label(label, LOOP).with_variable(record)
        return ForCursor(label, record, cursor, arguments, self._loop_body(inside, label), line=line)

    def _foreach(self, scope: VariableScope, label: str) -> PlStatement:
        line = self.line
        self.expect("foreach")
        variable = self._loop_variable(scope)
        slice_ = 0
        if self.accept("slice"):
            if self.token.key != "ICONST":
                self.fail_near()
            slice_ = int(self.advance().text)
        self.expect("in", "array")
        value = self.expression(scope, "loop")
        if not variable.into:
            message = "loop variable of FOREACH must be a known variable or list of variables"
            self.complain(message, variable.offset)
        body = self._loop_body(scope.with_label(label, LOOP), label)
        return Foreach(label, variable.into, slice_, value, body, line=line)

    def _exit(self, scope: VariableScope) -> PlStatement:
        line, start = self.line, self.token.start
        again = self.advance().text.lower() == "continue"
        label, at = "", self.token.start
        if self.at_name() and self.word != "when":
            label = self.advance().text
        condition = None
        if self.accept("when"):
            condition = self.expression(scope, ";")
        self.expect(";")
        if label:
            found = scope.label(label)
            if found is None:
                message = f'there is no label "{label}" attached to any block or loop enclosing this statement'
                self.complain(message, at)
            if again and found.kind == BLOCK:
                self.complain(f'block label "{label}" cannot be used in CONTINUE', at)
        elif not scope.is_in_loop():
            word = "CONTINUE" if again else "EXIT"
            message = f"{word} cannot be used outside a loop" + ("" if again else ", unless it has a label")
            self.complain(message, start)
        return Exit(again, label, condition, line=line)

    # ---- results ----------------------------------------------------------------------------------------------------

    def _return(self, scope: VariableScope) -> PlStatement:
        line = self.line
        self.expect("return")
        if self.accept("next"):
            return self._return_next(scope, line)
        if self.accept("query"):
            return self._return_query(scope, line)
        signature, at = self._signature, self.token.start
        if signature.returns_set:
            self._no_parameter("function returning set", "ParameterUse RETURN NEXT or RETURN QUERY.")
        elif signature.result is not None and signature.result.oid == oids.VOID and not signature.outputs:
            self._no_parameter("a procedure" if signature.is_procedure else "function returning void")
        elif signature.outputs:
            self._no_parameter("function with OUT parameters")
        else:
            if at == len(self.body):
                self.fail_near("unexpected end of function definition")
            value = self.expression(scope, ";")
            self.expect(";")
            return Return(value, line=line)
        self.expect(";")
        return Return(None, line=line)

    def _no_parameter(self, where: str, hint: str | None = None) -> None:
        if self.word != ";":
            more = {} if hint is None else {"hint": hint}
            self.complain(f"RETURN cannot have a parameter in {where}", self.token.start, "42804", **more)

    def _return_next(self, scope: VariableScope, line: int) -> PlStatement:
        signature, at = self._signature, self.token.start
        if not signature.returns_set:
            self.complain("cannot use RETURN NEXT in a non-SETOF function", at, "42804")
        if signature.outputs:
            if self.word != ";":
                self.complain("RETURN NEXT cannot have a parameter in function with OUT parameters", at, "42804")
            self.expect(";")
            return ReturnNext(None, line=line)
        value = self.expression(scope, ";")
        self.expect(";")
        return ReturnNext(value, line=line)

    def _return_query(self, scope: VariableScope, line: int) -> PlStatement:
        if not self._signature.returns_set:
            self.complain("cannot use RETURN QUERY in a non-SETOF function", self.token.start, "42804")
        if self.accept("execute"):
            text = self.expression(scope, "using", ";")
            using = self.using(scope, ";")
            self.expect(";")
            return ReturnQuery(text, True, using, line=line)
        start, stop = self.skip_to((";",), "SQL statement")
        query = self.statement_between(start, stop, scope)
        self.expect(";")
        return ReturnQuery(query, False, (), line=line)

    # ---- errors and messages ----------------------------------------------------------------------------------------

    def _raise(self, scope: VariableScope) -> PlStatement:
        line = self.line
        self.expect("raise")
        if self.accept(";"):
            return Raise("exception", "", None, (), (), line=line)
        level = "exception"
        if self.word in LEVELS:
            level = self.advance().text.lower()
        condition, message = "", None
        values: list[Fragment] = []
        if self.token.key == "SCONST":
            message = self.advance().text
            while self.accept(","):
                values.append(self.expression(scope, ",", ";", "using"))
        elif self.word != "using":
            if self.accept("sqlstate"):
                condition = self._sqlstate()
            else:
                condition = self._any_name()
                if condition not in conditions():
                    raise SqlError("42704", f'unrecognized exception condition "{condition}"')
        options = self._raise_options(scope) if self.accept("using") else ()
        self.expect(";")
        places = 0 if message is None else message.replace("%%", "").count("%")
        if len(values) != places:
            few = "few" if len(values) < places else "many"
            raise SqlError("42601", f"too {few} parameters specified for RAISE")
        return Raise(level, condition, message, tuple(values), options, line=line)

    def _raise_options(self, scope: VariableScope) -> tuple[tuple[str, Fragment], ...]:
        found: list[tuple[str, Fragment]] = []
        while True:
            option = self.word
            if option not in OPTIONS:
                self.fail_near("unrecognized RAISE statement option")
            self.advance()
            if self.word not in ("=", ":="):
                self.fail_near('syntax error, expected "="')
            self.advance()
            found.append((option, self.expression(scope, ",", ";")))
            if not self.accept(","):
                return tuple(found)

    def _assert(self, scope: VariableScope) -> PlStatement:
        line = self.line
        self.expect("assert")
        condition = self.expression(scope, ",", ";")
        message = self.expression(scope, ";") if self.accept(",") else None
        self.expect(";")
        return Assert(condition, message, line=line)

    # ---- the rest ---------------------------------------------------------------------------------------------------

    def _null(self, scope: VariableScope) -> PlStatement:
        line = self.line
        self.expect("null", ";")
        return Nothing(line=line)

    def _end_transaction(self, scope: VariableScope) -> PlStatement:
        line = self.line
        undo = self.advance().text.lower() == "rollback"
        chain = False
        if self.accept("and"):
            chain = not self.accept("no")
            self.expect("chain")
        self.expect(";")
        return EndTransaction(undo, chain, line=line)


_RULES = {
    "declare": BodyParser._inner_block,
    "begin": BodyParser._inner_block,
    "if": BodyParser._if,
    "case": BodyParser._case,
    "loop": BodyParser._loop,
    "while": BodyParser._loop,
    "for": BodyParser._loop,
    "foreach": BodyParser._loop,
    "exit": BodyParser._exit,
    "continue": BodyParser._exit,
    "return": BodyParser._return,
    "raise": BodyParser._raise,
    "assert": BodyParser._assert,
    "execute": BodyParser.execute,
    "perform": BodyParser.perform,
    "get": BodyParser.get_diagnostics,
    "open": BodyParser.open_cursor,
    "fetch": BodyParser.fetch,
    "move": BodyParser.fetch,
    "close": BodyParser.close_cursor,
    "null": BodyParser._null,
    "commit": BodyParser._end_transaction,
    "rollback": BodyParser._end_transaction,
}


def parse_body(body: str, signature: Signature, types: Types, conforming: bool = True) -> Body:
    """The parse tree of a body. Raises SqlError with a position in the body: 42601, 42704, 42804, ...; one without a
    position tells the line in its context."""
    parser = BodyParser(body, conforming, types, signature)
    try:
        return parser.read()
    except SqlError as error:
        if error.position is None:
            error.context = f'compilation of PL/pgSQL function "{signature.name}" near line {parser.line}'
        raise
