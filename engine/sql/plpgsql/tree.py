"""The parse tree of a body in PL/pgSQL (PostgreSQL 16 manual, chapter 43).

Names are resolved while the text is parsed, as PostgreSQL does: whether `x := 1` is an assignment, and which of the
words behind INTO are variables, depends on what has been declared. So a statement refers to `Variable`s, and a
`Fragment` of SQL carries the `VariableScope` in which its names are looked up when it is analysed.

`line` counts lines of the body from 1; errors at run time name it.
"""

from __future__ import annotations

from catalog.records import dataclass
from catalog.types.base import TypeRef
from engine.sql import ast
from engine.sql.plpgsql.scope import VariableScope


@dataclass(frozen=True, slots=True)
class Fragment:
    """An SQL expression or statement in a body. `text`: an expression as it is written, without SELECT; a statement
    with blanks in place of its INTO clause. `offset`: of the text in the body, in characters. `tree`: an expression is
    the SELECT that computes it. `kind`, `target`: what it is called in the context of errors, and what is before the
    text there. `before`: the characters before the text in what the tree was read from."""

    text: str
    offset: int
    tree: ast.Node
    scope: VariableScope
    kind: str = "SQL expression"
    target: str = ""
    before: int = 0

    @property
    def query(self) -> str:
        """The text as errors show it."""
        return self.target + self.text


Shape = tuple[tuple[str, TypeRef], ...]
"""The names and types of the fields of a row."""


# ---- variables ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CursorQuery:
    """The query of a bound cursor. `parameters`: its arguments, which are variables of the query's scope. `scroll`:
    None where nothing is said."""

    query: Fragment
    parameters: tuple[Variable, ...] = ()
    scroll: bool | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable, an argument, or one that PL/pgSQL makes (found, sqlstate, sqlerrm, tg_op, ...).

    `number` identifies it in its function. `type` is None for RECORD, whose fields are those of the value that it has.
    `is_record`: it has fields (RECORD, a row or composite type). `shape`: the fields of a table's row, which a record
    of %ROWTYPE always has. `made`: what PL/pgSQL keeps in it.
    """

    number: int
    name: str
    type: TypeRef | None
    line: int = 0
    is_record: bool = False
    shape: Shape | None = None
    constant: bool = False
    not_null: bool = False
    default: Fragment | None = None
    cursor: CursorQuery | None = None
    made: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a value goes: a variable, or a part of one. `steps`: names of fields and subscripts."""

    variable: Variable
    steps: tuple[ast.Subscript | str, ...] = ()


# ---- statements -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PlStatement:
    """What every statement has."""

    line: int


Statements = tuple[PlStatement, ...]


@dataclass(frozen=True, slots=True)
class Handler:
    """WHEN conditions THEN statements. `conditions`: SQLSTATEs; '00000' for OTHERS; a class ends in 000."""

    conditions: tuple[str, ...]
    statements: Statements
    line: int


@dataclass(frozen=True, slots=True)
class Block(PlStatement):
    """[DECLARE] BEGIN ... EXCEPTION ... END. `variables`: those that it declares, in their order. `errors`: sqlstate
    and sqlerrm of its handlers."""

    label: str
    variables: tuple[Variable, ...]
    statements: Statements
    handlers: tuple[Handler, ...] = ()
    errors: tuple[Variable, ...] = ()


@dataclass(frozen=True, slots=True)
class Assign(PlStatement):
    """target := value"""

    target: Target
    value: Fragment


@dataclass(frozen=True, slots=True)
class If(PlStatement):
    """IF ... THEN ... ELSIF ... ELSE. `branches`: conditions with their statements."""

    branches: tuple[tuple[Fragment, Statements], ...]
    otherwise: Statements


@dataclass(frozen=True, slots=True)
class Case(PlStatement):
    """CASE operand WHEN values THEN ..., or without an operand CASE WHEN condition THEN .... `otherwise` None: without
    ELSE, no match is 20000. `operand` is the field of the record `variable`, and each WHEN is a condition over that."""

    operand: Fragment | None
    variable: Variable | None
    branches: tuple[tuple[Fragment, Statements], ...]
    otherwise: Statements | None


@dataclass(frozen=True, slots=True)
class Loop(PlStatement):
    """LOOP ... END LOOP, and WHILE condition LOOP."""

    label: str
    condition: Fragment | None
    statements: Statements


@dataclass(frozen=True, slots=True)
class ForInteger(PlStatement):
    """FOR variable IN [REVERSE] low .. high [BY step] LOOP"""

    label: str
    variable: Variable
    low: Fragment
    high: Fragment
    step: Fragment | None
    reverse: bool
    statements: Statements


@dataclass(frozen=True, slots=True)
class ForQuery(PlStatement):
    """FOR target IN query LOOP; `dynamic`: IN EXECUTE text USING values."""

    label: str
    into: tuple[Target, ...]
    query: Fragment
    dynamic: bool
    using: tuple[Fragment, ...]
    statements: Statements


@dataclass(frozen=True, slots=True)
class ForCursor(PlStatement):
    """FOR record IN cursor(arguments) LOOP"""

    label: str
    variable: Variable
    cursor: Variable
    arguments: tuple[Fragment, ...]
    statements: Statements


@dataclass(frozen=True, slots=True)
class Foreach(PlStatement):
    """FOREACH target [SLICE n] IN ARRAY value LOOP"""

    label: str
    into: tuple[Target, ...]
    slice: int
    value: Fragment
    statements: Statements


@dataclass(frozen=True, slots=True)
class Exit(PlStatement):
    """EXIT, or CONTINUE (`again`), of a loop or block."""

    again: bool
    label: str
    condition: Fragment | None


@dataclass(frozen=True, slots=True)
class Return(PlStatement):
    """RETURN [value]"""

    value: Fragment | None


@dataclass(frozen=True, slots=True)
class ReturnNext(PlStatement):
    """RETURN NEXT [value]"""

    value: Fragment | None


@dataclass(frozen=True, slots=True)
class ReturnQuery(PlStatement):
    """RETURN QUERY query; `dynamic`: RETURN QUERY EXECUTE text USING values."""

    query: Fragment
    dynamic: bool
    using: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class Raise(PlStatement):
    """RAISE. `level`: debug log info notice warning exception. `condition`: a name or SQLSTATE as it is written.
    `message`: the format, with `values`; None without one. Nothing at all: the error is raised again."""

    level: str
    condition: str
    message: str | None
    values: tuple[Fragment, ...]
    options: tuple[tuple[str, Fragment], ...]

    @property
    def again(self) -> bool:
        return not self.condition and self.message is None and not self.options


@dataclass(frozen=True, slots=True)
class Assert(PlStatement):
    """ASSERT condition [, message]"""

    condition: Fragment
    message: Fragment | None


@dataclass(frozen=True, slots=True)
class RunSql(PlStatement):
    """An SQL statement. `into`: where its row goes; `strict`: it must be exactly one. `perform`: its result is dropped
    (PERFORM)."""

    sql: Fragment
    into: tuple[Target, ...] = ()
    strict: bool = False
    perform: bool = False


@dataclass(frozen=True, slots=True)
class RunDynamic(PlStatement):
    """EXECUTE text [INTO [STRICT] target] [USING values]"""

    text: Fragment
    into: tuple[Target, ...]
    strict: bool
    using: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class GetDiagnostics(PlStatement):
    """GET [CURRENT | STACKED] DIAGNOSTICS target = item, ..."""

    stacked: bool
    items: tuple[tuple[Target, str], ...]


@dataclass(frozen=True, slots=True)
class OpenCursor(PlStatement):
    """OPEN cursor. `query`: of an unbound one, as SQL or (`dynamic`) a text; `arguments`: of a bound one, in the order
    of its parameters."""

    cursor: Variable
    query: Fragment | None
    dynamic: bool
    using: tuple[Fragment, ...]
    arguments: tuple[Fragment, ...]
    scroll: bool | None


@dataclass(frozen=True, slots=True)
class Fetch(PlStatement):
    """FETCH [direction] cursor INTO target, and MOVE (`into` is empty). `direction`: next prior first last absolute
    relative forward backward. `count`: None is 1; `every`: ALL."""

    cursor: Variable
    direction: str
    count: Fragment | None
    every: bool
    into: tuple[Target, ...]
    move: bool


@dataclass(frozen=True, slots=True)
class CloseCursor(PlStatement):
    """CLOSE cursor"""

    cursor: Variable


@dataclass(frozen=True, slots=True)
class EndTransaction(PlStatement):
    """COMMIT or ROLLBACK (`undo`) [AND CHAIN]"""

    undo: bool
    chain: bool


@dataclass(frozen=True, slots=True)
class Nothing(PlStatement):
    """NULL"""


@dataclass(frozen=True, slots=True)
class Body:
    """A whole function. `arguments`: $1, $2, ...; `variables`: all of them by number; `conflict`: error | use_variable
    | use_column (#variable_conflict), '' for the setting's. `found`: the variable of this name."""

    block: Block
    arguments: tuple[Variable, ...]
    outputs: tuple[Variable, ...]
    variables: tuple[Variable, ...]
    found: Variable
    conflict: str = ""
    print_strict: bool | None = None
