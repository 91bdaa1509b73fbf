"""What is known of a function is said where it is implemented: no list of functions by name in the engine."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from catalog.functions import registry
from catalog.functions.base import Trait
from tests.tidy.sources import modules, nodes

OTHER_THINGS = {
    ("count", "max", "min"): "what the columnar path makes of aggregates over floats",
    ("avg", "count", "max", "min", "sum"): "what the columnar path makes of aggregates over scaled numerics",
    ("max", "min"): "the same",
    ("int2_numeric", "int4_numeric", "int8_numeric"): "casts that the columnar path makes of DECIMAL",
    ("numeric_abs", "numeric_add", "numeric_mul", "numeric_sub", "numeric_uminus"): "scales of numerics there",
    ("float4", "float8", "int2", "int4", "int8", "round", "trunc"): "the same",
    ("now", "statement_timestamp"): "times that are parameters of a columnar query",
    ("cume_dist", "dense_rank", "percent_rank", "rank"): "hypothetical rows there",
    ("generate_series_int4", "generate_series_int8", "generate_series_step_int4", "generate_series_step_int8"):
        "series that DuckDB makes",
    ("int28", "int48"): "casts around a LIMIT",
    ("left", "right"): "sides of a join",
    ("bernoulli", "system"): "methods of TABLESAMPLE",
    ("btrim", "ltrim", "rtrim"): "TRIM(BOTH | LEADING | TRAILING ...) in SQL's own syntax",
    ("time", "timestamp"): "names of types",
}  # fmt: skip
"""Collections of words that are names of functions too, and what they are."""


def known_names() -> frozenset[str]:
    of_extensions = [oid for oids in registry.extension_functions().values() for oid in oids]
    functions = [registry.function(oid) for oid in (*registry.function_oids(), *of_extensions)]
    return frozenset(name for item in functions for name in (item.name, item.source))


def collections(tree: ast.Module) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line, sorted words) of tuples, sets, lists and dictionaries' keys that are nothing but strings."""
    for node in nodes(tree):
        if isinstance(node, ast.Tuple | ast.Set | ast.List):
            items = list(node.elts)
        elif isinstance(node, ast.Dict):
            items = [key for key in node.keys if key is not None]
        else:
            continue
        words = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        if len(words) == len(items) > 1:
            yield node.lineno, tuple(sorted(words))


def lists_of_functions(tree: ast.Module, names: frozenset[str]) -> Iterator[int]:
    """The lines of collections whose words are, but for a few, names or sources of functions."""
    for line, words in collections(tree):
        found = sum(word in names for word in words)
        if found > 1 and found >= 0.8 * len(words) and words not in OTHER_THINGS:
            yield line


def test_no_list_of_functions_in_the_engine() -> None:
    names = known_names()
    found = [f"{path}:{line}" for path, tree in modules("engine") for line in lists_of_functions(tree, names)]
    assert not found


def test_what_is_listed_as_other_is_there() -> None:
    present = {words for _, tree in modules("engine") for _, words in collections(tree)}
    assert OTHER_THINGS.keys() <= present


@pytest.mark.parametrize("trait", list(Trait), ids=lambda trait: trait.name)
def test_traits_are_of_functions_that_exist(trait: Trait) -> None:
    """A name that no function has would be a trait that nobody has."""
    found = registry.sources_with(trait)
    assert found
    assert {source.removeprefix("ascii_") for source in found} <= known_names()


def test_another_list_is_noticed() -> None:
    source = "_SLOW = frozenset(('regexp_match', 'regexp_matches', 'to_tsvector', 'new_one', 'ts_headline', 'repeat'))"
    assert list(lists_of_functions(ast.parse(source), known_names())) == [1]
