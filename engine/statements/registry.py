"""The kinds of statements: the properties of each, in one row (kinds.py has the table).

Nothing is imported here, so that planning, running and routing can find a kind without its module.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catalog.errors import SqlError, not_supported
from engine.sql import ast
from engine.statements.needs import Needs

if TYPE_CHECKING:
    from engine.ddl.context import DdlContext
    from engine.execute.context import Field
    from engine.session.answer import Sink
    from engine.session.plan import Answer
    from engine.session.portal import Portal
    from engine.session.prepared import Prepared
    from engine.session.session import Session

Handler = Callable[["Session", Any, "Portal", "Sink"], Awaitable[None]]
SchemaChange = Callable[["DdlContext", Any], str]
Planner = Callable[["Session", ast.Statement, Sequence[int], int], "Prepared | None"]


@dataclass(frozen=True, slots=True)
class StatementKind:
    """A kind of statement. Queries and changes of rows are planned (planning.py), and have no `run`.

    `run` executes it: (session, tree, portal, sink); it calls `sink.complete`. `change`: a schema change, from
    engine/ddl. `fields` returns the columns of its rows, None if it returns none; `formats` the formats of its results
    in a simple query, None for text. Properties that depend on the tree are functions of it.
    """

    node: type[ast.Node]
    run: Handler | None = None
    change: SchemaChange | None = None
    fields: Callable[[Session, Any], tuple[Field, ...] | None] | None = None
    formats: Callable[[Session, Any], tuple[int, ...] | None] | None = None
    command: str | Callable[[Any], str] = "DDL"
    """The command tag of a schema change, known before it runs."""
    fires: bool | Callable[[Any], bool] = False
    """Whether event triggers fire."""
    outside_blocks: Callable[[Any], str | None] | None = None
    """Returns the name of a statement that a transaction block refuses; None: it is allowed there."""
    has_snapshot: bool = True
    """Whether PostgreSQL runs it with a snapshot (PlannedStmtRequiresSnapshot of pquery.c). After a statement without
    one, the modes of the transaction can still be set."""
    answer: Callable[[Session, Prepared], Answer] | None = None
    """Runs a statement that waits for locks only, and returns its answer at once."""
    is_counted: bool = True
    """Whether it is counted itself, not only what it runs, as in pg_stat_statements."""
    needs: Needs | Callable[[Any], Needs] = Needs.LEADER
    """The needs of the statement that its node must meet."""
    tells_all: bool | Callable[[Any], bool] = False
    """Whether its text names the relations that it concerns. What needs nothing concerns none."""
    changes_schema: bool = False
    """Whether it changes the schema of relations that its text names."""
    makes_table: bool = False


_KINDS: dict[type[ast.Node], StatementKind] = {}
_PLANNERS: list[Planner] = []


def register(kinds: Iterable[StatementKind], planners: Iterable[Planner]) -> None:
    """Registers kinds. `planners` are asked first for the plan of a statement, with its parameters' types and its
    number of lifted literals; they return None for statements that they do not plan."""
    _KINDS.update((kind.node, kind) for kind in kinds)
    _PLANNERS.extend(planners)


def registered_kinds() -> Iterable[StatementKind]:
    return _KINDS.values()


def refuse_in_block(session: Session, tree: ast.Node) -> None:
    """In a transaction block or a function, raises 25001 for a statement that they refuse."""
    kind = find(tree)
    if session.has_block and kind is not None and kind.outside_blocks is not None:
        what = kind.outside_blocks(tree)
        if what is not None:
            raise in_block_error(session, what)


def in_block_error(session: Session, what: str) -> SqlError:
    """The error of a statement that must be a transaction of its own."""
    transaction = session.transaction
    is_in_block = session.in_block or (transaction is not None and transaction.savepoints)
    where = "run inside a transaction block" if is_in_block else "be executed from a function"
    return SqlError("25001", f"{what} cannot {where}")


def find(tree: ast.Node) -> StatementKind | None:
    """The kind of a statement; None if it has none."""
    return _KINDS.get(type(tree))


def kind_of(tree: ast.Node) -> StatementKind:
    """The kind of a statement. Raises 0A000 if the statement is not supported."""
    found = _KINDS.get(type(tree))
    if found is None:
        not_supported(tree.what if isinstance(tree, ast.RefusedStmt) else type(tree).__name__)
    return found


def planners() -> Sequence[Planner]:
    return _PLANNERS
