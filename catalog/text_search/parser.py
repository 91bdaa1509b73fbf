"""The default parser: splits a text into tokens, as PostgreSQL's wparser_def.c does.

The parser is an automaton that reads one character after the other, and tries alternatives in order. `>state` tries an
alternative in a nested state: if it fails (`pop`), the parser returns to the earlier position and continues with the
next test; if it succeeds, it drops the last saved position (`clear`) or all of them (`all`). `=type` ends a token
before the current character.

Each entry of the table is a state: its tests in order, each with its actions. A test is a class of characters or a
single character; `end` is the end of the text, `*` is any character. `.` stays in the state, `again` tests the
character again, `back` returns to the beginning of the token that ends here (it has parts), `rewind` drops the
characters read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from catalog.functions.character_classes import classes, contains

DEFAULT_PARSER = 3722  # its OID
TOKEN_TYPES = (
    ("asciiword", "Word, all ASCII"), ("word", "Word, all letters"), ("numword", "Word, letters and digits"),
    ("email", "Email address"), ("url", "URL"), ("host", "Host"), ("sfloat", "Scientific notation"),
    ("version", "Version number"), ("hword_numpart", "Hyphenated word part, letters and digits"),
    ("hword_part", "Hyphenated word part, all letters"), ("hword_asciipart", "Hyphenated word part, all ASCII"),
    ("blank", "Space symbols"), ("tag", "XML tag"), ("protocol", "Protocol head"),
    ("numhword", "Hyphenated word, letters and digits"), ("asciihword", "Hyphenated word, all ASCII"),
    ("hword", "Hyphenated word, all letters"), ("url_path", "URL path"), ("file", "File or path name"),
    ("float", "Decimal notation"), ("int", "Signed integer"), ("uint", "Unsigned integer"), ("entity", "XML entity"),
)  # fmt: skip
NUMBERS = {name: number for number, (name, _) in enumerate(TOKEN_TYPES, 1)}

_TABLE = r"""
base: end stop | < >tag_first | ignored space | letter ascii_word | alpha word | digit number | - >sign | + >sign |
  & >entity_first | ~ >file_home | / >file_first | . >path_dots | * space
number_word: end =numword | alnum . | special . | @ >email | / >file_first | . >file_next | - >hyphen_number_first |
  * =numword
ascii_word: end =asciiword | letter . | . >domain_first | . >file_next | - >host_hyphen | - >hyphen_ascii_first |
  _ >host_hyphen | @ >email |
  : >protocol_first | / >file_first | digit >host | digit number_word | alpha word | special word | * =asciiword
word: end =word | alpha . | special . | digit number_word | - >hyphen_word_first | * =word
number: end =uint | digit . | . >domain_first | . >fraction_first | - >host_hyphen | _ >host_hyphen | @ >email |
  e >exponent_first | E >exponent_first | letter >host |
  alpha number_word | special number_word | / >file_first | * =uint
sign: end pop | digit clear signed | * pop
signed: end =int | digit . | . >signed_fraction_first | e >exponent_first | E >exponent_first | * =int
space: end =blank | < =blank | ignored . | - =blank | + =blank | & =blank | / =blank | notalnum . | * =blank
fraction_first: end pop | digit clear fraction | * pop
fraction: end =float | digit . | . >version_first | e >exponent_first | E >exponent_first | * =float
signed_fraction_first: end pop | digit clear signed_fraction | * pop
signed_fraction: end =float | digit . | . >signed_version | e >exponent_first | E >exponent_first | * =float
signed_version: end pop | digit rewind again unsigned_version | * pop
unsigned_version: end pop | digit all =blank number | * .
version_first: end pop | digit clear version | * pop
version: end =version | digit . | . >version_first | * =version
exponent_first: end pop | digit clear exponent | + exponent_sign | - exponent_sign | * pop
exponent_sign: end pop | digit clear exponent | * pop
exponent: end =sfloat | digit . | * =sfloat
entity_first: end pop | # entity_number_first | letter entity | : entity | _ entity | * pop
entity: end pop | alnum . | : . | _ . | . . | - . | ; entity_end | * pop
entity_number_first: end pop | x entity_hex_first | X entity_hex_first | digit entity_number | * pop
entity_hex_first: end pop | xdigit entity_hex | * pop
entity_number: end pop | digit . | ; entity_end | * pop
entity_hex: end pop | xdigit . | ; entity_end | * pop
entity_end: * clear =entity
tag_first: end pop | / >tag_close | ! >comment_first | ? >xml_begin | letter >tag_name | : >tag_name | _ >tag_name |
  * pop
xml_begin: end pop | x tag | * pop
tag_close: end pop | letter tag_name | * pop
tag_name: end pop | / tag_empty | > special_tag tag_end | blank special_tag tag | alnum . | : . | _ . | . . | - . |
  * pop
tag_empty: end pop | > tag_end | * pop
tag: end pop | > special_tag tag_end | ' tag_quote | " tag_quotes | letter . | digit . | = . | - . | _ . | # . | / . |
  : . | . . |
  & . | ? . | % . | ~ . | blank special_tag . | * pop
tag_quote: end pop | \ >tag_backslash | ' tag | * .
tag_quotes: end pop | \ >tag_backslash | " tag | * .
tag_backslash: end pop | * merge
tag_end: * all =tag
comment_first: end pop | - comment_second | D tag | d tag | * pop
comment_second: end pop | - comment | * pop
comment: end pop | - comment_dash | * .
comment_dash: end pop | - comment_dashes | * comment
comment_dashes: end pop | - . | > comment_end | * comment
comment_end: * all =tag
domain_first: end pop | letter domain_second | digit host | * pop
domain_second: end pop | letter domain | digit >host | - >host_hyphen | _ >host_hyphen | . >domain_first | @ >email |
  * pop
domain: end all =host | letter . | digit >host | : >port_first | - >host_hyphen | _ >host_hyphen | . >domain_first |
  @ >email | digit pop |
  wanted all =host url_path_start | / >url | * all =host
port_first: end pop | digit port | * pop
port: end all =host | digit . | wanted all =host url_path_start | / >url | * all =host
host_hyphen: end pop | digit host | letter host | * pop
host: end pop | digit . | letter . | @ >email | . >domain_first | - >host_hyphen | _ >host_hyphen | * pop
email: wanted pop | a_host all =email | * pop
file_first: end pop | letter file | digit file | . path_first | _ file | ~ >file_home | * pop
file_home: end pop | letter file | digit file | _ file | / file_first | * pop
path_first: end pop | letter file | digit file | _ file | . path_second | / file_first | * pop
path_dots: end pop | . path_second | / file_first | * pop
path_second: end clear =file | / >file_first | / clear =file | blank clear =file | * pop
file: end =file | letter . | digit . | . >file_next | _ . | - . | / >file_first | * =file
file_next: end pop | letter clear file | digit clear file | _ clear file | * pop
path_first_of_url: end pop | urlchar url_path | * pop
url_path_start: * url_path
url_path: end =url_path | urlchar . | * =url_path
url: end pop | a_path all back want =url | * pop
protocol_first: end pop | / protocol_second | * pop
protocol_second: end pop | / protocol_end | * pop
protocol_end: * all =protocol
hyphen_ascii_first: end pop | letter hyphen_ascii | alpha hyphen_word | digit hyphen_digits | * pop
hyphen_ascii: end all back =asciihword parts | letter . | alpha hyphen_word | special hyphen_word |
  digit hyphen_number |
  - >hyphen_ascii_first | * all back =asciihword parts
hyphen_word_first: end pop | alpha hyphen_word | digit hyphen_digits | * pop
hyphen_word: end all back =hword parts | alpha . | special . | digit hyphen_number | - >hyphen_word_first |
  * all back =hword parts
hyphen_number_first: end pop | alpha hyphen_number | digit hyphen_digits | * pop
hyphen_number: end all back =numhword parts | alnum . | special . | - >hyphen_number_first | * all back =numhword parts
hyphen_digits: end pop | digit . | alpha hyphen_number | special hyphen_number | * pop
parts: end again base | letter ascii_part | alpha word_part | digit >digits_part | - >part_hyphen | * again base
part_hyphen: end pop | alnum clear =blank parts | special clear =blank parts | * pop
word_part: end =hword_part | alpha . | special . | digit number_part | * =hword_part parts
ascii_part: end =hword_asciipart | letter . | alpha word_part | special word_part | digit number_part |
  * =hword_asciipart parts
number_part: end =hword_numpart | alnum . | special . | * =hword_numpart parts
digits_part: end pop | digit . | alpha clear number_part | special clear number_part | * pop
"""


@dataclass(frozen=True, slots=True)
class _Step:
    """A test and its actions: see the module's docstring."""

    place: int
    test: str
    words: frozenset[str]
    token: int  # its type, 0 for none
    within: bool
    target: str | None


_WORDS = frozenset(("pop", "clear", "all", "merge", "again", "rewind", "back", "want", "special_tag", "stop"))
_DYNAMIC = frozenset(("ignored", "wanted", "a_host", "a_path"))


def _read_table() -> dict[str, tuple[_Step, ...]]:
    states: dict[str, tuple[_Step, ...]] = {}
    for entry in re.split(r"\n(?! )", _TABLE.strip()):
        name, _, tests = entry.partition(": ")
        steps = []
        for place, text in enumerate(re.split(r"\s+\|\s+", tests)):
            test, *actions = text.split()
            token, target, within = 0, None, False
            for action in actions:
                if action.startswith("="):
                    token, target = NUMBERS[action[1:]], target or "base"
                elif action.startswith(">"):
                    target, within = action[1:], True
                elif action not in _WORDS and action != ".":
                    target = action
            steps.append(_Step(place, test, frozenset(actions) & _WORDS, token, within, target))
        states[name] = tuple(steps)
    return states


_STATES = _read_table()
_CLASSES: dict[str, str] = {"alpha": "alpha", "alnum": "alnum", "digit": "digit", "xdigit": "xdigit", "blank": "space"}


def _holds(test: str, char: str) -> bool:
    """Whether a character ('' at the end) meets a test."""
    if test == "*" or test in _DYNAMIC:
        return True
    if test == "end" or not char:
        return (test == "end" and not char) or (not char and test == "notalnum")
    if test in _CLASSES:
        return contains(classes()[_CLASSES[test]], ord(char))
    if test == "letter":
        return char.isascii() and char.isalpha()
    if test == "urlchar":
        return "!" <= char <= "~" and char not in '"<>\\^`{|}'
    if test == "special":
        return unicodedata.category(char) in ("Mn", "Me", "Mc")
    if test.startswith("not"):
        return not _holds(test[3:], char)
    return test == char


@cache
def _steps(state: str, char: str) -> tuple[_Step, ...]:
    """Returns the steps of a state whose test a character meets."""
    return tuple(step for step in _STATES[state] if _holds(step.test, char))


class _Place:
    """The parser's position and state, and the place to which it returns (`before`)."""

    __slots__ = ("before", "length", "position", "state", "tried")

    def __init__(self, state: str, position: int, length: int, before: _Place | None) -> None:
        self.state = state
        self.position = position
        self.length = length  # of the token so far
        self.before = before
        self.tried = -1  # the last step that was tried in a nested state


# A word of ASCII letters, or white space and commas, if the next character cannot change the type of the token.
_PLAIN = re.compile(r"([A-Za-z]+)(?=[ \t\n,;!?()\"'\[\]{}*|=]|\Z)|([ \t\n,]+)(?=[A-Za-z])")


class _Parser:
    def __init__(self, text: str, position: int = 0) -> None:
        self._text = text
        self._place = _Place("base", position, 0, None)
        self._ignoring = False  # within <script> and <style>
        self._want_host = False

    def start_in(self, state: str) -> None:
        """Enters a nested state."""
        place = self._place
        self._place = _Place(state, place.position, place.length, place)

    def next(self) -> tuple[int, str] | None:
        """Returns the next token and its type; None at the end."""
        text, place = self._text, self._place
        start, size = place.position, len(text)
        if start >= size:
            return None
        if place.state == "base" and place.before is None and not self._ignoring and not self._want_host:
            plain = _PLAIN.match(text, start)
            if plain is not None:
                place.position = plain.end()
                return NUMBERS["asciiword" if plain[1] else "blank"], plain[0]
        place.tried = -1
        while True:
            place = self._place
            char = text[place.position] if place.position < size else ""
            step = self._choose(place, char, start)
            length = self._do(step, char, start)
            if step.token:
                return step.token, text[start : start + length]
            place = self._place
            if place.position >= size and "again" not in step.words:
                return None
            if "again" not in step.words and "pop" not in step.words and place.position < size:
                place.position += 1
                place.length += 1

    def _choose(self, place: _Place, char: str, start: int) -> _Step:
        tried, place.tried = place.tried, -1
        for step in _steps(place.state, char):
            if step.place > tried and (step.test not in _DYNAMIC or self._test(step.test, place, start)):
                return step
        raise AssertionError(place.state)

    def _test(self, test: str, place: _Place, start: int) -> bool:
        if test == "ignored":
            return self._ignoring
        if test == "wanted":
            wanted, self._want_host = self._want_host, False
            return wanted
        inner = _Parser(self._text, place.position)
        if test == "a_host":
            inner._want_host = True
        else:
            inner.start_in("path_first_of_url")
        found = inner.next()
        names = ("host",) if test == "a_host" else ("url_path", "file")
        if found is None or TOKEN_TYPES[found[0] - 1][0] not in names:
            return False
        place.position += len(found[1])
        place.length += len(found[1])
        return True

    def _do(self, step: _Step, char: str, start: int) -> int:
        """Executes a step's actions. Returns the length of the token if it ends here, else 0."""
        place, words = self._place, step.words
        if "special_tag" in words:
            self._enter_tag(self._text[start : start + place.length].lower())
        if "back" in words or "rewind" in words:
            place.position -= place.length
        if "rewind" in words:
            place.length = 0
        if "want" in words:
            self._want_host = True
        length = place.length
        if step.token:
            place.length = 0
        if "pop" in words:
            assert place.before is not None
            place = place.before
        elif step.within:
            place.tried = step.place
            place = _Place(place.state, place.position, place.length, place)
        elif "clear" in words:
            assert place.before is not None
            place.before = place.before.before
        elif "all" in words:
            place.before = None
        elif "merge" in words:
            assert place.before is not None
            place.before.position, place.before.length = place.position, place.length
            place = place.before
        if step.target is not None:
            place.state = step.target
        self._place = place
        return length

    def _enter_tag(self, tag: str) -> None:
        if tag in ("</script", "</style"):
            self._ignoring = False
        elif tag in ("<script", "<style"):
            self._ignoring = True


def tokens(text: str) -> Iterator[tuple[int, str]]:
    """Yields the tokens of a text in order, with their types (numbers from 1, as in TOKEN_TYPES)."""
    parser = _Parser(text)
    while (found := parser.next()) is not None:
        yield found
