"""The extension unaccent (PostgreSQL 16 manual, F.48): removes accents, by the rules of PostgreSQL's package
(catalog/data/unaccent.rules)."""

from __future__ import annotations

import functools
import pathlib

from catalog.errors import SqlError
from catalog.functions.registry import implement, implements
from catalog.text_search.configurations import UNACCENT


@functools.cache
def _rules() -> dict[int, str]:
    path = pathlib.Path(__file__).resolve().parent.parent / "data" / "unaccent.rules"
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return {ord(source): "".join(target) for source, *target in lines}


def without_accents(text: str) -> str:
    return text if text.isascii() else text.translate(_rules())


@implements("unaccent_lexize")
def _refuse_lexize(*_: object) -> object:
    raise SqlError("0A000", "a call of unaccent_lexize() is not supported")


def _by_dictionary(*arguments: object) -> str:
    """unaccent([dictionary,] text)."""
    *dictionary, text = arguments
    assert isinstance(text, str)
    if dictionary not in ([], [UNACCENT]):
        raise SqlError("0A000", "unaccent() with a dictionary other than unaccent is not supported")
    return without_accents(text)


implement("unaccent_dict", _by_dictionary)
