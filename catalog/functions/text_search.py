"""Functions and operators of full text search (PostgreSQL 16 manual, 9.13), by `catalog.text_search`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

from catalog.errors import SqlError
from catalog.functions.base import CallContext, Trait
from catalog.functions.registry import implement, implements, mark
from catalog.functions.unaccent import without_accents
from catalog.text_caches import remembering
from catalog.text_search import queries, ranking, vectors
from catalog.text_search.configurations import (
    CONFIGURATIONS,
    DICTIONARIES,
    UNACCENT,
    configuration_of,
    lexemes,
    lexize,
)
from catalog.text_search.headline import headline, options_of
from catalog.text_search.parser import DEFAULT_PARSER, TOKEN_TYPES, tokens
from catalog.text_search.queries import AND, NOT, OR, PHRASE, Operation, Query, query_of
from catalog.text_search.query_matches import matches
from catalog.text_search.vectors import Vector, print_vector, vector_of
from catalog.text_search.web import web_query
from catalog.text_search.words import LAST_POSITION
from catalog.text_search.words import WEIGHTS as LETTERS
from catalog.types.base import Array
from catalog.types.json import render_json, render_jsonb
from catalog.types.json_text import Number, Pairs, decode_json

_OIDS_OF_CONFIGURATIONS = {name: oid for oid, name in CONFIGURATIONS.items()}


def _default(call: CallContext) -> str:
    return call.format.text_search


# ---- construction ---------------------------------------------------------------------------------------------------


def to_vector(configuration: str, *texts: str) -> str:
    found = lexemes(configuration, *texts)
    return print_vector(
        vectors.make_vector((lexeme, ((min(position, LAST_POSITION), 0),)) for lexeme, position in found)
    )


_ALL = frozenset(("string", "numeric", "boolean", "key"))
_KINDS_HINT = 'Possible values are: "string", "numeric", "boolean", "key", and "all".'


def _of_json(configuration: str, text: str, kinds: str = '"string"') -> str:
    """to_tsvector and json_to_tsvector: of the parts of a JSON text whose kinds `kinds`, which is JSON, lists."""
    return to_vector(configuration, *_parts(decode_json(text), _kinds_of(kinds)))


@remembering(64)
def _kinds_of(text: str) -> frozenset[str]:
    given = decode_json(text)
    if isinstance(given, Pairs):
        raise SqlError("22023", "wrong flag type, only arrays and scalars are allowed")
    found: set[str] = set()
    for kind in given if isinstance(given, list) else [given]:
        if not isinstance(kind, str) or isinstance(kind, Number):
            raise SqlError("22023", "flag array element is not a string", hint=_KINDS_HINT)
        known = kind.lower()
        if known != "all" and known not in _ALL:
            raise SqlError("22023", f'wrong flag in flag array: "{kind}"', hint=_KINDS_HINT)
        found |= _ALL if known == "all" else {known}
    return frozenset(found)


def _parts(node: object, kinds: frozenset[str]) -> Iterator[str]:
    if isinstance(node, Pairs):
        for key, value in node:
            if "key" in kinds:
                yield key
            yield from _parts(value, kinds)
    elif isinstance(node, list):
        for value in node:
            yield from _parts(value, kinds)
    elif isinstance(node, bool):
        if "boolean" in kinds:
            yield "true" if node else "false"
    elif isinstance(node, str) and ("numeric" if isinstance(node, Number) else "string") in kinds:
        yield node


def _with_configuration(source: str, make: Callable[..., str], suffix: str = "") -> None:
    """Registers a function with a configuration argument, and one with the session's configuration."""
    implement(f"{source}_byid{suffix}", lambda oid, *given: make(configuration_of(oid), *given))
    implement(source + suffix, lambda call, *given: make(_default(call), *given), needs_context=True)


_with_configuration("to_tsvector", to_vector)
mark(Trait.SLOW, "to_tsvector", "to_tsvector_byid")
_with_configuration("json_string_to_tsvector", _of_json)
_with_configuration("jsonb_string_to_tsvector", _of_json)
_with_configuration("json_to_tsvector", _of_json)
_with_configuration("jsonb_to_tsvector", _of_json)
_with_configuration("to_tsquery", queries.to_query)
_with_configuration("plainto_tsquery", lambda configuration, text: queries.plain_query(configuration, text, AND))
_with_configuration("phraseto_tsquery", lambda configuration, text: queries.plain_query(configuration, text, PHRASE))
_with_configuration("websearch_to_tsquery", web_query)


@implements("get_current_ts_config", needs_context=True)
def _current(call: CallContext) -> int:
    return _OIDS_OF_CONFIGURATIONS[_default(call)]


@implements("array_to_tsvector")
def _from_array(array: Array) -> str:
    found = _lexemes_in(array)
    if "" in found:
        raise SqlError("2200F", "lexeme array may not contain empty strings")
    return print_vector(vectors.make_vector((lexeme, ()) for lexeme in found))


# ---- vectors --------------------------------------------------------------------------------------------------------


def _weight(letter: str) -> int:
    found = LETTERS.find(letter.upper()) if letter else -1
    if found < 0:
        raise SqlError("XX000", f"unrecognized weight: {ord(letter) if letter else 0}")
    return found


def _set_weight(value: str, letter: str, only: Array | None = None) -> str:
    weight = _weight(letter)
    wanted = None if only is None else set(_lexemes_in(only))
    changed = {
        lexeme: tuple((number, weight) for number, _ in positions) if wanted is None or lexeme in wanted else positions
        for lexeme, positions in vector_of(value).items()
    }
    return print_vector(changed)


def _lexemes_in(array: Array) -> list[str]:
    if None in array.elements:
        raise SqlError("22004", "lexeme array may not contain nulls")
    return cast("list[str]", list(array.elements))


def _without(value: str, gone: Iterable[str]) -> str:
    left = set(gone)
    return print_vector({lexeme: positions for lexeme, positions in vector_of(value).items() if lexeme not in left})


@implements("tsvector_filter")
def _filter(value: str, letters: Array) -> str:
    wanted = set()
    if None in letters.elements:
        raise SqlError("22004", "weight array may not contain nulls")
    for letter in cast("tuple[str, ...]", letters.elements):
        found = LETTERS.find(letter.upper()) if letter else -1
        if found < 0:
            raise SqlError("22023", f'unrecognized weight: "{letter}"')
        wanted.add(found)
    kept = {}
    for lexeme, positions in vector_of(value).items():
        left = tuple(item for item in positions if item[1] in wanted)
        if left:
            kept[lexeme] = left
    return print_vector(kept)


@implements("tsvector_unnest")
def _unnest(value: str) -> list[tuple[str, Array | None, Array | None]]:
    return [
        (
            lexeme,
            Array.of(tuple(number for number, _ in positions)) if positions else None,
            Array.of(tuple(LETTERS[weight] for _, weight in positions)) if positions else None,
        )
        for lexeme, positions in vector_of(value).items()
    ]


implement("tsvector_length", lambda value: len(vector_of(value)))
implement("tsvector_strip", lambda value: print_vector(dict.fromkeys(vector_of(value), ())))
implement("tsvector_setweight", _set_weight)
implement("tsvector_setweight_by_filter", _set_weight)
implement("tsvector_delete_str", lambda value, lexeme: _without(value, (lexeme,)))
implement("tsvector_delete_arr", lambda value, array: _without(value, _lexemes_in(array)))
implement("tsvector_concat", lambda left, right: print_vector(vectors.join_vectors(vector_of(left), vector_of(right))))
implement("tsvector_to_array", lambda value: Array.of(tuple(vector_of(value))))


def _comparison(compare: Callable[[Any, Any], Any]) -> Callable[[str, str], bool]:
    return lambda left, right: compare(vectors.sort_key(left), vectors.sort_key(right))


for _name, _compare_keys in (("lt", operator.lt), ("le", operator.le), ("gt", operator.gt), ("ge", operator.ge)):
    implement(f"tsvector_{_name}", _comparison(_compare_keys))
for _type in ("tsvector", "tsquery"):
    implement(f"{_type}_eq", lambda left, right: left == right)
    implement(f"{_type}_ne", lambda left, right: left != right)


@implements("tsvector_cmp")
def _compare(left: str, right: str) -> int:
    one, other = vectors.sort_key(left), vectors.sort_key(right)
    return int(one > other) - int(one < other)


# ---- queries --------------------------------------------------------------------------------------------------------


def _join_queries(sign: str) -> Callable[..., str]:
    def join(left: str, right: str, distance: int = 1) -> str:
        if sign == PHRASE and not 0 <= distance <= queries.MOST_DISTANCE:
            raise queries.bad_distance()
        one, other = query_of(left), query_of(right)
        if one is None or other is None:
            return left or right
        return queries.print_query(Operation(sign, one, other, distance if sign == PHRASE else 0))

    return join


@implements("tsquery_not")
def _negate(value: str) -> str:
    query = query_of(value)
    return "" if query is None else queries.print_query(Operation(NOT, None, query))


implement("tsquery_and", _join_queries(AND))
implement("tsquery_or", _join_queries(OR))
implement("tsquery_phrase", _join_queries(PHRASE))
implement("tsquery_phrase_distance", _join_queries(PHRASE))
implement("tsquery_numnode", lambda value: sum(1 for _ in queries.nodes(query_of(value))))

# ---- matches --------------------------------------------------------------------------------------------------------


def _match(vector: Vector, query: str) -> bool:
    return matches(vector, query_of(query))


implement("ts_match_vq", lambda vector, query: _match(vector_of(vector), query))
implement("ts_match_qv", lambda query, vector: _match(vector_of(vector), query))
implement(
    "ts_match_tt",
    lambda call, text, query: _match(
        vector_of(to_vector(_default(call), text)), queries.plain_query(_default(call), query, AND)
    ),
    needs_context=True,
)
implement(
    "ts_match_tq",
    lambda call, text, query: _match(vector_of(to_vector(_default(call), text)), query),
    needs_context=True,
)
mark(Trait.SLOW, "ts_match_vq", "ts_match_qv", "ts_match_tt", "ts_match_tq")


def _weights(array: Array) -> list[float]:
    if len(array.dimensions) != 1:
        raise SqlError("2202E", "array of weight must be one-dimensional")
    if len(array.elements) < 4:
        raise SqlError("2202E", "array of weight is too short")
    if None in array.elements:
        raise SqlError("22004", "array of weight must not contain nulls")
    given = cast("tuple[float, ...]", array.elements)
    found = [weight if weight >= 0 else own for weight, own in zip(given, ranking.WEIGHTS, strict=False)]
    if any(weight > 1.0 for weight in found):
        raise SqlError("22023", "weight out of range")
    return found


def _ranks(source: str, rank: Callable[[Sequence[float], Vector, Query | None, int], float]) -> None:
    """Registers a rank function, with and without weights (PostgreSQL's defaults), with and without a method."""

    def plain(vector: str, query: str, method: int = 0) -> float:
        return rank(ranking.WEIGHTS, vector_of(vector), query_of(query), method)

    def weighted_rank(weights: Array, vector: str, query: str, method: int = 0) -> float:
        return rank(_weights(weights), vector_of(vector), query_of(query), method)

    for suffix, function in (("tt", plain), ("ttf", plain), ("wtt", weighted_rank), ("wttf", weighted_rank)):
        implement(f"{source}_{suffix}", function)


_ranks("ts_rank", ranking.rank)
_ranks("ts_rankcd", ranking.rank_of_covers)

# ---- headlines ------------------------------------------------------------------------------------------------------


def _headline(configuration: str, text: str, query: str, options: str = "") -> str:
    return headline(configuration, text, query_of(query), options_of(options))


def _json_headline(show: Callable[[object], str]) -> Callable[..., str]:
    """Returns ts_headline for JSON, which replaces every string by its headline."""

    def make(configuration: str, text: str, query: str, options: str = "") -> str:
        def change(node: object) -> object:
            if isinstance(node, Pairs):
                return Pairs((key, change(value)) for key, value in node)
            if isinstance(node, list):
                return [change(value) for value in node]
            if isinstance(node, str) and not isinstance(node, Number):
                return _headline(configuration, node, query, options)
            return node

        return show(change(decode_json(text)))

    return make


for _suffix in ("", "_opt"):
    _with_configuration("ts_headline", _headline, _suffix)
    mark(Trait.SLOW, f"ts_headline{_suffix}", f"ts_headline_byid{_suffix}")
    _with_configuration("ts_headline_json", _json_headline(render_json), _suffix)
    _with_configuration("ts_headline_jsonb", _json_headline(render_jsonb), _suffix)

# ---- inspection -----------------------------------------------------------------------------------------------------


@implements("ts_lexize")
def _lexize(dictionary: int, token: str) -> Array | None:
    if dictionary == UNACCENT:
        plain = without_accents(token)
        return None if plain == token else Array.of((plain,))
    name = DICTIONARIES.get(dictionary)
    if name is None:
        raise SqlError("XX000", f"cache lookup failed for text search dictionary {dictionary}")
    lexeme = lexize(name, token)
    return Array.of(() if lexeme is None else (lexeme,))


def _of_parser(parser: str | int) -> None:
    """Checks a parser argument: the only parser is `default`. Raises 42704 for another name, XX000 for another OID."""
    if isinstance(parser, str) and parser.removeprefix("pg_catalog.") != "default":
        raise SqlError("42704", f'text search parser "{parser}" does not exist')
    if isinstance(parser, int) and parser != DEFAULT_PARSER:
        raise SqlError("XX000", f"cache lookup failed for text search parser {parser}")


@implements("ts_parse_byname", "ts_parse_byid")
def _parse(parser: str | int, text: str) -> list[tuple[int, str]]:
    _of_parser(parser)
    return list(tokens(text))


@implements("ts_token_type_byname", "ts_token_type_byid")
def _token_types(parser: str | int) -> list[tuple[int, str, str]]:
    _of_parser(parser)
    return [(number, name, text) for number, (name, text) in enumerate(TOKEN_TYPES, 1)]


def configuration_named(name: str) -> str | None:
    """Returns the name of a configuration without its schema; None for an unknown one."""
    bare = name.strip().removeprefix("pg_catalog.")
    return bare if bare in _OIDS_OF_CONFIGURATIONS else None
