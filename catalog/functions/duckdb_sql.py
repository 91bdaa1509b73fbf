"""Pieces of DuckDB SQL that several families of functions share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from catalog.types.base import TypeRef

_SIMPLE = re.compile(
    r"""[\w.$"]+|\w+\['\w+'\]|-?[\d.]+|\(?-?[\d.]+(::\w+)?\)?|CAST\(-?[\d.']+ AS \w+\)|'[^']*'(::\w+)?"""
)


def evaluate_once(arguments: Sequence[str], template: str) -> str:
    """The template with arguments put in, each *evaluated* once even if the template names it several times.

    Names and constants are simply repeated. Anything longer is bound by a lambda over a one-element list (DuckDB has no
    LET): nesting would otherwise make the text, and the work, grow exponentially. Measured: 14 ns a row more. Not
    `s.a0`: in HAVING DuckDB takes that for a column of the table.
    """
    if all(_SIMPLE.fullmatch(argument) for argument in arguments):
        return template.format(*arguments)
    fields = ", ".join(f"'a{number}': {argument}" for number, argument in enumerate(arguments))
    body = template.format(*(f"s['a{number}']" for number in range(len(arguments))))
    return f"list_transform([{{{fields}}}], lambda s: {body})[1]"


def once(template: str) -> Callable[[Sequence[str], Sequence[TypeRef]], str]:
    """A `duckdb` side from a template that repeats its arguments."""

    def side(arguments: Sequence[str], types: Sequence[TypeRef]) -> str:
        return evaluate_once(arguments, template)

    return side
