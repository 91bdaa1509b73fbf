"""Replaces literals of a statement's text by parameters, so that `... aid = 17` and `... aid = 18` share one cached
plan.

One pass of a regular expression splits the text into literals and the text between them. This is correct up to the
first comment, dollar quote or prefixed string (E'', U&'', B'', ...). Such a construct is visible in the text between,
so a check of that text, with its literals replaced, shows whether the split is correct. The same check excludes text
that has another meaning with a parameter: types with modifiers, `date '...'`, and so on. Literals of ORDER BY and GROUP
BY, which may be numbers of columns, and of intervals are not replaced. All this depends only on the template and the
kinds of its literals, so the result is cached. A statement of a known form costs the split, the join and one look-up.

The caller must observe three rules. A string becomes a literal of unknown type, which gets its type from its context,
as in PostgreSQL. An error in a template must be found again in the original text, which has its position.
standard_conforming_strings must be on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_MAX_LITERALS: Final = 100
_MAX_STATEMENT_BYTES: Final = 8192
_MAX_VERDICTS: Final = 20_000
_PLACEHOLDERS: Final = [b"$%d" % number for number in range(1, _MAX_LITERALS + 1)]

# The pattern begins with a set of characters, which the engine of re finds fast; the look-behind after it checks that
# character. No string begins directly after a quote.
_SPLIT: Final = re.compile(
    rb"""(["'.0-9](?:
      (?<=')(?<!'')[^']*+(?:''[^']*+)*+'(?![\w\x80-\xff'"])
    | (?<=")[^"]*+(?:""[^"]*+)*+"
    | (?<![\w\x80-\xff.$][0-9.])(?<![0-9.][eE][+-][0-9.])(?:(?<=[0-9])[0-9]*+(?:\.[0-9]*+)?+|(?<=\.)[0-9]++)
      (?:[eE][+-]?[0-9]++)?+(?![\w\x80-\xff.'"])
    ))""",
    re.VERBOSE,
)
# These patterns search a template in lower case, with $n for literals. Clauses in which a number may be that of a
# column begin and end with:
_BY: Final = re.compile(rb"\b(?:order|group)\s+by\b")
_AFTER_BY: Final = re.compile(rb"\b(?:limit|offset|fetch|having|returning|union|intersect|except)\b")
# Clauses in which a literal cannot be a parameter.
_CLAUSES: Final = re.compile(rb"\bdistinct\s+on\b|\bconflict\b(?:(?!\bdo\b)[^$])*\$|\A\s*select\b.*\binto\b", re.DOTALL)
_IN_CLAUSES: Final = (b"distinct", b"conflict", b"into")
# A literal after an opening parenthesis or bracket: the modifier of a type, or text that looks like one.
_OPENED: Final = re.compile(rb"[(\[]\s*\$")
_MODIFIERS: Final = re.compile(
    rb"""(?:\bas|::)\s*[\w\x80-\xff."]+(?:\s+(?:varying|precision))?\s*[(\[]\s*\$
    |\b(?:varchar|char|character|varying|bpchar|nchar|numeric|decimal|dec|bit|varbit|float|time|timestamp|timetz
        |timestamptz|interval|current_time|current_timestamp|localtime|localtimestamp|extract|overlay)\s*\(\s*\$
    |\]\s*\[\s*\$""",
    re.VERBOSE | re.DOTALL,
)
_SEVERAL: Final = re.compile(rb";(?!\s*\Z)")
# A string after the word interval, which is part of a typed literal.
_OF_INTERVAL: Final = re.compile(rb"\binterval\s+\$\d+")
_INTERVAL: Final = re.compile(rb"\b(interval)\s+'[^']*+(?:''[^']*+)*+'", re.IGNORECASE)
_MOMENT: Final = re.compile(rb"\bas\s+of\s+timestamp\s+\Z", re.IGNORECASE)
_PLACEHOLDER: Final = re.compile(rb"\$(\d+)")
_STATEMENT: Final = re.compile(rb"\s*(?:select|insert|update|delete)\b", re.IGNORECASE)
_LAST_WORD: Final = re.compile(rb"(?<![\w\x80-\xff])([\w\x80-\xff]++)\s*+\Z")
# Words after which a string is a value. None of them is the name of a type or another syntax with a string.
_BEFORE_VALUES: Final = frozenset(
    (b"select", b"values", b"like", b"ilike", b"in", b"and", b"or", b"not", b"then", b"when", b"else", b"case")
) | frozenset((b"where", b"on", b"having", b"between", b"symmetric", b"escape", b"limit", b"offset", b"returning"))
_MAX_INT4: Final = 2**31 - 1
_MAX_INT8: Final = 2**63 - 1
_QUOTE: Final = ord("'")
_UNKNOWN: Final = (0,)

# By template and kinds: the literals that stay in the text; None if none may be replaced.
_verdicts: dict[bytes, tuple[int, ...] | None] = {}


def lift(sql: bytes) -> tuple[bytes, list[bytes], bytes] | None:
    """The template of a SELECT, INSERT, UPDATE or DELETE, the values of its literals, and a kind for each of them.

    Kinds: i fits int4, l fits int8, n another number, s a string ('' already one quote). Two texts differ only in
    literals if template + kinds are equal. None if nothing can be replaced, or it is not known to be safe.
    """
    if len(sql) > _MAX_STATEMENT_BYTES:
        return None
    parts = _split(sql)
    if not 0 < len(parts) >> 1 <= _MAX_LITERALS:
        return None
    template, literals, kinds = _lift(parts)
    known = template + kinds
    kept = _verdicts.get(known, _UNKNOWN)
    if kept is _UNKNOWN:
        kept = _verdicts[known] = _verdict(sql, parts[0::2], template, kinds)
        if len(_verdicts) > _MAX_VERDICTS:
            _verdicts.clear()
    if kept is None:
        return None
    if kept:
        template, literals, kinds = _lift(_with_literals(_split(sql), kept))
    # A dollar sign of the text itself could be taken for a placeholder, or open a quoted string.
    if b"$" in sql and template.count(b"$") != len(literals):
        return None
    return template, literals, kinds


def _split(sql: bytes) -> list[bytes]:
    """The text around literals, and the literals: text, literal, text, ..., text."""
    parts = _SPLIT.split(sql)
    return _without_identifiers(parts) if b'"' in sql else parts


def _lift(parts: list[bytes]) -> tuple[bytes, list[bytes], bytes]:
    """Template, literals and kinds. In `parts`, placeholders replace the literals."""
    found = parts[1::2]
    if max(map(len, found)) < 10 and b"".join(found).isdigit():  # only int4, the most frequent case
        parts[1::2] = _PLACEHOLDERS[: len(found)]
        return b"".join(parts), found, b"i" * len(found)
    literals: list[bytes] = []
    kinds = b""
    for literal in found:
        if literal[0] == _QUOTE:
            kinds += b"s"
            value = literal[1:-1]
            literals.append(value if b"'" not in value else value.replace(b"''", b"'"))
        else:
            kinds += b"i" if len(literal) < 10 and literal.isdigit() else _kind_of_number(literal)
            literals.append(literal)
    parts[1::2] = _PLACEHOLDERS[: len(literals)]
    return b"".join(parts), literals, kinds


def _verdict(sql: bytes, texts: list[bytes], template: bytes, kinds: bytes) -> tuple[int, ...] | None:
    """See _verdicts. `texts`: the texts around the literals."""
    lower = template.lower()
    places = list(_sorted_by(lower))
    if b"interval" in lower:
        places += _OF_INTERVAL.findall(lower)
    kept = tuple(sorted({int(number) for place in places for number in _PLACEHOLDER.findall(place)}))
    if len(kept) == len(kinds) or (kept and b"$" in sql):
        return None
    if kept:
        parts = _with_literals(_split(sql), kept)
        texts = parts[0::2]
        template, _, kinds = _lift(parts)
        template = _INTERVAL.sub(rb"\1 x", template)
    return kept if _is_safe(texts, template, kinds) else None


def _sorted_by(template: bytes) -> Iterator[bytes]:
    """The keys of ORDER BY and GROUP BY in a template in lower case."""
    at = 0
    while (found := _BY.search(template, at)) is not None:
        end = _AFTER_BY.search(template, found.end())
        at = len(template) if end is None else end.start()
        yield template[found.end() : at]


def _with_literals(parts: list[bytes], kept: tuple[int, ...]) -> list[bytes]:
    """The parts with these literals, numbered from 1, put back into the text around them."""
    merged = [parts[0]]
    for at in range(1, len(parts), 2):
        if at // 2 + 1 in kept:
            merged[-1] += parts[at] + parts[at + 1]
        else:
            merged += parts[at : at + 2]
    return merged


def _without_identifiers(parts: list[bytes]) -> list[bytes]:
    """The parts with quoted identifiers put back into the text around them."""
    merged = [parts[0]]
    for at in range(1, len(parts), 2):
        if parts[at][0] == _QUOTE or parts[at][:1] != b'"':
            merged += parts[at : at + 2]
        else:
            merged[-1] += parts[at] + parts[at + 1]
    return merged


def _kind_of_number(literal: bytes) -> bytes:
    if not literal.isdigit():
        return b"n"
    value = int(literal) if len(literal) < 30 else 1 << 99
    if value in (_MAX_INT4 + 1, _MAX_INT8 + 1):
        return b"?"  # with a minus before it, it is of the smaller type, which a parameter would not be
    return b"i" if value <= _MAX_INT4 else b"l" if value <= _MAX_INT8 else b"n"


def _is_safe(texts: list[bytes], template: bytes, kinds: bytes) -> bool:
    if b"?" in kinds or _STATEMENT.match(template) is None or not _is_plain(template.lower()):
        return False
    return all(kind != ord("s") or _is_value_after(texts[at]) for at, kind in enumerate(kinds))


def _is_plain(template: bytes) -> bool:
    """Whether a template, in lower case, is one statement whose split is correct, and all $n may be parameters. Cheap
    checks come first, because every new text is checked."""
    if b"--" in template or b"/*" in template or b"'" in template:
        return False
    if b";" in template and _SEVERAL.search(template) is not None:
        return False
    if any(b"$" in place for place in _sorted_by(template)):
        return False
    if any(word in template for word in _IN_CLAUSES) and _CLAUSES.search(template) is not None:
        return False
    return _OPENED.search(template) is None or _MODIFIERS.search(template) is None


def _is_value_after(text: bytes) -> bool:
    """Whether a string after this text is a value: not after a type's name, and not the continuation of another
    string."""
    stripped = text.rstrip()
    if not stripped or stripped[-1:] in b'")' or text[-1:] == b"&":
        return False
    word = _LAST_WORD.search(text)
    if _MOMENT.search(text) is not None:
        return True
    return word is None or (word[1].lower() in _BEFORE_VALUES and text != stripped)
