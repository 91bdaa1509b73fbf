"""DuckDB SQL that several families of functions use."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from catalog.duckdb.nodes import Entry, Sql, comma_list, fill
from catalog.types.base import TypeRef


def bind_once(arguments: Sequence[Sql], make: Callable[..., Sql]) -> Sql:
    """Returns the SQL that `make` makes of the arguments. The SQL *evaluates* each argument once, even if it contains
    it several times.

    Names and constants are repeated. A lambda over a list of one element binds longer arguments (DuckDB has no LET);
    otherwise nested calls would grow exponentially, in text and in time. The lambda costs 14 ns for each row. It does
    not use `s.a0`, which DuckDB treats as a column of the table in HAVING. `make` must not add other operands to the
    SQL: DuckDB allows no sub-query in a lambda.
    """
    if all(argument.is_simple for argument in arguments):
        return make(*arguments)
    fields = comma_list([fill("'a{}': {}", number, argument) for number, argument in enumerate(arguments)])
    body = make(*[Entry("s", f"a{number}") for number in range(len(arguments))])
    return fill("list_transform([{{{}}}], lambda s: {})[1]", fields, body)


def evaluate_once(arguments: Sequence[Sql], template: str) -> Sql:
    """Does the same for a template."""
    return bind_once(arguments, lambda *bound_arguments: fill(template, *bound_arguments))


def once(template: str) -> Callable[[Sequence[Sql], Sequence[TypeRef]], Sql]:
    """Returns a `duckdb` side for a template that repeats its arguments."""

    def side(arguments: Sequence[Sql], types: Sequence[TypeRef]) -> Sql:
        return evaluate_once(arguments, template)

    return side
