"""A body in PL/pgSQL as one Python function.

    DECLARE x int := 1;                    p2 = 1
    BEGIN WHILE x < n LOOP                 while (p1 is not None and p2 is not None and p2 < p1):
              x := x * 2;                      p2 = (None if p2 is None else int4mul(p2, 2))
          END LOOP;                            ticks -= 1; ...
          RETURN x; END                    return p2

Each variable is a local of the function. Python's own exceptions carry errors, and the line of Python in a traceback
tells the line and the kind of the statement (`Program.places`), so that keeping track of it costs nothing.

EXIT and CONTINUE of the innermost loop are Python's; those of an outer one set `jump` to its number (negative for
CONTINUE) and leave one construct after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass

from catalog.errors import SqlError, not_supported
from catalog.types import lookup, oids
from catalog.types.base import TypeRef
from catalog.types.composite import CompositeType
from engine.execute.code import Code, NotOnRowPath
from engine.execute.compiled_value import Value
from engine.execute.expressions import ExpressionCompiler
from engine.sql import ast, tree
from engine.sql.analyze import Environment, Shared
from engine.sql.analyze.routines import is_routine
from engine.sql.analyze.state import State
from engine.sql.plpgsql import tree as pl
from engine.sql.plpgsql.parser import Signature
from engine.sql.plpgsql.scope import VariableScope
from engine.sql.tree_walk import is_volatile, walk
from engine.statements.plpgsql.errors import TextContext, context_of
from engine.statements.plpgsql.fragments import (
    failing_part,
    field_place,
    has_fields_alone,
    local_expression,
    no_column,
    part_of_variable,
    record_named,
    records_among,
    records_in,
    variables_among,
)
from engine.statements.plpgsql.names import LocalNames, ParameterUse
from engine.statements.plpgsql.never_null import never_null
from engine.statements.plpgsql.program import Program
from engine.statements.plpgsql.records import Row, Uncast, assignment_of
from engine.statements.plpgsql.statement_kinds import kind_of
from engine.statements.plpgsql.utilities import refusal

BODY_FILE = "<PL/pgSQL "
"""What the file names of programs begin with."""
TICKS = 1
"""Turns of a loop before the first look at the clock (Frame.look)."""

_APART = (pl.Block, pl.Assign, pl.If, pl.Loop, pl.ForInteger, pl.Exit, pl.Return, pl.Raise, pl.Assert)
"""The statements that run and read nothing, if their expressions do not."""


@dataclass(slots=True)
class _Construct:
    """A loop, or a block with a label, that `break` leaves. `jumps`: whether an inner one leaves through it."""

    number: int
    label: str
    is_loop: bool
    jumps: bool = False


class BodyCompiler:
    """Compiles one body."""

    def __init__(
        self, body: pl.Body, signature: Signature, environment: Environment, conflict: str, print_strict: bool
    ) -> None:
        self._body = body
        self._print_strict = print_strict
        self._signature = signature
        self._environment = environment
        self._conflict = body.conflict or conflict
        self._code = Code()
        self._expressions = ExpressionCompiler(self._code, environment.format, no_column)
        self._texts: list[pl.Fragment] = []
        self._fields: dict[ParameterUse, int] = {}  # the parameters that stand for fields of records
        self._first_field = len(body.variables) + 2
        self._places: list[tuple[int, int, str]] = []
        self._constructs: list[_Construct] = []
        self._count = 0
        self._is_apart = True
        self._error = ""  # the local of the error whose handler is compiled

    def compile(self) -> Program:
        """The program. Raises errors of analysis."""
        code = self._code
        arguments = "".join(f", {local(variable)}" for variable in self._body.arguments)
        code.names["SqlError"] = SqlError
        self._expressions.overrides |= never_null(
            self._body, self._local_expression, self._environment.format, self._expressions.overrides
        )
        with code.block(f"def body(frame, context{arguments}):"):
            code.line(f"ticks, jump = {TICKS}, 0")
            known = {variable.number for variable in self._body.arguments}
            others = [local(item) for item in self._body.variables if item.number not in known]
            code.line(f"{' = '.join(others)} = None")
            code.line(f"{local(self._body.found)} = False")
            self._block(self._body.block)
            self._at(0, "")
            if self._may_end():
                code.line(f"return {self._outputs()}")
            else:
                code.line(f"frame.refuse_end({self._signature.is_trigger})")
        try:
            run = code.finish("body", f"{BODY_FILE}{self._signature.name}>")
        except NotOnRowPath:
            not_supported("a body with so many blocks and loops within one another")
        return Program(
            run,
            self._conflict,
            self._columns(),
            self._places,
            self._texts,
            list(map(context_of, self._texts)),
            list(map(records_in, self._texts)),
            list(map(record_named, self._texts)),
            self._body.print_strict if self._body.print_strict is not None else self._print_strict,
            self._signature.name,
            is_apart=self._is_apart and not self._texts,
            asks_context=code.asks_context,
        )

    def _columns(self) -> list[TypeRef]:
        """The types of the columns of the function's rows."""
        if self._body.outputs:
            return [_type_of(pl.Target(variable)) for variable in self._body.outputs]
        result = self._signature.result
        known = None if result is None else lookup(result.oid)
        if isinstance(known, CompositeType):
            return [type_ for _, type_ in known.fields]
        return [] if result is None else [result]

    def _may_end(self) -> bool:
        """Whether the body may end without RETURN."""
        signature = self._signature
        return bool(self._body.outputs) or signature.returns_set or self._is_void()

    def _is_void(self) -> bool:
        result = self._signature.result
        return result is not None and result.oid == oids.VOID

    def _at(self, line: int, kind: str) -> None:
        self._places.append((self._code.position + 1, line, kind))

    # ---- SQL --------------------------------------------------------------------------------------------------------

    def _text(self, fragment: pl.Fragment, *more: object) -> tuple[int, str]:
        """The number of a text, and the source of the variables that are handed to it. `more`: trees that use variables
        too."""
        self._texts.append(fragment)
        names = [local(variable) for variable in variables_among((fragment.tree, more), fragment.scope)]
        return len(self._texts) - 1, f"{{{', '.join(f'{name!r}: {name}' for name in names)}}}"

    def _expression(self, fragment: pl.Fragment, target: TypeRef | None = None) -> str:
        """Source of an expression's value, of the type `target` if that is given."""
        found = self._local_expression(fragment, target)
        if found is not None:
            with suppress(NotOnRowPath):
                return self._expressions.value(found).source
        number, values = self._text(fragment)
        wanted = "None" if target is None else self._code.constant(target, "type")
        return f"frame.evaluate({number}, {values}, {wanted})"

    def _local_expression(self, fragment: pl.Fragment, target: TypeRef | None) -> tree.Expr | None:
        """A text as an expression of the function's source, of the type `target` if that is given; None for one that is
        evaluated as a text. So is one with errors, because they come when it is evaluated."""
        if not has_fields_alone(fragment):
            return None
        try:
            found = local_expression(fragment, self._environment, self._conflict, self._fields, self._first_field)
            if found is not None and target is not None:
                found = assignment_of(self._state(), found, target)
        except SqlError:
            return None
        if found is None or is_volatile(found) or failing_part(found, self._environment):
            return None
        self._is_apart &= not any(map(is_routine, walk(found)))
        uses = {number: use for use, number in self._fields.items()}
        for node in walk(found) if uses else ():
            if isinstance(node, tree.Param) and node.number in uses:
                use = uses[node.number]
                name = local(use.variable)
                source = f"(None if {name} is None else {name}.values[{use.field}])"
                self._expressions.overrides[node] = Value(source, nullable=True)
        return found

    def _condition(self, fragment: pl.Fragment) -> str:
        """Source that is truthy exactly if a condition is true."""
        found = self._local_expression(fragment, TypeRef(oids.BOOL))
        if found is not None:
            with suppress(NotOnRowPath):
                return self._expressions.true(found)
        return f"({self._expression(fragment, TypeRef(oids.BOOL))} is True)"

    def _state(self) -> State:
        return State(Shared(self._environment, ()))

    # ---- variables --------------------------------------------------------------------------------------------------

    def _assign(self, target: pl.Target, fragment: pl.Fragment) -> None:
        variable = target.variable
        name, code = local(variable), self._code
        if target.steps:
            self._assign_part(target, fragment)
            return
        if variable.type is None:
            number, values = self._text(fragment)
            if variable.shape is None:
                code.line(f"{name} = frame.evaluate_row({number}, {values})")
            else:
                code.line(f"{name} = frame.row_of({number}, {values}, {code.constant(variable.shape, 'shape')})")
            return
        self._set(variable, self._expression(fragment, variable.type))

    def _assign_part(self, target: pl.Target, fragment: pl.Fragment) -> None:
        """record.field := value, array[i] := value, ..."""
        variable = target.variable
        name, code = local(variable), self._code
        place = field_place(target)
        if place >= 0 and variable.shape is not None:
            value = code.temporary("v")
            code.line(f"{value} = {self._expression(fragment, variable.shape[place][1])}")
            empty = code.constant(Row(variable.shape, (None,) * len(variable.shape)), "empty")
            code.line(f"{name} = ({name} or {empty}).with_field({place}, {value})")
            return
        if variable.type is None:
            number, values = self._text(fragment)
            steps = code.constant(target.steps, "steps")
            shape = code.constant(variable.shape, "shape")
            given = f"{name}, {variable.name!r}, {steps}, {number}, {values}, {shape}"
            code.line(f"{name} = frame.store_field({given})")
            return
        records = records_among((fragment.tree, target.steps), fragment.scope)
        found = None if records else self._local_expression(fragment, None)
        if found is not None:
            part = tree.Param(len(self._body.variables) + 1, found.type)
            with suppress(NotOnRowPath, SqlError):  # it raises the error when it runs
                source = self._store_source(target, part, fragment.scope)
                code.line(f"p{part.number} = {self._expression(fragment)}")
                code.line(f"{name} = {source}")
                return
        number, values = self._text(fragment, target.steps)
        constants = f"{code.constant(target, 'target')}, {code.constant(tuple(records), 'records')}"
        code.line(f"{name} = frame.store_part({number}, {values}, {name}, {constants})")

    def _store_source(self, target: pl.Target, given: tree.Param, scope: VariableScope) -> str:
        """Source of a variable's value with another one in a part of it."""
        state = self._state()
        state.shared.routine = LocalNames(scope, self._conflict, self._fields, self._first_field)
        before = tree.Param(target.variable.number + 1, TypeRef(_type_of(target).oid))
        return self._expressions.value(part_of_variable(state, target, before, given)).source

    def _set(self, variable: pl.Variable, source: str) -> None:
        """Gives a variable a value. One that is NOT NULL keeps its value where NULL is refused."""
        code, name = self._code, local(variable)
        if not variable.not_null:
            code.line(f"{name} = {source}")
            return
        value = code.temporary("v")
        code.line(f"{value} = {source}")
        with code.block(f"if {value} is None:"):
            code.line(f"frame.refuse_null({variable.name!r})")
        code.line(f"{name} = {value}")

    def _take_row(self, into: Sequence[pl.Target], row: str, fields: str) -> None:
        """Assigns a row of a query (`row` may be None) to variables."""
        code = self._code
        first = into[0]
        if first.variable.is_record and not first.steps:
            kind = code.constant(first.variable.shape or first.variable.type, "type")
            code.line(f"{local(first.variable)} = frame.record_of({row}, {fields}, {kind})")
            return
        if any(target.steps for target in into):
            self._take_parts(into, row, fields)
            return
        types = code.constant(tuple(_type_of(target) for target in into), "types")
        values = code.temporary("row")
        code.line(f"{values} = frame.values_of({row}, {fields}, {types})")
        for number, target in enumerate(into):
            self._set(target.variable, f"{values}[{number}]")

    def _take_parts(self, into: Sequence[pl.Target], row: str, fields: str) -> None:
        """Assigns a row of a query to variables and fields of records."""
        code = self._code
        for number, target in enumerate(into):
            name = local(target.variable)
            given = f"frame.column_of({row}, {fields}, {number})"
            if not target.steps:
                type_ = code.constant(_type_of(target), "type")
                self._set(target.variable, f"frame.convert({given} or (None, {type_}), {type_})")
            elif target.variable.type is None:
                steps, shape = code.constant(target.steps, "steps"), code.constant(target.variable.shape, "shape")
                code.line(f"{name} = frame.store_into({name}, {target.variable.name!r}, {steps}, {given}, {shape})")
            else:
                not_supported("INTO a part of a variable that is not a record")

    # ---- blocks -----------------------------------------------------------------------------------------------------

    def _statements(self, statements: Sequence[pl.PlStatement]) -> None:
        for statement in statements:
            self._is_apart &= isinstance(statement, _APART)
            self._at(statement.line, kind_of(statement))
            _EMITTERS[type(statement)](self, statement)

    def _block(self, block: pl.Block) -> None:
        for variable in block.variables:
            self._at(variable.line, "during statement block local variable initialization")
            self._declare(variable)
        self._at(block.line, "statement block")
        if block.label:
            with self._construct(block.label, is_loop=False) as construct, self._code.block("while True:"):
                self._block_with_handlers(block)
                self._code.line("break")
            self._pass_on(construct)
        else:
            self._block_with_handlers(block)

    def _declare(self, variable: pl.Variable) -> None:
        name = local(variable)
        if variable.cursor is not None:
            self._code.line(f"{name} = {variable.name!r}")
        elif variable.default is None:
            self._code.line(f"{name} = None")
        else:
            self._assign(pl.Target(variable), variable.default)

    def _block_with_handlers(self, block: pl.Block) -> None:
        """The statements of a block, within its handlers."""
        if not block.handlers:
            self._statements(block.statements)
            return
        code = self._code
        point, error, outer = code.temporary("point"), code.temporary("error"), self._error
        code.line(f"{point} = frame.begin_block()")
        with code.block("try:"):
            self._statements(block.statements)
        with code.block("except SqlError as caught:"):
            code.line(f"{error} = caught")
            code.line(f"{point}.undo()")
            state, text = block.errors
            code.line(f"{local(state)}, {local(text)} = {error}.sqlstate, {error}.message")
            self._error = error
            for number, handler in enumerate(block.handlers):
                conditions = code.constant(handler.conditions, "conditions")
                with code.block(f"{'el' if number else ''}if frame.is_handled({error}, {conditions}):"):
                    self._statements(handler.statements)
            with code.block("else:"):
                code.line("raise")
            self._error = outer
        with code.block("finally:"):
            code.line(f"{point}.leave()")

    # ---- jumps ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _construct(self, label: str, *, is_loop: bool) -> Iterator[_Construct]:
        self._count += 1
        made = _Construct(self._count, label, is_loop)
        self._constructs.append(made)
        yield made
        self._constructs.pop()

    def _exit(self, statement: pl.Exit) -> None:
        if statement.condition is not None:
            with self._code.block(f"if {self._condition(statement.condition)}:"):
                self._jump(statement)
        else:
            self._jump(statement)

    def _jump(self, statement: pl.Exit) -> None:
        named = statement.label
        target = next(
            (item for item in reversed(self._constructs) if (item.label == named if named else item.is_loop)), None
        )
        word = "continue" if statement.again else "break"
        if target is None:  # the label of the function itself
            self._at(0, "")
            self._code.line(f"frame.refuse_end({self._signature.is_trigger})")
            return
        if target is self._constructs[-1]:
            self._code.line(word)
            return
        for item in self._constructs[self._constructs.index(target) + 1 :]:
            item.jumps = True
        self._code.line(f"jump = {-target.number if statement.again else target.number}")
        self._code.line("break")

    def _pass_on(self, construct: _Construct) -> None:
        """Behind a construct: a jump that goes further out."""
        if not construct.jumps or not self._constructs:
            return
        around = self._constructs[-1].number
        with self._code.block("if jump:"):
            with self._code.block(f"if jump == {-around}:"):
                self._code.line("jump = 0")
                self._code.line("continue")
            with self._code.block(f"if jump == {around}:"):
                self._code.line("jump = 0")
            self._code.line("break")

    # ---- control structures -----------------------------------------------------------------------------------------

    def _if(self, statement: pl.If) -> None:
        for number, (condition, statements) in enumerate(statement.branches):
            self._at(statement.line, kind_of(statement))
            with self._code.block(f"{'el' if number else ''}if {self._condition(condition)}:"):
                self._statements(statements)
        if statement.otherwise:
            with self._code.block("else:"):
                self._statements(statement.otherwise)

    def _tick(self) -> None:
        """At the beginning of each turn of a loop: looks at the clock from time to time."""
        self._code.line("ticks -= 1")
        with self._code.block("if ticks < 0:"):
            self._code.line("ticks = frame.look()")

    def _loop(self, statement: pl.Loop) -> None:
        condition = "True" if statement.condition is None else self._condition(statement.condition)
        loop = self._construct(statement.label, is_loop=True)
        with loop as construct, self._code.block(f"while {condition}:"):
            self._tick()
            self._statements(statement.statements)
        self._pass_on(construct)

    def _for_integer(self, statement: pl.ForInteger) -> None:
        code, whole = self._code, TypeRef(oids.INT4)
        low, high = self._expression(statement.low, whole), self._expression(statement.high, whole)
        step = "1" if statement.step is None else self._expression(statement.step, whole)
        numbers = code.temporary("numbers")
        with self._construct(statement.label, is_loop=True) as construct:
            code.line(f"{numbers} = frame.numbers({low}, {high}, {step}, {statement.reverse})")
            with code.block(f"for {local(statement.variable)} in {numbers}:"):
                self._tick()
                self._statements(statement.statements)
            code.line(f"{local(self._body.found)} = bool({numbers})")
        self._pass_on(construct)

    def _for_query(self, statement: pl.ForQuery) -> None:
        code, found = self._code, local(self._body.found)
        rows, fields, row = code.temporary("rows"), code.temporary("fields"), code.temporary("row")
        turned = code.temporary("turned")
        source = self._query(statement.query, statement.dynamic, statement.using, is_loop=True)
        code.line(f"{fields}, {rows} = {source}")
        with code.block(f"if not {rows}:"):
            self._take_row(statement.into, "None", fields)
        with self._construct(statement.label, is_loop=True) as construct:
            code.line(f"{turned} = False")
            with code.block(f"for {row} in {rows}:"):
                code.line(f"{turned} = True")
                self._tick()
                self._take_row(statement.into, row, fields)
                self._statements(statement.statements)
            code.line(f"{found} = {turned}")
        self._pass_on(construct)

    def _query(self, query: pl.Fragment, dynamic: bool, using: Sequence[pl.Fragment], is_loop: bool = False) -> str:
        """Source of a query's columns and rows."""
        if dynamic:
            text = self._expression(query, TypeRef(oids.TEXT))
            return f"frame.dynamic_rows({text}, {self._values(using)}, {is_loop})"
        number, values = self._text(query)
        return f"frame.{'loop_rows' if is_loop else 'rows'}({number}, {values})"

    def _values(self, fragments: Sequence[pl.Fragment]) -> str:
        """Source of values with their types."""
        found = []
        for fragment in fragments:
            number, values = self._text(fragment)
            found.append(f"frame.evaluate_typed({number}, {values})")
        return f"[{', '.join(found)}]"

    # ---- results ----------------------------------------------------------------------------------------------------

    def _outputs(self) -> str:
        """Source of the result of RETURN without a value: the OUT arguments. A void is not NULL in PostgreSQL."""
        if self._signature.returns_set:
            return "None"
        if not self._body.outputs:
            return "''" if self._is_void() else "None"
        names = [local(variable) for variable in self._body.outputs]
        return names[0] if len(names) == 1 else f"({', '.join(names)})"

    def _return(self, statement: pl.Return) -> None:
        signature, code = self._signature, self._code
        if statement.value is None:
            code.line(f"return {self._outputs()}")
            return
        if signature.is_trigger:
            record = record_named(statement.value)
            if record is not None and record.made:  # of a statement trigger it is None
                code.line(f"return {local(record)}")
                return
            if statement.value.text.strip().lower() == "null":
                code.line("return None")
                return
        if signature.result is None or signature.result.oid == oids.RECORD:
            number, values = self._text(statement.value)
            code.line(f"return frame.evaluate_row({number}, {values})")
            return
        found = self._local_expression(statement.value, None)
        if found is not None and found.type.oid == signature.result.oid and not signature.result.domain:
            code.line(f"return {self._expression(statement.value, signature.result)}")
            return
        number, values = self._text(statement.value)
        code.names["Uncast"] = Uncast  # no handler of the function sees the cast's error
        given = f"*frame.evaluate_typed({number}, {values}), {code.constant(signature.result, 'type')}"
        code.line(f"return Uncast({given})")

    def _return_next(self, statement: pl.ReturnNext) -> None:
        signature, code = self._signature, self._code
        if statement.value is None:
            code.line(f"frame.results.append(({', '.join(map(local, self._body.outputs))},))")
        elif signature.result is None or signature.result.oid == oids.RECORD or signature.is_row:
            record = record_named(statement.value)
            if record is not None and record.shape is not None:  # from now on it is a row of NULLs, not NULL
                empty = code.constant(Row(record.shape, (None,) * len(record.shape)), "empty")
                code.line(f"{local(record)} = {local(record)} or {empty}")
            elif record is not None:
                with code.block(f"if {local(record)} is None:"):
                    code.line(f"frame.refuse_unassigned({record.name!r})")
            number, values = self._text(statement.value)
            code.line(f"frame.add_row(frame.evaluate_row({number}, {values}))")
        else:
            code.line(f"frame.results.append(({self._expression(statement.value, signature.result)},))")

    def _return_query(self, statement: pl.ReturnQuery) -> None:
        code = self._code
        fields, rows = code.temporary("fields"), code.temporary("rows")
        code.line(f"{fields}, {rows} = {self._query(statement.query, statement.dynamic, statement.using)}")
        number = len(self._texts) - 1 if not statement.dynamic else None
        code.line(f"{local(self._body.found)} = frame.add_rows({fields}, {rows}, {number})")

    # ---- errors and messages ----------------------------------------------------------------------------------------

    def _raise(self, statement: pl.Raise) -> None:
        code = self._code
        if statement.again:
            code.line("raise" if self._error else "frame.refuse_again()")
            return
        values = self._values(statement.values)
        options = "{}"
        if statement.options:
            message, options = code.temporary("values"), code.temporary("options")
            code.line(f"{message}, {options} = {values}, {{}}")
            values = message
            for name, value in statement.options:
                number, given = self._text(value)
                found = f"frame.evaluate_typed({number}, {given})"
                known = f"{statement.condition!r}, {statement.message is not None}"
                code.line(f"frame.add_option({options}, {name!r}, {found}, {known})")
        given = f"{statement.level!r}, {statement.condition!r}, {statement.message!r}, {values}, {options}"
        code.line(f"frame.raise_message({given})")

    def _assert(self, statement: pl.Assert) -> None:
        code = self._code
        with code.block(f"if frame.checks_asserts and not {self._condition(statement.condition)}:"):
            message = "None" if statement.message is None else self._expression(statement.message, TypeRef(oids.TEXT))
            code.line(f"frame.fail_assertion({message})")

    # ---- SQL statements ---------------------------------------------------------------------------------------------

    def _run_sql(self, statement: pl.RunSql) -> None:
        code, found = self._code, local(self._body.found)
        message = refusal(statement.sql.tree)
        if message:
            code.line(f"frame.fail('0A000', {message!r})")
            return
        if isinstance(statement.sql.tree, ast.CallStmt | ast.DoStmt):
            self._call(statement.sql)
            return
        number, values = self._text(statement.sql)
        if statement.perform:
            code.line(f"{found} = frame.perform({number}, {values})")
        elif not statement.into:
            code.line(f"{found} = frame.run({number}, {values}, {found})")
        else:
            fields, row = code.temporary("fields"), code.temporary("row")
            code.line(f"{fields}, {row} = frame.one_row({number}, {values}, {statement.strict})")
            code.line(f"{found} = {row} is not None")
            if statement.strict or not isinstance(statement.sql.tree, ast.SelectStmt):
                with code.block(f"if {row}.__class__ is SqlError:"):  # too few or too many: FOUND is known before that
                    code.line(f"{found} = frame.has_rows")
                    code.line(f"raise {row}")
            self._take_row(statement.into, row, fields)

    def _call(self, fragment: pl.Fragment) -> None:
        """CALL and DO. The results of a procedure go to the variables that are its arguments."""
        call = fragment.tree.call if isinstance(fragment.tree, ast.CallStmt) else None
        written = {}
        for place, node in enumerate(call.arguments if isinstance(call, ast.FuncCall) else ()):
            known = fragment.scope.find(node.names) if isinstance(node, ast.ColumnRef) else None
            if known is not None and isinstance(node, ast.ColumnRef):
                written[place] = pl.Target(known[0], node.names[known[1] :])
        code = self._code
        number, values = self._text(fragment)
        results = code.temporary("results")
        code.line(f"{results} = frame.call({number}, {values}, {code.constant(frozenset(written), 'places')})")
        for place, target in written.items():
            with code.block(f"if {place} in {results}:"):
                self._take_result(target, f"{results}[{place}]")

    def _take_result(self, target: pl.Target, given: str) -> None:
        """Assigns a result of CALL to a variable or a field of a record."""
        code, variable = self._code, target.variable
        name = local(variable)
        if variable.constant:
            message = f'variable "{variable.name}" is declared CONSTANT'
            code.line(f"frame.fail('22005', {message!r})")
        elif target.steps and variable.type is None:
            steps, shape = code.constant(target.steps, "steps"), code.constant(variable.shape, "shape")
            code.line(f"{name} = frame.store_into({name}, {variable.name!r}, {steps}, {given}, {shape})")
        elif target.steps or variable.is_record:
            code.line("frame.fail('0A000', 'a record as a result of CALL is not supported')")
        else:
            self._set(variable, f"frame.convert({given}, {code.constant(variable.type, 'type')})")

    def _run_dynamic(self, statement: pl.RunDynamic) -> None:
        code = self._code
        text, using = self._expression(statement.text, TypeRef(oids.TEXT)), self._values(statement.using)
        if not statement.into:
            code.line(f"frame.execute({text}, {using})")
            return
        fields, row = code.temporary("fields"), code.temporary("row")
        code.line(f"{fields}, {row} = frame.execute_row({text}, {using}, {statement.strict})")
        self._take_row(statement.into, row, fields)

    def _diagnostics(self, statement: pl.GetDiagnostics) -> None:
        code = self._code
        for target, item in statement.items:
            if statement.stacked:
                source = f"frame.stacked_item({self._error or 'None'}, {item!r})"
            else:
                source = f"frame.current({item!r})"
            type_ = code.constant(_type_of(target), "type")
            if target.steps:
                not_supported("GET DIAGNOSTICS into a part of a variable")
            code.line(f"{local(target.variable)} = frame.convert({source}, {type_})")

    def _case(self, statement: pl.Case) -> None:
        code = self._code
        if statement.operand is not None:
            assert statement.variable is not None
            number, values = self._text(statement.operand)
            code.line(f"{local(statement.variable)} = frame.evaluate_case({number}, {values})")
        for position, (condition, statements) in enumerate(statement.branches):
            self._at(statement.line, kind_of(statement))
            with code.block(f"{'el' if position else ''}if {self._condition(condition)}:"):
                self._statements(statements)
        with code.block("else:"):
            if statement.otherwise is None:
                self._at(statement.line, kind_of(statement))
                code.line("frame.refuse_case()")
            else:
                self._statements(statement.otherwise)

    def _foreach(self, statement: pl.Foreach) -> None:
        code, found = self._code, local(self._body.found)
        number, values = self._text(statement.value)
        fields, rows, row = code.temporary("fields"), code.temporary("rows"), code.temporary("row")
        turned = code.temporary("turned")
        code.line(f"{fields}, {rows} = frame.elements({number}, {values}, {statement.slice})")
        with self._construct(statement.label, is_loop=True) as construct:
            code.line(f"{turned} = False")
            with code.block(f"for {row} in {rows}:"):
                code.line(f"{turned} = True")
                self._tick()
                self._take_row(statement.into, row, fields)
                self._statements(statement.statements)
            code.line(f"{found} = {turned}")
        self._pass_on(construct)

    # ---- cursors ----------------------------------------------------------------------------------------------------

    def _bind_cursor(self, cursor: pl.Variable, arguments: Sequence[pl.Fragment]) -> None:
        """Gives the parameters of a bound cursor their values."""
        assert cursor.cursor is not None
        for parameter, argument in zip(cursor.cursor.parameters, arguments, strict=True):
            value = self._local_expression(argument, parameter.type) if len(arguments) == 1 else None
            around = TextContext(argument.text, argument.kind) if value is not None else nullcontext()
            with self._code.block(f"with {self._code.constant(around, 'around')}:"):  # PostgreSQL runs it as a query
                self._code.line(f"{local(parameter)} = {self._expression(argument, parameter.type)}")
        if arguments:
            self._code.line(f"{local(self._body.found)} = True")  # PostgreSQL computes them by a query

    def _open(self, statement: pl.OpenCursor) -> None:
        cursor, code = statement.cursor, self._code
        name = local(cursor)
        if cursor.cursor is not None:
            self._bind_cursor(cursor, statement.arguments)
            number, values = self._text(cursor.cursor.query)
            code.line(f"{name} = frame.open_cursor({name}, {number}, {values}, {statement.scroll})")
            return
        assert statement.query is not None
        if statement.dynamic:
            text = self._expression(statement.query, TypeRef(oids.TEXT))
            given = f"{text}, {self._values(statement.using)}"
            code.line(f"{name} = frame.open_dynamic({name}, {given}, {statement.scroll})")
        else:
            number, values = self._text(statement.query)
            code.line(f"{name} = frame.open_cursor({name}, {number}, {values}, {statement.scroll})")

    def _fetch(self, statement: pl.Fetch) -> None:
        code, cursor = self._code, statement.cursor
        count = "None" if statement.every else "1"
        if statement.count is not None:
            count = self._expression(statement.count, TypeRef(oids.INT4))
        fields, row = code.temporary("fields"), code.temporary("row")
        given = f"{local(cursor)}, {cursor.name!r}, {statement.direction!r}, {count}, {statement.move}"
        code.line(f"{fields}, {row} = frame.fetch({given})")
        code.line(f"{local(self._body.found)} = {row} is not None")
        if not statement.move:
            self._take_row(statement.into, row, fields)

    def _close(self, statement: pl.CloseCursor) -> None:
        self._code.line(f"frame.close_cursor({local(statement.cursor)}, {statement.cursor.name!r})")

    def _for_cursor(self, statement: pl.ForCursor) -> None:
        code, cursor, found = self._code, statement.cursor, local(self._body.found)
        assert cursor.cursor is not None
        self._bind_cursor(cursor, statement.arguments)
        number, values = self._text(cursor.cursor.query)
        name = local(cursor)
        fields, rows, row = code.temporary("fields"), code.temporary("rows"), code.temporary("row")
        turned = code.temporary("turned")
        code.line(f"{name} = frame.open_cursor({name}, {number}, {values}, False)")
        code.line(f"{fields}, {rows} = frame.cursor_rows({name})")
        with code.block(f"if not {rows}:"):
            self._take_row((pl.Target(statement.variable),), "None", fields)
        with self._construct(statement.label, is_loop=True) as construct:
            code.line(f"{turned} = False")
            with code.block("try:"):
                with code.block(f"for {row} in {rows}:"):
                    code.line(f"{turned} = True")
                    self._tick()
                    self._take_row((pl.Target(statement.variable),), row, fields)
                    self._statements(statement.statements)
                code.line(f"{found} = {turned}")
            with code.block("finally:"):
                code.line(f"frame.end_cursor({name})")
        self._pass_on(construct)

    def _end_transaction(self, statement: pl.EndTransaction) -> None:
        self._code.line(f"frame.end_transaction({statement.undo}, {statement.chain})")


def local(variable: pl.Variable) -> str:
    """The name of a variable in Python."""
    return f"p{variable.number + 1}"


def _type_of(target: pl.Target) -> TypeRef:
    assert target.variable.type is not None
    return target.variable.type


_EMITTERS: dict[type, Callable[..., None]] = {
    pl.Block: BodyCompiler._block,
    pl.Assign: lambda self, statement: self._assign(statement.target, statement.value),
    pl.If: BodyCompiler._if,
    pl.Loop: BodyCompiler._loop,
    pl.ForInteger: BodyCompiler._for_integer,
    pl.ForQuery: BodyCompiler._for_query,
    pl.Exit: BodyCompiler._exit,
    pl.Return: BodyCompiler._return,
    pl.ReturnNext: BodyCompiler._return_next,
    pl.ReturnQuery: BodyCompiler._return_query,
    pl.Raise: BodyCompiler._raise,
    pl.Assert: BodyCompiler._assert,
    pl.RunSql: BodyCompiler._run_sql,
    pl.RunDynamic: BodyCompiler._run_dynamic,
    pl.GetDiagnostics: BodyCompiler._diagnostics,
    pl.Case: BodyCompiler._case,
    pl.Foreach: BodyCompiler._foreach,
    pl.EndTransaction: BodyCompiler._end_transaction,
    pl.OpenCursor: BodyCompiler._open,
    pl.Fetch: BodyCompiler._fetch,
    pl.CloseCursor: BodyCompiler._close,
    pl.ForCursor: BodyCompiler._for_cursor,
}
