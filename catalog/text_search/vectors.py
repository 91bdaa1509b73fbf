"""tsvector: lexemes in order, each with its positions and their weights (A to D; D is the lowest).

'cat':3A 'fat':2,11 'rat':12C
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from catalog.errors import SqlError
from catalog.text_caches import remembering
from catalog.text_search.words import LAST_POSITION, MOST_POSITIONS, WEIGHTS, Position, WordReader, quote_word

Vector = dict[str, tuple[Position, ...]]  # in the order of the lexemes' bytes
_MOST_BYTES = (1 << 20) - 1  # of all lexemes and positions


def make_vector(found: Mapping[str, Iterable[Position]] | Iterable[tuple[str, Iterable[Position]]]) -> Vector:
    """Returns a vector of lexemes in any order, which may be repeated. Raises 54000."""
    gathered: dict[str, dict[int, int]] = {}
    for lexeme, positions in found.items() if isinstance(found, Mapping) else found:
        known = gathered.setdefault(lexeme, {})
        for position, weight in positions:
            known[position] = max(weight, known.get(position, 0))
    vector = {lexeme: tuple(sorted(gathered[lexeme].items())[:MOST_POSITIONS]) for lexeme in sorted(gathered)}
    size = sizes(vector)
    if size > _MOST_BYTES:
        raise SqlError("54000", f"string is too long for tsvector ({size} bytes, max {_MOST_BYTES} bytes)")
    return vector


def sizes(vector: Vector) -> int:
    """Returns the bytes of lexemes and positions in PostgreSQL's own form."""
    size = 0
    for lexeme, positions in vector.items():
        size += len(lexeme.encode())
        if positions:
            size += size % 2 + 2 + 2 * len(positions)
    return size


def parse_vector(text: str) -> str:
    """tsvectorin: converts input text to the printed text. Raises 42601, 54000."""
    reader = WordReader(text)
    found = []
    while (word := reader.next()) is not None:
        found.append(word)
    return print_vector(make_vector(found))


@remembering(512)
def vector_of(text: str) -> Vector:
    """Returns the vector of a printed text. The result is cached: callers must not change it."""
    reader = WordReader(text)
    vector: Vector = {}
    while (word := reader.next()) is not None:
        vector[word[0]] = tuple(word[1])
    return vector


def print_vector(vector: Vector) -> str:
    parts = []
    for lexeme, positions in vector.items():
        text = quote_word(lexeme)
        if positions:
            text += ":" + ",".join(f"{number}{WEIGHTS[weight] if weight else ''}" for number, weight in positions)
        parts.append(text)
    return " ".join(parts)


def join_vectors(left: Vector, right: Vector) -> Vector:
    """tsvector_concat: the positions of `right` follow those of `left`."""
    last = max((number for positions in left.values() for number, _ in positions), default=0)
    found: list[tuple[str, Iterable[Position]]] = list(left.items())
    for lexeme, positions in right.items():
        moved = [(min(number + last, LAST_POSITION), weight) for number, weight in positions]
        if moved and number_of_last(moved) == LAST_POSITION:
            moved = [item for item in moved[:-1] if item[0] < LAST_POSITION] + [moved[-1]]
        found.append((lexeme, moved))
    return make_vector(found)


def number_of_last(positions: list[Position]) -> int:
    return positions[-1][0]


def sort_key(text: str) -> tuple[object, ...]:
    """silly_cmp_tsvector: compares by size, by the number of lexemes, then by the lexemes."""
    vector = vector_of(text)
    entries = tuple(
        (-bool(positions), lexeme.encode(), -len(positions), tuple((-number, -weight) for number, weight in positions))
        for lexeme, positions in vector.items()
    )
    return sizes(vector) + 4 * len(vector), len(vector), entries


def key_bytes(text: str) -> bytes:
    """Returns bytes with the order of `sort_key`."""
    vector = vector_of(text)
    parts = [(sizes(vector) + 4 * len(vector)).to_bytes(4, "big"), len(vector).to_bytes(4, "big")]
    for lexeme, positions in vector.items():
        parts += (b"\0" if positions else b"\1", lexeme.encode().replace(b"\0", b"\0\xff"), b"\0")
        parts.append((0xFFFF - len(positions)).to_bytes(2, "big"))
        parts += [(0xFFFF - number).to_bytes(2, "big") + bytes((3 - weight,)) for number, weight in positions]
    return b"".join(parts)
