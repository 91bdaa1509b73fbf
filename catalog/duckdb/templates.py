"""Templates of DuckDB SQL: text with slots, parsed once.

    ({} + {})                      slots are filled in their order
    CASE WHEN {0} THEN {0} END     by number; a slot may stand there several times
    {c}.v                          by name
    count({0})/*filter*/           marks of aggregates are slots too

`{{` and `}}` are braces. Properties of the text between the slots are found once per template, not in the generated
SQL: whether it contains a lambda, the beginning of a sub-query, or a call of DuckDB's volatile error().
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from string import Formatter

from catalog.duckdb.types import parse_type

DISTINCT_MARK, ORDER_MARK, FILTER_MARK = "/*distinct*/", "/*order*/", "/*filter*/"
MARKS = (DISTINCT_MARK, ORDER_MARK, FILTER_MARK)

_MARK = re.compile("(" + "|".join(map(re.escape, MARKS)) + ")")
_LITERAL = re.compile("'[^']*'")
_LAMBDA = re.compile(r"\blambda ")
_SUB_QUERY = re.compile(r"\(SELECT ")
_QUERY = re.compile(r"SELECT ")
_VOLATILE = re.compile(r"(?<!raise_)error(?=\('SHOAL:)")
_NULL = re.compile(r"NULL::(\w+(?:\(\d+,\d+\))?(?:\[\])*)")
_KNOWN = 8192


class Template:
    """`texts` are the texts before, between and after the slots. `slots` are the numbers of the arguments; -1, -2 and
    -3 are the marks of an aggregate. `names` are the names of the arguments in the order of their numbers; empty if the
    slots are not named."""

    def __init__(self, texts: Sequence[str], slots: Sequence[int], names: Sequence[str]) -> None:
        self.texts = tuple(texts)
        self.slots = tuple(slots)
        self.names = tuple(names)
        self.pairs = tuple(zip(self.slots, self.texts[1:], strict=True))
        self.is_marked = any(slot < 0 for slot in slots)
        self.uses = tuple(self.slots.count(number) for number in range(max(self.slots, default=-1) + 1))
        """How often each argument is used."""
        self.is_argument = self.slots == (0,) and not any(self.texts)
        """Whether the template consists of one argument only."""
        null = None if self.slots else _NULL.fullmatch(self.texts[0])
        self.null = parse_type(null[1]) if null else None
        """The type of a template that consists of a NULL only; otherwise None."""
        self.repeats = any(count > 1 for count in self.uses)

    @cached_property
    def steady(self) -> Template:
        """The template with raise_error, which is not volatile, in place of error
        (catalog/functions/duckdb_errors.py)."""
        texts = [_VOLATILE.sub("raise_error", text) for text in self.texts]
        return self if tuple(texts) == self.texts else Template(texts, self.slots, self.names)

    @cached_property
    def loops(self) -> tuple[bool, ...]:
        """For each text, whether a lambda or a query begins in it, which is evaluated once per element or row."""
        return tuple(
            bool(_LAMBDA.search(text)) or selects for text, selects in zip(self._code, self.selects, strict=True)
        )

    @cached_property
    def selects(self) -> tuple[bool, ...]:
        """For each text, whether a query begins in it."""
        return tuple(
            bool(_SUB_QUERY.search(text) or (number == 0 and _QUERY.match(text)))
            for number, text in enumerate(self._code)
        )

    @cached_property
    def _code(self) -> tuple[str, ...]:
        return tuple(_LITERAL.sub("", text) for text in self.texts)


@lru_cache(maxsize=_KNOWN)
def parse_template(source: str) -> Template:
    """Parses a template. Raises ValueError if it mixes named slots with others."""
    texts, slots, names = [""], [], list[str]()
    counted = 0

    def add(text: str) -> None:
        for number, part in enumerate(_MARK.split(text)):
            if number % 2:
                slots.append(-1 - MARKS.index(part))
                texts.append("")
            else:
                texts[-1] += part

    for text, name, _, _ in Formatter().parse(source):
        add(text)
        if name is None:
            continue
        if name == "":
            number, counted = counted, counted + 1
        elif name.isdigit():
            number = int(name)
        else:
            if name not in names:
                names.append(name)
            number = names.index(name)
        slots.append(number)
        texts.append("")
    if names and (counted or any(slot >= len(names) for slot in slots)):
        raise ValueError(f"named and numbered slots in one template: {source}")
    return Template(texts, slots, names)
