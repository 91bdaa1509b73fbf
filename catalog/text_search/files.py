"""The files of text search dictionaries: lists of stop words, synonyms and thesauri, in UTF-8.

PostgreSQL's own are in catalog/data. The directory $SHOAL_TEXT_SEARCH_FILES has those of the server's owner, and comes
first; each node of a cluster needs the same ones. A name consists of small letters, digits and underscores, so a
statement can read no file elsewhere.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from functools import lru_cache

from catalog.errors import SqlError

_DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
_LARGEST = 1 << 22  # bytes; such a file is read in some 10 ms

KINDS = {"stopwords": ("stop", "stop-word"), "synonyms": ("syn", "synonym"), "dictfile": ("ths", "thesaurus")}
"""By the option that names a file: its extension, and its kind in messages."""
Stamp = tuple[str, int, int]  # a file, its time of change and its size


def _places() -> Iterator[pathlib.Path]:
    own = os.environ.get("SHOAL_TEXT_SEARCH_FILES", "")
    if own:
        yield pathlib.Path(own)
    yield _DATA / "stop_words"
    yield _DATA / "tsearch_data"


def stamp_of(name: str, extension: str, what: str) -> Stamp:
    """Finds a file. Raises 22023 for a bad name, F0000 for a missing file, 54000 for one that is too large."""
    if not _ALLOWED.issuperset(name):
        raise SqlError("22023", f'invalid text search configuration file name "{name}"')
    called = f"{name}.{extension}"
    for place in _places():
        path = place / called
        if path.is_file():
            state = path.stat()
            if state.st_size > _LARGEST:
                raise SqlError("54000", f'{what} file "{called}" is larger than {_LARGEST >> 20} MB')
            return str(path), state.st_mtime_ns, state.st_size
    raise SqlError("F0000", f'could not open {what} file "{called}": No such file or directory')


@lru_cache(64)
def lines_of(stamp: Stamp) -> tuple[str, ...]:
    """The lines of a file as it was found. Raises 22021 for bytes that are not UTF-8."""
    try:
        text = pathlib.Path(stamp[0]).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise SqlError("22021", 'invalid byte sequence for encoding "UTF8"') from None
    return tuple(text.split("\n"))
