"""Expressions, types as written, windows, and sub-queries inside expressions."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from catalog.records import dataclass
from engine.sql.ast.base import Node

if TYPE_CHECKING:
    from engine.sql.ast.queries import SelectStmt


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """kind: 'integer' (fits int4 or int8), 'float' (any other number), 'string', 'bit', 'hexbit', 'boolean', 'null'.

    `value` is the text for numbers, strings (escapes already resolved) and bits; a bool for 'boolean'; None for 'null'.
    """

    kind: str
    value: str | bool | None


@dataclass(frozen=True, slots=True)
class ParamRef(Node):
    number: int  # $1 is 1


@dataclass(frozen=True, slots=True)
class ColumnRef(Node):
    """a, t.a, s.t.a, t.* (the last part is '*')."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TypeName(Node):
    """names: ('int4',), ('pg_catalog', 'varchar'), with SQL's names replaced by PostgreSQL's ('integer' by int4).

    modifiers: the expressions in parentheses, as text. array_dimensions: the number of [] pairs. setof: for functions.
    The parser encodes the fields ('YEAR TO MONTH') and precision of an interval as modifiers, as in PostgreSQL's
    grammar.
    """

    names: tuple[str, ...]
    modifiers: tuple[str, ...] = ()
    array_dimensions: int = 0
    percent_type: bool = False


@dataclass(frozen=True, slots=True)
class TypeCast(Node):
    argument: Node
    type: TypeName


@dataclass(frozen=True, slots=True)
class CollateClause(Node):
    argument: Node
    collation: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Expression(Node):
    """A_Expr. kind: 'op' | 'op_any' | 'op_all' | 'distinct' | 'not_distinct' | 'nullif' | 'in' | 'not_in' | 'like' |
    'not_like' | 'ilike' | 'not_ilike' | 'similar' | 'not_similar' | 'between' | 'not_between' | 'between_sym' |
    'not_between_sym'.

    operator: its name parts, ('+',) or ('pg_catalog', '~'). left is None for a prefix operator. For in: right is a
    tuple of nodes in ListExpr, or IntegerList. For between: right is a ListExpr of two. For like/similar with ESCAPE:
    right is a FuncCall like_escape(pattern, escape) / similar_to_escape(...), as in PostgreSQL.
    """

    kind: str
    operator: tuple[str, ...]
    left: Node | None
    right: Node | None


@dataclass(frozen=True, slots=True)
class ListExpr(Node):
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class IntegerList(Node):
    """A long IN list with only integers that fit int8: its text, including commas and white space, and its `numbers`
    (int64). `location`: the first number."""

    text: str
    numbers: np.ndarray[Any, np.dtype[np.int64]] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BoolExpr(Node):
    operator: str  # and | or | not
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class NullTest(Node):
    argument: Node
    is_null: bool


@dataclass(frozen=True, slots=True)
class BooleanTest(Node):
    argument: Node
    test: str  # is_true is_not_true is_false is_not_false is_unknown is_not_unknown


@dataclass(frozen=True, slots=True)
class SortBy(Node):
    expression: Node
    direction: str = "default"  # default asc desc using
    nulls: str = "default"  # default first last
    using: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowDef(Node):
    """frame_mode: '' (default frame) rows range groups. Bounds: ('unbounded_preceding'|'preceding'|'current_row'|
    'following'|'unbounded_following', offset expression or None). exclude: '' current_row group ties."""

    name: str | None = None  # the name it defines in WINDOW, or refers to in OVER name
    refname: str | None = None  # OVER (name ...)
    partition_by: tuple[Node, ...] = ()
    order_by: tuple[SortBy, ...] = ()
    frame_mode: str = ""
    frame_start: tuple[str, Node | None] = ("unbounded_preceding", None)
    frame_end: tuple[str, Node | None] = ("current_row", None)
    exclude: str = ""


@dataclass(frozen=True, slots=True)
class FuncCall(Node):
    """A function call. Calls with a syntax of their own in SQL have PostgreSQL's function name and the argument order
    of pg_proc, with `sql_syntax` True: extract('year', x), position(sub in), substring, overlay, btrim/ltrim/rtrim,
    timezone (AT TIME ZONE), xmlconcat, ... coalesce, greatest, least and nullif have other nodes."""

    names: tuple[str, ...]
    arguments: tuple[Node, ...] = ()
    argument_names: tuple[str | None, ...] = ()  # name => value; () when none is named
    star: bool = False
    distinct: bool = False
    order_by: tuple[SortBy, ...] = ()
    filter: Node | None = None
    within_group: bool = False
    variadic: bool = False
    over: WindowDef | None = None
    sql_syntax: bool = False


@dataclass(frozen=True, slots=True)
class SqlValueFunction(Node):
    """current_date current_time current_timestamp localtime localtimestamp current_user session_user user current_role
    current_catalog current_schema, with their precision, if any."""

    name: str
    precision: int | None = None


@dataclass(frozen=True, slots=True)
class CoalesceExpr(Node):
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MinMaxExpr(Node):
    operator: str  # greatest | least
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class CaseWhen(Node):
    condition: Node
    result: Node


@dataclass(frozen=True, slots=True)
class CaseExpr(Node):
    argument: Node | None
    whens: tuple[CaseWhen, ...]
    default: Node | None


@dataclass(frozen=True, slots=True)
class SubLink(Node):
    """kind: exists | any | all | expr | array. any/all: `test` operator `operator` over `query` (IN is any with
    '=')."""

    kind: str
    query: SelectStmt
    test: Node | None = None
    operator: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ArrayExpr(Node):
    elements: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class RowExpr(Node):
    elements: tuple[Node, ...]
    explicit: bool = False  # ROW(...), not (a, b)


@dataclass(frozen=True, slots=True)
class Subscript(Node):
    """lower is None for x[i]; is_slice for x[a:b] where either may be missing."""

    is_slice: bool
    lower: Node | None
    upper: Node | None


@dataclass(frozen=True, slots=True)
class Indirection(Node):
    """argument followed by subscripts, .field names (str) or '*'."""

    argument: Node
    steps: tuple[Subscript | str, ...]


@dataclass(frozen=True, slots=True)
class GroupingFunc(Node):
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class SetToDefault(Node):
    """DEFAULT as a value in INSERT or UPDATE."""
