"""The names of error conditions (PostgreSQL manual, appendix A): each stands for one SQLSTATE or several."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import catalog

OTHERS = "00000"  # WHEN OTHERS
_FILE = Path(catalog.__path__[0]) / "data" / "pg_errcodes.tsv"


@cache
def conditions() -> dict[str, tuple[str, ...]]:
    """The SQLSTATEs of each name. That of a class ends in 000, and stands for all of the class in a handler."""
    found: dict[str, tuple[str, ...]] = {}
    for line in _FILE.read_text("utf-8").splitlines()[1:]:
        sqlstate, name = line.split("\t")
        found[name] = (*found.get(name, ()), sqlstate)
    return found
