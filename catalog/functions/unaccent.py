"""The extension unaccent (PostgreSQL 16 manual, F.48): removes accents, by the rules of PostgreSQL's package
(catalog/data/unaccent.rules)."""

from __future__ import annotations

from collections.abc import Callable

from catalog.errors import SqlError
from catalog.functions.base import Trait
from catalog.functions.registry import implement, implements
from catalog.text_search import configurations
from catalog.text_search.configurations import UNACCENT, Lexicon
from catalog.text_search.unaccented import without_accents


@implements("unaccent_lexize")
def _refuse_lexize(*_: object) -> object:
    raise SqlError("0A000", "a call of unaccent_lexize() is not supported")


def _by_dictionary(lexicon: Lexicon) -> Callable[..., str]:
    """unaccent([dictionary,] text)."""

    def change(*arguments: object) -> str:
        *dictionary, text = arguments
        assert isinstance(text, str)
        if dictionary in ([], [UNACCENT]):
            return without_accents(text)
        oid = dictionary[0]
        assert isinstance(oid, int)
        found = lexicon.dictionary(oid).lexize(text)
        return found[0].text if found else text

    return change


implement(
    "unaccent_dict",
    python_for_types=lambda types, result: _by_dictionary(configurations.current()),
    traits=(Trait.USES_LEXICON,),
)
