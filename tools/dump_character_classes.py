"""Writes catalog/data/character_classes.tsv: which characters belong to alpha, punct and the other classes of C.UTF-8.

Regular expressions and initcap() ask for these classes, and Python's idea of a letter is another one (combining marks,
superscripts). One line a class: its name, and its ranges of code points in hexadecimal. Run once per supported release:

    python tools/dump_character_classes.py "host=127.0.0.1 port=5433 user=postgres"
"""

from __future__ import annotations

import pathlib
import sys

import psycopg

DATA = pathlib.Path(__file__).resolve().parent.parent / "catalog" / "data"
CLASSES = ("alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit")
QUERY = """
SELECT min(code), max(code) FROM (
    SELECT code, code - row_number() OVER (ORDER BY code) AS island
    FROM generate_series(1, 1114111) AS code
    WHERE code NOT BETWEEN 55296 AND 57343 AND chr(code) ~ ('[[:' || %s || ':]]')
) AS members GROUP BY island ORDER BY 1
"""


def main(dsn: str) -> None:
    """Asks the server about every code point of every class."""
    with psycopg.connect(dsn) as connection, (DATA / "character_classes.tsv").open("w") as out:
        out.write("class\tranges\n")
        for name in CLASSES:
            ranges = connection.execute(QUERY, (name,)).fetchall()
            shown = (f"{low:x}" if low == high else f"{low:x}-{high:x}" for low, high in ranges)
            out.write(f"{name}\t{' '.join(shown)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
