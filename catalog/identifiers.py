"""Names and constants in the form of SQL, quoted where necessary (PostgreSQL 16 manual, 4.1.1 and 4.1.2)."""

from __future__ import annotations

import functools
import pathlib
import re

_PLAIN_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]*")


@functools.cache
def _reserved_words() -> frozenset[str]:
    """The key words that quote_ident() quotes: all except unreserved ones."""
    data = pathlib.Path(__file__).resolve().parent / "data" / "pg_keywords.tsv"
    rows = (line.split("\t") for line in data.read_text().splitlines()[1:])
    return frozenset(row[0] for row in rows if row[1] != "U")


def quote_identifier(text: str) -> str:
    """quote_ident(): quotes a name unless it is a plain lower-case identifier and not a reserved word."""
    if _PLAIN_IDENTIFIER.fullmatch(text) and text not in _reserved_words():
        return text
    return '"' + text.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    quoted = "'" + text.replace("'", "''").replace("\\", "\\\\") + "'"
    return "E" + quoted if "\\" in text else quoted


def quote_nullable(text: str | None) -> str:
    return "NULL" if text is None else quote_literal(text)


def canonical_name(text: str) -> str:
    """Quotes the parts of a name, which may be qualified, as quote_ident does: 'S."T"' becomes 's."T"'. The brackets of
    an array type stay."""
    text = text.strip()
    if text.endswith("[]"):
        return canonical_name(text[:-2]) + "[]"
    if re.fullmatch(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*", text):
        return ".".join(quote_identifier(part) for part in text.split("."))
    parts = re.findall(r'\s*(?:"((?:[^"]|"")+)"|([^".\s]+(?: [^".]+)*))\s*(?:\.|$)', text)
    return ".".join(quote_identifier(quoted.replace('""', '"') if quoted else plain.lower()) for quoted, plain in parts)


def split_identifiers(text: str) -> list[str]:
    """Returns the names of a list: '"$user", public' -> ['$user', 'public']. Names without quotes are folded to lower
    case."""
    names = []
    for quoted, plain in re.findall(r'\s*(?:"((?:[^"]|"")*)"|([^",\s]+))\s*(?:,|$)', text):
        names.append(quoted.replace('""', '"') if quoted else plain.lower())
    return names


LIMIT = 63  # bytes of a name


def join_names(first: str, second: str, label: str) -> str:
    """first_second_label, shortened to 63 bytes."""
    room = LIMIT - len(label) - 1 - (1 if second else 0)
    one, two = first.encode(), second.encode()
    while len(one) + len(two) > room:
        if len(one) > len(two):
            one = one[:-1]
        else:
            two = two[:-1]
    parts = [one.decode(errors="ignore"), two.decode(errors="ignore"), label]
    return "_".join(part for part in parts if part)
