"""Names and constants in the form of SQL, quoted where necessary (PostgreSQL 16 manual, 4.1.1 and 4.1.2)."""

from __future__ import annotations

import functools
import pathlib
import re
import string

from catalog.errors import SqlError

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


# ---- names as values ------------------------------------------------------------------------------------------------

NAME_BYTES = 63


def clip_name(value: str) -> str:
    """Truncates to 63 bytes between characters, as PostgreSQL truncates identifiers."""
    if len(value) <= NAME_BYTES // 4:
        return value
    data = value.encode()
    return value if len(data) <= NAME_BYTES else data[:NAME_BYTES].decode(errors="ignore")


_PART = re.compile(r'[ \t\n\r\f]*(?:"((?:[^"]|"")*)"|([^". \t\n\r\f][^. \t\n\r\f]*))[ \t\n\r\f]*(\.|\Z)')
_UPPER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def split_name(text: str) -> tuple[str, ...]:
    """Splits a name: 's."T"' -> ('s', 'T'), each truncated to 63 bytes (stringToQualifiedNameList). Raises 42602 for a
    malformed name."""
    names: list[str] = []
    at = 0
    while (found := _PART.match(text, at)) is not None:
        quoted, plain, separator = found.groups()
        names.append(clip_name(plain.translate(_UPPER) if quoted is None else quoted.replace('""', '"')))
        if not separator:
            return tuple(names)
        at = found.end()
    raise SqlError("42602", "invalid name syntax")
