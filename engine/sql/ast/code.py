"""Extensions, functions and procedures."""

from __future__ import annotations

from catalog.records import dataclass
from engine.sql.ast.base import Node, Statement
from engine.sql.ast.expressions import TypeName
from engine.sql.ast.queries import RangeVar
from engine.sql.ast.sessions import SetStmt


@dataclass(frozen=True, slots=True)
class ExtensionStmt(Node):
    """CREATE, DROP and ALTER EXTENSION. action: create | drop | schema | update. `names`: one, or several for DROP."""

    action: str
    names: tuple[str, ...]
    schema: str | None = None
    version: str | None = None
    if_exists: bool = False  # IF NOT EXISTS of CREATE
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class ChangeStreamStmt(Node):
    """CREATE, ALTER and DROP CHANGE STREAM. action: create | add | remove (ALTER ... ADD, DROP TABLE) | set | rename |
    owner | drop. `names`: one, or several for DROP. `tables` None: FOR ALL TABLES. `value`: the new name or owner."""

    action: str
    names: tuple[str, ...]
    tables: tuple[RangeVar, ...] | None = ()
    tablespace: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    value: str = ""
    if_exists: bool = False  # IF NOT EXISTS of CREATE


@dataclass(frozen=True, slots=True)
class FunctionParameter(Node):
    """mode: i in, o out, b inout, v variadic, t column of RETURNS TABLE."""

    name: str
    type: TypeName
    mode: str = "i"
    default: Node | None = None
    returns_set: bool = False  # SETOF, which no parameter may have


@dataclass(frozen=True, slots=True)
class FunctionOption(Node):
    """name: as language strict volatility security leakproof cost rows support parallel window set transform. For set:
    `setting`, which is None for SET `value` FROM CURRENT."""

    name: str
    value: str | bool
    more: tuple[str, ...] = ()
    literal: tuple[int, str] | None = None  # of a body: where its string begins, and the string as it is written
    setting: SetStmt | None = None


@dataclass(frozen=True, slots=True)
class CreateFunctionStmt(Node):
    """`body`: the statements of a body in SQL-standard form, with their texts; None if the body is a string (option
    `as`)."""

    kind: str  # function | procedure
    name: tuple[str, ...]
    parameters: tuple[FunctionParameter, ...]
    returns: FunctionParameter | None
    options: tuple[FunctionOption, ...]
    replace: bool
    body: tuple[Statement, ...] | None = None
    returns_expression: bool = False  # RETURN expression


@dataclass(frozen=True, slots=True)
class DefinitionItem(Node):
    """A parameter in the definition of an aggregate or a similar object. kind: none (without a value), string, number,
    operator, word (a reserved word) or type, which may also be the name of a function. `names`: its parts."""

    name: str
    kind: str
    text: str = ""
    names: tuple[str, ...] = ()
    type: TypeName | None = None
    returns_set: bool = False


@dataclass(frozen=True, slots=True)
class AggregateArguments(Node):
    """`direct`: the number of arguments before ORDER BY; -1 without it."""

    parameters: tuple[FunctionParameter, ...]
    direct: int = -1


@dataclass(frozen=True, slots=True)
class CreateAggregateStmt(Node):
    """`arguments` None: the old form, with a parameter basetype."""

    name: tuple[str, ...]
    arguments: AggregateArguments | None
    definition: tuple[DefinitionItem, ...]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class CreateOperatorStmt(Node):
    name: tuple[str, ...]
    definition: tuple[DefinitionItem, ...]


@dataclass(frozen=True, slots=True)
class OperatorSignature(Node):
    """An operator in DROP, ALTER or COMMENT; an operand without a type is missing (NONE)."""

    name: tuple[str, ...]
    left: TypeName | None
    right: TypeName | None


@dataclass(frozen=True, slots=True)
class DropOperatorStmt(Node):
    signatures: tuple[OperatorSignature, ...]
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class AlterOperatorStmt(Node):
    """action: owner | schema | comment | set. `value`: the new owner, schema or comment."""

    signature: OperatorSignature
    action: str
    value: str | None = None
    definition: tuple[DefinitionItem, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateCastStmt(Node):
    """`context` and `method` are as in pg_cast; `function` for method f."""

    source: TypeName
    target: TypeName
    method: str
    context: str
    function: FunctionSignature | None = None


@dataclass(frozen=True, slots=True)
class DropCastStmt(Node):
    source: TypeName
    target: TypeName
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class CommentOnCastStmt(Node):
    source: TypeName
    target: TypeName
    text: str | None


@dataclass(frozen=True, slots=True)
class FunctionSignature(Node):
    """A function in DROP, ALTER or COMMENT. `parameters` None: only its name was given."""

    name: tuple[str, ...]
    parameters: tuple[FunctionParameter, ...] | None = None


@dataclass(frozen=True, slots=True)
class DropFunctionStmt(Node):
    kind: str  # function | procedure | routine | aggregate
    signatures: tuple[FunctionSignature, ...]
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class AlterFunctionStmt(Node):
    """action: options | rename | owner | schema | comment. `value`: the new name, owner, schema or comment."""

    kind: str
    signature: FunctionSignature
    action: str
    value: str | None = None
    options: tuple[FunctionOption, ...] = ()


@dataclass(frozen=True, slots=True)
class DropFromTableStmt(Node):
    """DROP TRIGGER, RULE, POLICY."""

    kind: str
    name: str
    relation: RangeVar
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class CreateTriggerStmt(Node):
    """CREATE [OR REPLACE] [CONSTRAINT] TRIGGER. `timing`: before after instead. `events`: of insert update delete
    truncate. `transitions`: (is new, is table, name) of REFERENCING."""

    name: str
    timing: str
    events: tuple[str, ...]
    columns: tuple[str, ...]
    relation: RangeVar
    for_row: bool
    function: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    condition: Node | None = None
    transitions: tuple[tuple[bool, bool, str], ...] = ()
    replace: bool = False
    constraint: bool = False
    references: RangeVar | None = None
    deferrable: bool = False
    initially_deferred: bool = False


@dataclass(frozen=True, slots=True)
class CreateEventTriggerStmt(Node):
    """`filters`: (variable, values) of WHEN."""

    name: str
    event: str
    filters: tuple[tuple[str, tuple[str, ...]], ...]
    function: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AlterEventTriggerStmt(Node):
    """action: enable | rename | owner. `value`: as in evtenabled, the new name or owner."""

    name: str
    action: str
    value: str


@dataclass(frozen=True, slots=True)
class CreateRuleStmt(Node):
    """CREATE [OR REPLACE] RULE; event: select insert update delete. `actions` () is NOTHING."""

    name: str
    event: str
    relation: RangeVar
    condition: Node | None
    instead: bool
    actions: tuple[Node, ...]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class CreatePolicyStmt(Node):
    """CREATE POLICY; `command`: all, select, insert, update or delete; `roles` () is PUBLIC."""

    name: str
    relation: RangeVar
    permissive: bool = True
    command: str = "all"
    roles: tuple[str, ...] = ()
    using: Node | None = None
    check: Node | None = None


@dataclass(frozen=True, slots=True)
class AlterPolicyStmt(Node):
    """ALTER POLICY. `roles` None, `using` None and `check` None leave theirs unchanged."""

    name: str
    relation: RangeVar
    roles: tuple[str, ...] | None = None
    using: Node | None = None
    check: Node | None = None


@dataclass(frozen=True, slots=True)
class CallStmt(Node):
    """CALL, or a SELECT with only a function call. `call`: the call as an expression."""

    call: Node


@dataclass(frozen=True, slots=True)
class CreateTextSearchStmt(Node):
    """CREATE TEXT SEARCH kind name (definition). kind: configuration, dictionary, parser, template."""

    kind: str
    name: tuple[str, ...]
    definition: tuple[DefinitionItem, ...]


@dataclass(frozen=True, slots=True)
class AlterTextSearchStmt(Node):
    """ALTER TEXT SEARCH kind name. action: rename, owner, schema (with a value); of a dictionary: options, with a
    definition; of a configuration: add, alter, replace, drop mapping. `tokens`: names of types of tokens."""

    kind: str
    name: tuple[str, ...]
    action: str
    value: str = ""
    definition: tuple[DefinitionItem, ...] = ()
    tokens: tuple[str, ...] = ()
    dictionaries: tuple[tuple[str, ...], ...] = ()
    if_exists: bool = False
