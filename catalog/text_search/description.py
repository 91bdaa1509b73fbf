"""The text search configurations and dictionaries of a database as text, for the worker process, which has no catalog.

A text also has the times of change of the files, so that a changed file is a changed text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import orjson

from catalog import rows
from catalog.functions import added
from catalog.functions.added import Added
from catalog.text_search.files import KINDS, stamp_of
from catalog.text_search.objects import (
    TextSearchConfiguration,
    TextSearchDictionary,
)


def describe() -> str:
    """The objects of the current statement's database, and its search path; '' if users have made none."""
    found, path = added.current()
    if not found.text_search:
        return ""
    items = [(rows.object_key(item).hex(), rows.encode(item).decode()) for item in found.text_search.values()]
    stamps = [
        stamp_of(value, *KINDS[name])
        for item in found.text_search.values()
        if isinstance(item, TextSearchDictionary)
        for name, value, _ in item.options
        if name in KINDS
    ]
    names = [[oid, *name] for oid, name in {**found.configurations, **found.dictionaries}.items()]
    return orjson.dumps([items, names, path, stamps]).decode()


@contextmanager
def lexicon_of(described: str) -> Iterator[None]:
    """Makes the described objects current in this block."""
    if not described:
        yield
        return
    items, names, path, _ = orjson.loads(described)
    objects = [rows.decode(bytes.fromhex(key), value.encode()) for key, value in items]
    text_search = {
        item.oid: item for item in objects if isinstance(item, TextSearchConfiguration | TextSearchDictionary)
    }
    shown = {oid: (schema, name) for oid, schema, name in names}
    configured = {oid for oid, item in text_search.items() if isinstance(item, TextSearchConfiguration)}
    before = added.current()
    added.restore(
        (
            Added(
                dictionaries={oid: name for oid, name in shown.items() if oid not in configured},
                configurations={oid: shown[oid] for oid in configured},
                text_search=text_search,
            ),
            tuple(path),
        )
    )
    try:
        yield
    finally:
        added.restore(before)
