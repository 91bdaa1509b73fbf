"""Texts without accents, by the rules of PostgreSQL's package unaccent (catalog/data/unaccent.rules)."""

from __future__ import annotations

import functools
import pathlib


@functools.cache
def _rules() -> dict[int, str]:
    path = pathlib.Path(__file__).resolve().parent.parent / "data" / "unaccent.rules"
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return {ord(source): "".join(target) for source, *target in lines}


def without_accents(text: str) -> str:
    return text if text.isascii() else text.translate(_rules())
