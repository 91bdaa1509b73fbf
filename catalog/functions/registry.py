"""Finds functions, operators, casts and aggregates by name or OID, and implementations by source.

The declarations are PostgreSQL's own catalogs in COPY text form (catalog/data). To keep the start of a server fast, a
file is only split into lines and indexed by name and OID, in a few milliseconds; a line becomes a dataclass at its
first use.

Implementations are keyed by `Function.source`:

    internal functions   prosrc: 'int4pl', 'textlen', 'dtrunc'
    SQL-language ones    their name, for any number of arguments: 'lpad', 'age', 'overlaps'. One implementation is for
                         all functions of this name, so `python` must accept every declared number of arguments
    aggregates           name(types of the arguments, typname): 'sum(int4)', 'count()', 'corr(float8,float8)'
    window functions     prosrc: 'window_row_number'

The functions of extensions are declared in the same form (catalog/data/extensions). They are found by OID in every
database, and by name only if the database has the extension (catalog/extensions.py). Their implementations are always
registered.

To add functions, add a module to this package: every module is imported when an implementation is first needed, and
registers its functions by `implement`. `declare` declares functions that PostgreSQL does not have, with OIDs 9000 to
9999. The same module declares other properties of a function (`Trait`: whether it may fail, runs on the leader, ...),
by `traits` or `mark`; there are no lists of functions elsewhere.
"""

from __future__ import annotations

import functools
import importlib
import pathlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from catalog.duckdb.nodes import Sql
from catalog.functions.base import Aggregate, AggregateSteps, Cast, DuckSide, Function, Implementation, Operator, Trait
from catalog.types import oids
from catalog.types.base import TypeRef

_DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
_LANGUAGE_SQL = "14"
ONE_ROW = frozenset(
    ("pg_identify_object", "pg_identify_object_as_address", "pg_get_object_address", "pg_sequence_parameters")
)
"""Functions with several OUT arguments: here they return a set of one row."""
OWN_OIDS = range(9000, 10000)
CIDR_TO_INET = 9904  # the OID of the function of a cast that has no function in PostgreSQL

_implementations: dict[str, Implementation] = {}
_comparisons: dict[str, str] = {}
_traits: dict[Trait, set[str]] = {trait: set() for trait in Trait}
_own_functions: dict[int, Function] = {}
_inner: set[int] = set()  # functions that SQL text cannot name


# ---- declarations ---------------------------------------------------------------------------------------------------


class _Rows:
    """The lines of one catalog file, by OID (the first field) and by name (the second field)."""

    def __init__(self, name: str) -> None:
        self.by_oid: dict[int, str] = {}
        self.by_name: dict[str, list[int]] = {}
        for line in (_DATA / f"{name}.tsv").read_text(encoding="utf-8").split("\n")[1:]:
            if line:
                key, second, _ = line.split("\t", 2)
                oid = int(key)
                self.by_oid[oid] = line
                self.by_name.setdefault(second, []).append(oid)


_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _fields(line: str) -> list[str | None]:
    """Returns the fields of a line of COPY text: None for NULL (PostgreSQL 16 manual, COPY, Text Format)."""
    if "\\" not in line:
        return list(line.split("\t"))
    return [
        None if item == "\\N" else re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), item)
        for item in line.split("\t")
    ]


@functools.cache
def _rows(name: str) -> _Rows:
    return _Rows(name)


def _procedures() -> _Rows:
    return _rows("pg_proc")


def _operators() -> _Rows:
    return _rows("pg_operator")


def _line(name: str, oid: int) -> str | None:
    """Returns the line of an OID, from the built-in declarations or those of extensions; None if there is none."""
    return _rows(name).by_oid.get(oid) or _rows(f"extensions/{name}").by_oid.get(oid)


@functools.cache
def _type_names() -> dict[int, str]:
    files = (_rows("pg_type"), _rows("extensions/pg_type"))
    return {oid: line.split("\t", 2)[1] for rows in files for oid, line in rows.by_oid.items()}


def _oids(text: str | None) -> tuple[int, ...]:
    return tuple(map(int, text.split())) if text else ()


def _split_defaults(text: str | None) -> tuple[str, ...]:
    """Splits a text such as 'NULL::text, (1)::integer' at its top-level commas."""
    if not text:
        return ()
    parts, depth, quoted, start = [], 0, False, 0
    for index, char in enumerate(text):
        if char == "'":
            quoted = not quoted
        elif quoted:
            continue
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return (*parts, text[start:].strip())


def _text(item: str | None) -> str:
    return item or ""


def _make_function(line: str) -> Function:
    item = _fields(line)
    arguments = _oids(item[11])
    modes = _text(item[13])
    every_type = _oids(item[12]) or arguments
    names = tuple(item[14].split(",")) if item[14] is not None else ()
    inputs = names
    outputs: tuple[str, ...] = ()
    if modes and names:
        inputs = tuple(name for name, mode in zip(names, modes, strict=True) if mode in "ibv")
        outputs = tuple(name for name, mode in zip(names, modes, strict=True) if mode in "obt")
    kind, name = _text(item[3]), _text(item[1])
    source = _text(item[2])
    if kind == "a":
        source = f"{name}({','.join(_type_names()[oid] for oid in arguments)})"
    elif item[18] == _LANGUAGE_SQL:
        source = name
    return Function(
        oid=int(_text(item[0])),
        name=name,
        source=source,
        kind=kind,
        strict=item[4] == "t" and name not in ONE_ROW,
        returns_set=item[5] == "t" or name in ONE_ROW,
        volatility=_text(item[6]),
        argument_types=arguments,
        result_type=int(_text(item[10])),
        variadic=int(_text(item[9])),
        default_count=int(_text(item[8])),
        argument_names=inputs,
        output_names=outputs,
        output_types=tuple(oid for oid, mode in zip(every_type, modes, strict=False) if mode in "obt"),
        defaults=_split_defaults(item[17]),
        language="sql" if item[18] == _LANGUAGE_SQL else "internal",
        cost=float(_text(item[15])),
        rows=float(_text(item[16])),
        leakproof=item[19] == "t",
        reserved=item[20] == "t",
    )


@functools.cache
def function(oid: int) -> Function:
    """Returns the function with this OID. Raises KeyError."""
    line = _line("pg_proc", oid)
    if line is not None:
        return _make_function(line)
    _load_modules()
    return _own_functions[oid]


@functools.cache
def functions_named(name: str) -> tuple[Function, ...]:
    """Returns all built-in functions, aggregates and window functions of this name, in the order of their OIDs, except
    for inner functions (`declare`)."""
    _load_modules()
    own = tuple(item for item in _own_functions.values() if item.name == name and item.oid not in _inner)
    return tuple(function(oid) for oid in _procedures().by_name.get(name, ())) + own


@functools.cache
def inner_functions_named(name: str) -> tuple[Function, ...]:
    """Returns the inner functions of this name. The stored texts of views and rules, which are made from trees, contain
    such names."""
    _load_modules()
    return tuple(item for item in _own_functions.values() if item.name == name and item.oid in _inner)


def function_oids() -> tuple[int, ...]:
    """Returns the OIDs of all functions, including inner functions."""
    _load_modules()
    return (*_procedures().by_oid, *_own_functions)


@functools.cache
def operator(oid: int) -> Operator:
    """Returns the operator with this OID. Raises KeyError."""
    line = _line("pg_operator", oid)
    if line is None:
        raise KeyError(oid)
    item = line.split("\t")
    left, right, result, commutator, negator, code = map(int, item[5:11])
    return Operator(oid, item[1].replace("\\\\", "\\"), left, right, result, code, commutator, negator)


@functools.cache
def operators_named(name: str) -> tuple[Operator, ...]:
    """Returns all built-in operators of this name, binary and prefix."""
    return tuple(operator(oid) for oid in _operators().by_name.get(name.replace("\\", "\\\\"), ()))


def operator_oids() -> tuple[int, ...]:
    return tuple(_operators().by_oid)


def extension_functions() -> Mapping[str, Sequence[int]]:
    """Returns the OIDs of the functions of extensions, by name."""
    return _rows("extensions/pg_proc").by_name


def extension_operators() -> Mapping[str, Sequence[int]]:
    """Returns the OIDs of the operators of extensions, by name."""
    return {name.replace("\\\\", "\\"): oids for name, oids in _rows("extensions/pg_operator").by_name.items()}


@functools.cache
def _casts() -> dict[tuple[int, int], Cast]:
    casts = {}
    for rows in (_rows("pg_cast"), _rows("extensions/pg_cast")):
        for line in rows.by_oid.values():
            _, source, target, code, context, method = line.split("\t")
            casts[int(source), int(target)] = Cast(int(source), int(target), int(code), context, method)
    casts[oids.CIDR, oids.INET] = Cast(oids.CIDR, oids.INET, CIDR_TO_INET, "i", "f")  # catalog/types/network.py
    return casts


def cast(source: int, target: int) -> Cast | None:
    """Returns the row of pg_cast for these types, or None. If source and target are equal, it is the length
    coercion."""
    return _casts().get((source, target))


def all_casts() -> tuple[Cast, ...]:
    return tuple(_casts().values())


@functools.cache
def aggregate(oid: int) -> Aggregate:
    """Returns the aggregate with this function OID. Raises KeyError."""
    line = _line("pg_aggregate", oid)
    if line is None:
        raise KeyError(oid)
    item = _fields(line)
    numbers = [int(_text(field)) for field in (item[0], item[2], item[3], item[4], item[5], item[6])]
    function_oid, direct, transition, final, sort, state = numbers
    return Aggregate(function_oid, _text(item[1]), direct, transition, final, sort, state, item[7])


def aggregate_of(found: Function) -> Aggregate:
    """Returns the declaration of an aggregate, built in or of a user."""
    return found.aggregate or aggregate(found.oid)


@functools.cache
def _aggregates_by_steps() -> dict[tuple[int, int, str | None], tuple[int, ...]]:
    """Returns the OIDs of built-in aggregates by transition function, final function and initial state."""
    found: dict[tuple[int, int, str | None], tuple[int, ...]] = {}
    for oid in _rows("pg_aggregate").by_oid:
        item = aggregate(oid)
        key = item.transition_function, item.final_function, item.initial_value
        found[key] = (*found.get(key, ()), oid)
    return found


def twin_aggregate(parts: Aggregate, arguments: tuple[int, ...]) -> Function | None:
    """Returns the built-in aggregate with the same functions, initial state and types of arguments; None if there is
    none."""
    key = parts.transition_function, parts.final_function, parts.initial_value
    for oid in _aggregates_by_steps().get(key, ()):
        found, other = function(oid), aggregate(oid)
        same = (other.kind, other.direct_arguments, other.transition_type)
        if found.argument_types == arguments and same == (parts.kind, parts.direct_arguments, parts.transition_type):
            return found
    return None


def declare(declared: Function, *, inner: bool = False) -> None:
    """Declares a function that PostgreSQL does not have (OID 9000 to 9999). Raises ValueError if the OID is not free.
    An `inner` function is only for trees: analysis and code generation create its calls, with valid arguments, and SQL
    text cannot name it."""
    if declared.oid not in OWN_OIDS or declared.oid in _own_functions:
        raise ValueError(f"OID {declared.oid} of {declared.name} is not free")
    _own_functions[declared.oid] = declared
    if inner:
        _inner.add(declared.oid)


def is_inner(oid: int) -> bool:
    """Whether a function is an inner function (`declare`)."""
    _load_modules()
    return oid in _inner


# ---- implementations ------------------------------------------------------------------------------------------------

_Python = TypeVar("_Python", bound=Callable[..., object])


def implement(
    source: str,
    python: Callable[..., object] | None = None,
    duckdb: DuckSide = None,
    *,
    needs_context: bool = False,
    python_aggregate: AggregateSteps | None = None,
    duckdb_result: Callable[[Sequence[TypeRef]], TypeRef] | None = None,
    duckdb_udfs: tuple[str, ...] = (),
    python_for_types: Callable[[Sequence[TypeRef], TypeRef], Callable[..., object]] | None = None,
    inline: str | None = None,
    names: Mapping[str, object] | None = None,
    aggregate_for_types: Callable[[Sequence[TypeRef], TypeRef], AggregateSteps] | None = None,
    steps_see_nulls: bool = False,
    duckdb_in_utc: DuckSide = None,
    duckdb_result_of: Callable[[Sequence[Sql], Sequence[TypeRef]], TypeRef] | None = None,
    needs_session: bool = False,
    compares: str = "",
    traits: Sequence[Trait] = (),
) -> None:
    """Registers the implementation of `source` (see `Implementation`; `inline` and `names` are python_source and
    python_names). `compares`: eq, ne, lt, le, gt or ge, for a comparison.

    Raises ValueError if the source already has an implementation.
    """
    if source in _implementations:
        raise ValueError(f"{source} is implemented twice")
    _implementations[source] = Implementation(
        python=python,
        duckdb=duckdb,
        needs_context=needs_context or needs_session,
        python_aggregate=python_aggregate,
        duckdb_result=duckdb_result,
        duckdb_udfs=duckdb_udfs,
        python_for_types=python_for_types,
        python_source=inline,
        python_names=names or {},
        aggregate_for_types=aggregate_for_types,
        steps_see_nulls=steps_see_nulls,
        needs_session=needs_session,
        duckdb_in_utc=duckdb_in_utc,
        duckdb_result_of=duckdb_result_of,
    )
    if compares:
        _comparisons[source] = compares
    for trait in traits:
        _traits[trait].add(source)


def implements(
    *sources: str,
    duckdb: DuckSide = None,
    needs_context: bool = False,
    needs_session: bool = False,
    traits: Sequence[Trait] = (),
) -> Callable[[_Python], _Python]:
    """Decorator: registers the function as the python side of these sources."""

    def register(python: _Python) -> _Python:
        for source in sources:
            implement(source, python, duckdb, needs_context=needs_context, needs_session=needs_session, traits=traits)
        return python

    return register


def mark(trait: Trait, *sources: str) -> None:
    """Declares a trait of several functions. A function without an implementation, because analysis replaces it, may
    have traits too."""
    _traits[trait].update(sources)


def implementation(source: str) -> Implementation | None:
    """Returns the implementation of `source`; None if there is none: then a call raises 0A000."""
    _load_modules()
    return _implementations.get(source)


def comparison(source: str) -> str:
    """Returns eq, ne, lt, le, gt or ge for a function that is registered as such a comparison; '' for others."""
    _load_modules()
    return _comparisons.get(source, "")


def has_trait(source: str, trait: Trait) -> bool:
    _load_modules()
    return source in _traits[trait]


def sources_with(trait: Trait) -> frozenset[str]:
    _load_modules()
    return frozenset(_traits[trait])


@functools.cache
def names_with(trait: Trait) -> frozenset[str]:
    """Returns the names of the functions with a trait, for callers that know only the name of a call. The name may
    also belong to other functions."""
    sources = sources_with(trait)
    return frozenset(name for name, source in _named_sources() if source in sources)


def _named_sources() -> Iterator[tuple[str, str]]:
    for rows in (_procedures(), _rows("extensions/pg_proc")):
        for line in rows.by_oid.values():
            item = line.split("\t")
            yield item[1], item[1] if item[18] == _LANGUAGE_SQL else item[2]
    yield from ((item.name, item.source) for item in _own_functions.values())


@functools.cache
def _load_modules() -> None:
    """Imports every module of this package; each registers its functions."""
    package = importlib.import_module("catalog.functions")
    for module in pkgutil.iter_modules(package.__path__, "catalog.functions."):
        importlib.import_module(module.name)
