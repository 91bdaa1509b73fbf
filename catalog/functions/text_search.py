"""Functions and operators of full text search (PostgreSQL 16 manual, 9.13), by `catalog.text_search`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

from catalog.errors import SqlError
from catalog.functions.base import CallContext, Trait
from catalog.functions.registry import implement, implements, mark
from catalog.text_caches import remembering
from catalog.text_search import configurations, queries, ranking, vectors
from catalog.text_search.configurations import Configuration, Lexicon, lexemes
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


def _with_lexicon(source: str, make: Callable[[Lexicon], Callable[..., object]], needs_context: bool = False) -> None:
    """Registers a function that uses the configurations and dictionaries of its database: `make` gets them when a call
    is planned."""
    implement(
        source,
        python_for_types=lambda types, result: make(configurations.current()),
        needs_context=needs_context,
        traits=(Trait.USES_LEXICON,),
    )


def _default(lexicon: Lexicon, call: CallContext) -> Configuration:
    return lexicon.find_named(call.format.text_search)


# ---- construction ---------------------------------------------------------------------------------------------------


def to_vector(configuration: Configuration, *texts: str) -> str:
    found = lexemes(configuration, *texts)
    return print_vector(
        vectors.make_vector((lexeme, ((min(position, LAST_POSITION), 0),)) for lexeme, position in found)
    )


_ALL = frozenset(("string", "numeric", "boolean", "key"))
_KINDS_HINT = 'Possible values are: "string", "numeric", "boolean", "key", and "all".'


def _of_json(configuration: Configuration, text: str, kinds: str = '"string"') -> str:
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


def _with_configuration(source: str, make: Callable[..., object], suffix: str = "") -> None:
    """Registers a function with a configuration argument, and one with the session's configuration."""

    def by_id(lexicon: Lexicon) -> Callable[..., object]:
        return lambda oid, *given: make(lexicon.configuration(oid), *given)

    def by_setting(lexicon: Lexicon) -> Callable[..., object]:
        return lambda call, *given: make(_default(lexicon, call), *given)

    _with_lexicon(f"{source}_byid{suffix}", by_id)
    _with_lexicon(source + suffix, by_setting, needs_context=True)


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


def _current(lexicon: Lexicon) -> Callable[[CallContext], int]:
    return lambda call: lexicon.oid_of(call.format.text_search)


_with_lexicon("get_current_ts_config", _current, needs_context=True)


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


def _match_texts(lexicon: Lexicon) -> Callable[[CallContext, str, str], bool]:
    def match(call: CallContext, text: str, query: str) -> bool:
        configuration = _default(lexicon, call)
        return _match(vector_of(to_vector(configuration, text)), queries.plain_query(configuration, query, AND))

    return match


def _match_text(lexicon: Lexicon) -> Callable[[CallContext, str, str], bool]:
    return lambda call, text, query: _match(vector_of(to_vector(_default(lexicon, call), text)), query)


_with_lexicon("ts_match_tt", _match_texts, needs_context=True)
_with_lexicon("ts_match_tq", _match_text, needs_context=True)
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


def _headline(configuration: Configuration, text: str, query: str, options: str = "") -> str:
    return headline(configuration, text, query_of(query), options_of(options))


def _json_headline(show: Callable[[object], str]) -> Callable[..., str]:
    """Returns ts_headline for JSON, which replaces every string by its headline."""

    def make(configuration: Configuration, text: str, query: str, options: str = "") -> str:
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


def _lexize(lexicon: Lexicon) -> Callable[[int, str], Array | None]:
    def lexize(dictionary: int, token: str) -> Array | None:
        found = lexicon.dictionary(dictionary).lexize(token)
        return None if found is None else Array.of(tuple(lexeme.text for lexeme in found))

    return lexize


_with_lexicon("ts_lexize", _lexize)


def _debug(lexicon: Lexicon) -> Callable[..., list[tuple[object, ...]]]:
    """ts_debug([configuration,] text): for each token its dictionaries, the first that knows it, and its lexemes."""

    def rows(call: CallContext, *given: Any) -> list[tuple[object, ...]]:
        *configuration, text = given
        found = lexicon.configuration(configuration[0]) if configuration else _default(lexicon, call)
        made: list[tuple[object, ...]] = []
        for kind, token in tokens(text):
            known = found.dictionaries.get(kind, ())
            results = [(item.oid, item.lexize(token)) for item in known]
            chosen = next((item for item in results if item[1] is not None), results[0] if results else None)
            lexemes = None if chosen is None else chosen[1]
            made.append(
                (
                    *TOKEN_TYPES[kind - 1],
                    token,
                    Array.of(tuple(item.oid for item in known)),
                    None if chosen is None else chosen[0],
                    None if lexemes is None else Array.of(tuple(lexeme.text for lexeme in lexemes)),
                )
            )
        return made

    return rows


_with_lexicon("ts_debug", _debug, needs_context=True)


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
