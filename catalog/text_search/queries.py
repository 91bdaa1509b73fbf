"""tsquery: operands and the operators ! & | <-> between them.

There are three ways to read a query: literally (the type's input), with each operand converted by a configuration
(to_tsquery), or as a whole text whose words are joined by one operator (plainto_, phraseto_tsquery). Text of a search
box has a separate grammar (web.py). A stop word becomes a hole, which increases the distances of phrases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from catalog.errors import SqlError
from catalog.long_numbers import int_of
from catalog.text_caches import remembering
from catalog.text_search.configurations import Configuration, place_lexemes
from catalog.text_search.words import WEIGHTS, WordReader, quote_word

NOT, AND, OR, PHRASE = "!", "&", "|", "<->"
_PRIORITIES = {OR: 1, AND: 2, PHRASE: 3, NOT: 4}
MOST_DISTANCE = 16384


@dataclass(frozen=True, slots=True)
class Operand:
    """A word. `weights`: bits, 1 for D to 8 for A; 0 for any."""

    lexeme: str
    weights: int = 0
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator with its operands. `left` is None for NOT. `distance` is that of a phrase."""

    operator: str
    left: Query | None
    right: Query
    distance: int = 0


@dataclass(frozen=True, slots=True)
class Hole:
    """A stop word."""


Query = Operand | Operation | Hole
Push = Callable[[str, int, bool], Query]  # (operand, weights, whether it is a prefix) -> query


class Builder:
    """Builds a query from operands and operators in the order of the text, by precedence (makepol)."""

    def __init__(self) -> None:
        self._operands: list[Query] = []
        self._operators: list[tuple[str, int]] = []  # with distances; "(" is a mark

    def operand(self, query: Query) -> None:
        self._operands.append(query)

    def operator(self, operator: str, distance: int = 0) -> None:
        """Adds an operator. NOT is a prefix operator; the others are left-associative."""
        self._reduce(_PRIORITIES[operator] + (1 if operator == NOT else 0))
        self._operators.append((operator, distance))

    def open(self) -> None:
        self._operators.append(("(", 0))

    def close(self) -> None:
        self._reduce(0)
        self._operators.pop()

    def _reduce(self, least: int) -> None:
        while self._operators and self._operators[-1][0] != "(":
            operator, distance = self._operators[-1]
            if _PRIORITIES[operator] < least:
                return
            self._operators.pop()
            right = self._operands.pop()
            left = None if operator == NOT else self._operands.pop()
            self._operands.append(Operation(operator, left, right, distance))

    def result(self) -> Query | None:
        self._reduce(0)
        return self._operands[0] if self._operands else None


class _Reader:
    """The parser of tsquery's grammar."""

    def __init__(self, text: str, push: Push) -> None:
        self._text = text
        self._at = 0
        self._push = push
        self._builder = Builder()

    def _error(self) -> SqlError:
        return SqlError("42601", f'syntax error in tsquery: "{self._text}"')

    def read(self) -> Query | None:
        depth, first, after_operand = 0, True, False
        while True:
            self._skip_space()
            char = self._text[self._at : self._at + 1]
            if not after_operand:
                if char == "!":
                    self._at += 1
                    self._builder.operator(NOT)
                elif char == "(":
                    self._at += 1
                    depth += 1
                    self._builder.open()
                elif char == ":":
                    raise self._error()
                else:
                    if not self._operand():
                        if first:
                            break
                        raise SqlError("42601", f'no operand in tsquery: "{self._text}"')
                    after_operand = True
                first = False
                continue
            if not char:
                if depth:
                    raise self._error()
                break
            if char == ")":
                self._at += 1
                depth -= 1
                if depth < 0:
                    raise self._error()
                self._builder.close()
                continue
            after_operand = False
            if char in "&|":
                self._at += 1
                self._builder.operator(AND if char == "&" else OR)
            else:
                self._builder.operator(PHRASE, self._distance())
        return self._builder.result()

    def _skip_space(self) -> None:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1

    def _operand(self) -> bool:
        reader = WordReader(self._text, self._at, of_query=True)
        found = reader.next()
        if found is None:
            return False
        self._at = reader.at
        weights, prefix = 0, False
        if self._text[self._at : self._at + 1] == ":":
            self._at += 1
            while (letter := self._text[self._at : self._at + 1].upper()) and letter in "ABCD*":
                if letter == "*":
                    prefix = True
                else:
                    weights |= 1 << WEIGHTS.index(letter)
                self._at += 1
        self._builder.operand(self._push(found[0], weights, prefix))
        return True

    def _distance(self) -> int:
        """Reads the rest of <-> or <n>, and returns the distance."""
        end = self._text.find(">", self._at)
        inside = self._text[self._at + 1 : end] if self._text[self._at] == "<" and end > 0 else ""
        if inside == "-":
            distance = 1
        elif inside.isdecimal() and inside.isascii():
            distance = int_of(inside)
            if distance > MOST_DISTANCE:
                raise bad_distance()
        else:
            raise self._error()
        self._at = end + 1
        if self._at == len(self._text):
            raise self._error()
        return distance


def bad_distance() -> SqlError:
    return SqlError(
        "22023",
        f"distance in phrase operator must be an integer value between zero and {MOST_DISTANCE} inclusive",
    )


def parse_query(text: str) -> str:
    """tsqueryin: converts input text to the printed text. Raises 42601, 22023, 54000."""
    return print_query(_Reader(text, Operand).read())


@remembering(512)
def query_of(text: str) -> Query | None:
    """Returns the query of a printed text; None for the empty one."""
    return _Reader(text, Operand).read()


# ---- with a configuration -------------------------------------------------------------------------------------------


def words_of(configuration: Configuration, text: str, operator: str, weights: int = 0, prefix: bool = False) -> Query:
    """Returns the words of a text, joined by an operator (pushval_morph); a hole if there are none. The variants of a
    word are alternatives, and the lexemes of a variant belong together."""
    found: Query | None = None
    last = 0
    for position, group in groupby(place_lexemes(configuration, text), lambda item: item[1]):
        holes = position - last - 1 if last else 0
        for _ in range(holes):
            found = _chain(found, operator, Hole())
        word: Query | None = None
        for _, variant in groupby(group, lambda item: item[0].variant):
            together: Query | None = None
            for lexeme, _ in variant:
                together = _chain(together, AND, Operand(lexeme.text, weights, prefix or lexeme.prefix))
            assert together is not None
            word = _chain(word, OR, together)
        assert word is not None
        found = _chain(found, operator, word)
        last = position
    return Hole() if found is None else found


def _chain(left: Query | None, operator: str, right: Query) -> Query:
    return right if left is None else Operation(operator, left, right, 1 if operator == PHRASE else 0)


def to_query(configuration: Configuration, text: str) -> str:
    """to_tsquery. Raises 42601."""

    def push(word: str, weights: int, prefix: bool) -> Query:
        return words_of(configuration, word, PHRASE, weights, prefix)

    return print_query(without_holes(_Reader(text, push).read()))


def plain_query(configuration: Configuration, text: str, operator: str) -> str:
    """plainto_tsquery (&), phraseto_tsquery (<->)."""
    return print_query(without_holes(words_of(configuration, text, operator)))


def without_holes(query: Query | None) -> Query | None:
    """clean_stopword: removes stop words, and adds their places to the distances of phrases."""
    return None if query is None else _fill(query)[0]


def _fill(query: Query) -> tuple[Query | None, int, int]:
    """Returns the query without holes, and by how much the distances to its left and right increase."""
    if isinstance(query, Hole):
        return None, 0, 0
    if isinstance(query, Operand):
        return query, 0, 0
    right, right_before, right_after = _fill(query.right)
    if query.left is None:
        return (None if right is None else replace(query, right=right)), right_before, right_after
    left, left_before, left_after = _fill(query.left)
    phrase = query.operator == PHRASE
    if left is None and right is None:
        grown = left_before + query.distance + right_before if phrase else max(left_before, right_before)
        return None, grown, grown
    if left is None:
        return right, (left_before + query.distance + right_before) if phrase else right_before, right_after
    if right is None:
        return left, left_before, (left_after + query.distance + right_after) if phrase else left_after
    if phrase:
        distance = query.distance + left_after + right_before
        return replace(query, left=left, right=right, distance=distance), left_before, right_after
    return replace(query, left=left, right=right), 0, 0


# ---- text -----------------------------------------------------------------------------------------------------------


def print_query(query: Query | None) -> str:
    return "" if query is None else _text(query, 0, False)


def _text(query: Query, above: int, right_of_phrase: bool) -> str:
    if isinstance(query, Operand):
        text = quote_word(query.lexeme)
        if query.prefix or query.weights:
            letters = "".join(letter for place, letter in ((3, "A"), (2, "B"), (1, "C"), (0, "D"))
                              if query.weights & 1 << place)  # fmt: skip
            text += ":" + ("*" if query.prefix else "") + letters
        return text
    assert isinstance(query, Operation)
    priority = _PRIORITIES[query.operator]
    if query.left is None:
        text = "!" + _text(query.right, priority, False)
        return f"( {text} )" if priority < above else text
    phrase = query.operator == PHRASE
    sign = query.operator if not phrase or query.distance == 1 else f"<{query.distance}>"
    text = f"{_text(query.left, priority, False)} {sign} {_text(query.right, priority, phrase)}"
    return f"( {text} )" if priority < above or (phrase and right_of_phrase) else text


def nodes(query: Query | None) -> Iterator[Query]:
    """Yields every node: an operator, its right side, then its left side, as PostgreSQL stores them."""
    if query is not None:
        yield query
        if isinstance(query, Operation):
            yield from nodes(query.right)
            yield from nodes(query.left)


def operands(query: Query | None) -> list[Operand]:
    """Returns the operands in the order of their lexemes, each lexeme once."""
    found: dict[str, Operand] = {}
    for node in nodes(query):
        if isinstance(node, Operand):
            found.setdefault(node.lexeme, node)
    return [found[lexeme] for lexeme in sorted(found)]
