"""ts_headline: a part of a text with marked matches of a query (PostgreSQL 15's wparser_def.c).

Each token of the text is compared with the words of the query. A *cover* is a shortest sequence of tokens that matches
the query. Without fragments, the headline is the cover with most words of the query, extended or shortened to a good
length and a good end. With fragments, it consists of several covers, each extended on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from catalog.errors import SqlError
from catalog.long_numbers import int_of
from catalog.text_caches import remembering
from catalog.text_search.configurations import Configuration
from catalog.text_search.parser import NUMBERS
from catalog.text_search.queries import Hole, Operand, Query
from catalog.text_search.query_matches import matches
from catalog.text_search.vectors import Vector
from catalog.text_search.words import LAST_POSITION, MOST_BYTES

_TAG = NUMBERS["tag"]
_WHOLES = frozenset(NUMBERS[name] for name in ("url", "numhword", "asciihword", "hword"))  # their parts follow them
_NO_WORDS = _WHOLES | {_TAG, NUMBERS["blank"]}
_BAD_ENDS = _NO_WORDS | {
    NUMBERS[name] for name in ("sfloat", "version", "float", "int", "uint", "protocol", "entity")
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """The options of ts_headline (PostgreSQL 16 manual, 12.3.4)."""

    max_words: int = 35
    min_words: int = 15
    short_word: int = 3
    highlight_all: bool = False
    max_fragments: int = 0
    start: str = "<b>"
    stop: str = "</b>"
    delimiter: str = " ... "

    @property
    def longest_cover(self) -> int:
        return max(self.max_words * 10, 100) * max(self.max_fragments, 1)


_PLAIN = Options()
_NAME = r"""\s*(?:"((?:[^"]|"")*)"|([^\s,="']+))\s*"""
_VALUE = r"""\s*(?:'((?:[^'\\]|''|\\.)*)'|"([^"]*)"|([^\s,'"][^\s,]*|))\s*"""
_OPTION = re.compile(f"{_NAME}={_VALUE}")
_NUMERIC = {
    "maxwords": "max_words", "minwords": "min_words", "shortword": "short_word", "maxfragments": "max_fragments",
}  # fmt: skip
_TEXTS = {"startsel": "start", "stopsel": "stop", "fragmentdelimiter": "delimiter"}
_INTEGER = re.compile(r"\s*[+-]?\d+\s*")


@remembering(64)
def options_of(text: str) -> Options:
    """Parses options such as 'MaxWords=20, StartSel=<i>'. Raises 22023, 22P02, 42601."""
    given: dict[str, object] = {}
    for name, value in _pairs(text):
        known = name.lower()
        if known in _NUMERIC:
            given[_NUMERIC[known]] = _integer(value)
        elif known in _TEXTS:
            given[_TEXTS[known]] = value
        elif known == "highlightall":
            given["highlight_all"] = value.lower() in ("1", "on", "true", "t", "y", "yes")
        else:
            raise SqlError("22023", f'unrecognized headline parameter: "{name}"')
    options = replace(_PLAIN, **given)  # type: ignore[arg-type]
    if not options.highlight_all:
        for wrong, message in (
            (options.min_words >= options.max_words, "MinWords should be less than MaxWords"),
            (options.min_words <= 0, "MinWords should be positive"),
            (options.short_word < 0, "ShortWord should be >= 0"),
            (options.max_fragments < 0, "MaxFragments should be >= 0"),
        ):
            if wrong:
                raise SqlError("22023", message)
    return options


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while text[at:].strip():
        found = _OPTION.match(text, at)
        if found is None or (found.end() < len(text) and text[found.end()] != ","):
            raise SqlError("42601", f'invalid parameter list format: "{text}"')
        quoted, bare, single, double, plain = found.groups()
        name = quoted.replace('""', '"') if quoted is not None else bare
        if single is not None:
            yield name, re.sub(r"\\(.)|''", lambda part: part[1] or "'", single)
        else:
            yield name, double if double is not None else plain
        at = found.end() + 1


def _integer(text: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise SqlError("22P02", f'invalid input syntax for type integer: "{text}"')
    value = int_of(text)
    if not -(1 << 31) <= value < 1 << 31:
        raise SqlError("22003", f'value "{text}" is out of range for type integer')
    return value


@dataclass(slots=True, eq=False)
class _Word:
    """A token. If it matches several words of the query, there is another `_Word` with `repeated` for each further
    one."""

    text: str
    kind: int
    operand: str = ""  # the number of the query's word that it matches, or ''
    position: int = 0
    repeated: bool = False
    shown: bool = False
    marked: bool = False

    @property
    def counts(self) -> bool:
        return self.kind not in _NO_WORDS

    @property
    def is_wanted(self) -> bool:
        """Whether the token matches a word of the query, and is not a repetition."""
        return bool(self.operand) and not self.repeated


class _Text:
    """The words of a text and a query, and the selected headline."""

    def __init__(self, configuration: Configuration, text: str, query: Query | None, options: Options) -> None:
        self.options = options
        operands: list[Operand] = []
        self.query = _number(query, operands)
        self.words: list[_Word] = []
        position = 0
        for found, lexemes in configuration.take_words(text):
            position += lexemes is not None
            for kind, token in found:
                if len(token.encode()) > MOST_BYTES:
                    continue
                word = _Word(token, kind)
                self.words.append(word)
                place = position
                for lexeme in lexemes or ():
                    place += lexeme.moves
                    self._take(word, lexeme.text, min(place, LAST_POSITION), operands)

    def _take(self, word: _Word, lexeme: str, position: int, operands: list[Operand]) -> None:
        for number, operand in enumerate(operands):
            if lexeme.startswith(operand.lexeme) if operand.prefix else lexeme == operand.lexeme:
                if word.operand:
                    self.words.append(replace(word, operand=str(number), repeated=True))
                else:
                    word.operand, word.position = str(number), position

    # --- covers --------------------------------------------------------------------------------------------------

    def covers(self) -> Iterator[tuple[int, int]]:
        """Yields the first and the last word of each cover, at most one for each first word."""
        places = [place for place, word in enumerate(self.words) if word.operand]
        for number, first in enumerate(places):
            vector: Vector = {}
            for last in places[number:]:
                if last > first and last - first >= self.options.longest_cover:
                    break
                word = self.words[last]
                vector[word.operand] = (*vector.get(word.operand, ()), (word.position, 0))
                if matches(vector, self.query):
                    yield first, last
                    break

    def bad_end(self, place: int) -> bool:
        word = self.words[place]
        poor = word.kind in _BAD_ENDS or len(word.text.encode()) <= self.options.short_word
        return poor and not word.is_wanted

    def count(self, first: int, last: int) -> tuple[int, int]:
        """Returns the number of words, and of words of the query."""
        part = self.words[first : last + 1]
        return sum(word.counts for word in part), sum(word.is_wanted for word in part)

    def show(self, first: int, last: int) -> None:
        for word in self.words[first : last + 1]:
            word.marked = bool(word.operand)
            word.shown = not word.repeated

    def show_beginning(self) -> None:
        """Selects the first `min_words` words, for a text without matches."""
        last = words = 0
        for place, word in enumerate(self.words):
            if words >= self.options.min_words:
                break
            words += word.counts
            last = place
        self.show(0, last)

    # --- one piece -----------------------------------------------------------------------------------------------

    def choose_one(self) -> None:
        best: tuple[bool, int] = (False, -1)
        first = last = -1
        for cover in self.covers():
            begin, end = self._fit(*cover)
            found = (begin <= cover[0] and end >= cover[1], self.count(begin, end)[1])
            if found > best or (found == best and not self.bad_end(end) and self.bad_end(last)):
                best, first, last = found, begin, end
        if best[1] < 0:
            self.show_beginning()
        else:
            self.show(first, last)

    def _fit(self, first: int, last: int) -> tuple[int, int]:
        """Shortens or extends a cover to a good length and a good end."""
        least, most = self.options.min_words, self.options.max_words
        begin = end = first
        count = 0
        place = first
        while place <= last and count < most:
            count += self.words[place].counts
            end = place
            place += 1
        if count < most:
            return self._lengthen(begin, place - 1, last, count)
        place = min(place, last)
        while count > least and self.bad_end(place):
            count -= self.words[place].counts
            place -= 1
            end = place
        return begin, end

    def _lengthen(self, begin: int, place: int, last: int, count: int) -> tuple[int, int]:
        least, most = self.options.min_words, self.options.max_words
        end = place
        while place < len(self.words) and count < most:
            if place != last:
                count += self.words[place].counts
            end = place
            if not self.bad_end(place) and count >= least:
                break
            place += 1
        if count >= least:
            return begin, end
        place = begin - 1
        while place >= 0:
            count += self.words[place].counts
            if count >= most or (not self.bad_end(place) and count >= least):
                break
            place -= 1
        return max(place, 0), end

    # --- fragments -----------------------------------------------------------------------------------------------

    def choose_fragments(self) -> None:
        found = [piece for cover in self.covers() for piece in self._pieces(*cover)]
        chosen = 0
        while found and chosen < self.options.max_fragments:
            best = min(found, key=lambda piece: (-piece[3], piece[2]))
            if best[3] <= 0:
                break
            begin, end = self._stretch(*best[:3])
            self.show(begin, end)
            chosen += 1
            found.remove(best)
            found = [piece for piece in found if piece[1] < begin or piece[0] > end]
        if not chosen:
            self.show_beginning()

    def _pieces(self, first: int, last: int) -> Iterator[tuple[int, int, int, int]]:
        """Splits a cover into pieces of at most `max_words` that begin and end with words of the query. Yields the
        first word, the last word, the number of words, and of words of the query."""
        begin = first
        while begin <= last:
            begin = next((place for place in range(begin, last + 1) if self.words[place].is_wanted), last)
            words = wanted = 0
            place = begin
            while place <= last and words < self.options.max_words:
                words += self.words[place].counts
                wanted += self.words[place].is_wanted
                place += 1
            end = last
            if end > place:
                end = place
                while end > begin and not self.words[end].is_wanted:
                    words -= self.words[end].counts
                    end -= 1
            yield begin, end, words, wanted
            begin = end + 1

    def _stretch(self, first: int, last: int, count: int) -> tuple[int, int]:
        most = self.options.max_words
        if count >= most:
            return first, last
        room = (most - count) // 2
        taken, begin, place = 0, first, first - 1
        while place >= 0 and taken < room and not self.words[place].shown:
            count += self.words[place].counts
            taken += self.words[place].counts
            begin = place
            place -= 1
        while begin < first and self.bad_end(begin):
            count -= self.words[begin].counts
            begin += 1
        end, place = last, last + 1
        while place < len(self.words) and count < most and not self.words[place].shown:
            count += self.words[place].counts
            end = place
            place += 1
        while end > last and self.bad_end(end):
            end -= 1
        return begin, end

    # --- the result ----------------------------------------------------------------------------------------------

    def headline(self) -> str:
        options = self.options
        parts: list[str] = []
        within, fragments = False, 0
        for word in self.words:
            if word.shown:
                if not within and fragments:
                    parts.append(options.delimiter)
                fragments += not within
                within = True
                if word.kind == _TAG and not options.highlight_all:
                    parts.append(" ")
                elif word.kind not in _WHOLES:
                    parts.append(f"{options.start}{word.text}{options.stop}" if word.marked else word.text)
            elif not word.repeated:
                within = False
        return "".join(parts)


def _number(query: Query | None, operands: list[Operand]) -> Query | None:
    """Returns the query with numbers instead of its operands, and adds the operands in PostgreSQL's order, right sides
    first. So equal operands are different words. Weights of operands are removed, because a text's words have none."""
    if query is None or isinstance(query, Hole):
        return query
    if isinstance(query, Operand):
        operands.append(query)
        return Operand(str(len(operands) - 1))
    right = _number(query.right, operands)
    assert right is not None
    return replace(query, left=_number(query.left, operands), right=right)


def headline(configuration: Configuration, text: str, query: Query | None, options: Options = _PLAIN) -> str:
    """Returns the headline of a text."""
    found = _Text(configuration, text, query, options)
    if not found.words:
        return ""
    if options.max_fragments:
        found.choose_fragments()
    elif options.highlight_all:
        found.show(0, len(found.words) - 1)
    else:
        found.choose_one()
    return found.headline()
