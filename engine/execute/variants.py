"""Plans whose access paths depend on the values of parameters.

    SELECT * FROM jobs WHERE state = $1 AND queue = $2
    an index on jobs (queue) WHERE state = 'open'

The literals of a text are parameters, so that texts which differ in them share a plan. An index with a condition or an
expression over constants answers for some of their values only. So such a plan has variants: the first one uses the
index, and is right if $1 is 'open'. For other values another variant is compiled, without that index. Each execution
compares the parameters with the constants of the variant's indexes (`hold` in engine/sql/implication.py). A plan
without such indexes has one function and no comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from engine.execute.access import Access, number_of
from engine.execute.code import Code, NotOnRowPath
from engine.execute.context import ExecContext, RowPathFull
from engine.sql.implication import Provided, hold

Run = Callable[[ExecContext, Sequence[object]], tuple[Any, int]]
Variant = tuple[Run, Mapping[int, Provided]]
Compile = Callable[[frozenset[int]], Variant]
"""From the indexes (OIDs) that it may not use to a function, and the conditions on parameters of those that it uses."""

Path = TypeVar("Path")
NONE: frozenset[int] = frozenset()


def note_provided(code: Code, path: Path) -> Path:
    """The code, which uses this path, is for parameters for which it finds all rows. Returns the path."""
    if isinstance(path, Access) and path.provided:
        number = number_of(path.index)
        code.provided[number] = (*code.provided.get(number, ()), *path.provided)
    return path


def by_parameters(compile_without: Compile) -> Run:
    """The function of a plan: the first variant, or what chooses among them."""
    first = compile_without(NONE)
    if not first[1]:
        return first[0]
    variants = {NONE: first}

    def run(context: ExecContext, parameters: Sequence[object]) -> tuple[Any, int]:
        without, (function, provided) = NONE, first
        while excluded := [oid for oid, conditions in provided.items() if not hold(conditions, parameters)]:
            without = without.union(excluded)
            known = variants.get(without)
            if known is None:
                try:
                    known = variants[without] = compile_without(without)
                except NotOnRowPath:  # its source is longer
                    raise RowPathFull from None
            function, provided = known
        return function(context, parameters)

    return run
