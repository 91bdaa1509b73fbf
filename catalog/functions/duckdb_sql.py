"""Pieces of DuckDB SQL that several families of functions share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catalog.duckdb.nodes import Entry, Sql, comma_list, fill
from catalog.types.base import TypeRef


def bind_once(arguments: Sequence[Sql], make: Callable[..., Sql]) -> Sql:
    """What `make` makes of arguments, each *evaluated* once even if it stands there several times.

    Names and constants are simply repeated. Anything longer is bound by a lambda over a one-element list (DuckDB has no
    LET): nesting would otherwise make the text, and the work, grow exponentially. Measured: 14 ns a row more. Not
    `s.a0`: in HAVING DuckDB takes that for a column of the table.
    """
    if all(argument.is_simple for argument in arguments):
        return make(*arguments)
    fields = comma_list([fill("'a{}': {}", number, argument) for number, argument in enumerate(arguments)])
    body = make(*[Entry("s", f"a{number}") for number in range(len(arguments))])
    return fill("list_transform([{{{}}}], lambda s: {})[1]", fields, body)


def evaluate_once(arguments: Sequence[Sql], template: str) -> Sql:
    """The same of a template."""
    return bind_once(arguments, lambda *bound_arguments: fill(template, *bound_arguments))


def once(template: str) -> Callable[[Sequence[Sql], Sequence[TypeRef]], Sql]:
    """A `duckdb` side from a template that repeats its arguments."""

    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql:
        return evaluate_once(arguments, template)

    return side
