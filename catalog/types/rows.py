"""PostgreSQL's declarations of all built-in types (pg_type of release 15), also of types without codecs."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One row of pg_type."""

    oid: int
    name: str  # typname
    length: int  # typlen: bytes, -1 varlena, -2 C string
    by_value: bool
    kind: str  # typtype: b base, p pseudo, r range, m multirange, c composite, d domain, e enum
    category: str
    preferred: bool
    delimiter: str
    relation: int
    element: int  # typelem: the type of a subscripted value; the type is an array only if category is 'A'
    array: int  # typarray
    base: int
    typmod: int
    collation: int
    alignment: str
    storage: str
    input: int
    output: int
    receive: int
    send: int
    typmod_in: int
    typmod_out: int


def read_type_rows(path: str = "data/pg_type.tsv") -> tuple[TypeRow, ...]:
    """Returns all rows of such a file, in the order of OIDs; by default the built-in types."""
    text = resources.files("catalog").joinpath(path).read_text(encoding="utf-8")
    reader = csv.reader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    next(reader)
    rows = []
    for fields in reader:
        oid, name, length, by_value, kind, category, preferred, delimiter, relation, element, array, base = fields[:12]
        typmod, collation, alignment, storage = fields[12:16]
        rows.append(
            TypeRow(
                int(oid),
                name,
                int(length),
                by_value == "t",
                kind,
                category,
                preferred == "t",
                delimiter,
                int(relation),
                int(element),
                int(array),
                int(base),
                int(typmod),
                int(collation),
                alignment,
                storage,
                *map(int, fields[16:22]),
            )
        )
    return tuple(rows)
