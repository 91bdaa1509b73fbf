"""A compiled body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType

from catalog.types.base import TypeRef
from engine.sql.plpgsql import tree as pl
from engine.statements.plpgsql.errors import TextContext


@dataclass(slots=True)
class Program:
    """A compiled body. `run(frame, context, arguments)` returns the result. `places`: for lines of its Python source,
    from which on they belong to a line of the body and a kind of statement. `texts`: the SQL that it runs or evaluates
    by its number. `contexts`: for their errors; `records`: which they may use; `named`: the record that is the whole
    text. `print_strict`: whether errors of INTO STRICT show the parameters. `shown`: the function as errors call it.
    `is_apart`: it runs and reads nothing, by statements or other functions. `asks_context`: its source needs the
    context."""

    run: Callable[..., object]
    conflict: str
    columns: Sequence[TypeRef]
    places: Sequence[tuple[int, int, str]]
    texts: Sequence[pl.Fragment]
    contexts: Sequence[TextContext]
    records: Sequence[Sequence[pl.Variable]]
    named: Sequence[pl.Variable | None]
    print_strict: bool
    shown: str
    is_volatile: bool = True
    is_apart: bool = False
    asks_context: bool = True

    @property
    def code(self) -> CodeType:
        """By which its frames are known in a traceback."""
        return self.run.__code__
