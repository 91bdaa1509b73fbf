"""PostgreSQL's keywords and their categories, from `pg_get_keywords()` of release 15.

The category determines where a keyword may be a name (PostgreSQL 16 manual, appendix C):
U unreserved: everywhere; C col_name: not as function or type name; T type_func_name: only as function or type name;
R reserved: nowhere, except after AS and after a dot.
Whether a keyword may be a label without AS (`select 1 x`) is a separate property, which most keywords of every category
have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import catalog

_FILE: Final = Path(catalog.__path__[0]) / "data" / "pg_keywords.tsv"


def _read_keywords() -> dict[str, tuple[str, bool]]:
    rows = [line.split("\t") for line in _FILE.read_text("utf-8").splitlines()[1:]]
    return {word: (category, bare_label == "t") for word, category, bare_label in rows}


KEYWORDS: Final[dict[str, tuple[str, bool]]] = _read_keywords()


def _of(categories: str) -> frozenset[str]:
    return frozenset(word for word, (category, _) in KEYWORDS.items() if category in categories) | {"IDENT"}


# The grammar's classes of names, as sets of token keys.
COLUMN_NAME: Final = _of("UC")  # ColId
TYPE_FUNCTION_NAME: Final = _of("UT")  # type_function_name
NON_RESERVED_WORD: Final = _of("UCT")  # NonReservedWord
LABEL: Final = _of("UCTR")  # ColLabel
BARE_LABEL: Final = frozenset(word for word, (_, bare) in KEYWORDS.items() if bare) | {"IDENT"}
