"""Descriptions of user and collated types for processes without a catalog: the worker, a reader of long values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from catalog import rows
from catalog.schema import UserType
from catalog.types import collated
from catalog.types.collated_oids import run_of
from catalog.types.user import entry_of, remember
from catalog.usertypes import entries_of, parts_of


def describe(oids: Iterable[int]) -> list[list[str]]:
    """The definitions of the user and collated types among these OIDs, as JSON, for a process without the catalog."""
    found: dict[int, list[str]] = {}
    pending = list(oids)
    while pending:
        oid = pending.pop()
        if (rules := collated.rules_of(oid)) is not None:
            first = run_of(oid)
            found[first] = ["", str(first), json.dumps(rules)]
            continue
        entry = entry_of(oid)
        if entry is not None and entry.definition is not None:  # every process knows the types of extensions
            item: UserType = entry.definition  # type: ignore[assignment]
            if item.oid not in found:
                pending += parts_of(item)
            found[item.oid] = [rows.object_key(item).hex(), rows.encode(item).decode("latin-1"), entry.schema]
    return list(found.values())


def learn(descriptions: Iterable[Sequence[str]]) -> None:
    """Registers the types that `describe` has described."""
    items = []
    for key, value, rest in descriptions:
        if not key:
            collated.learn(int(value), collated.Rules(*json.loads(rest)))
        else:
            items.append((rows.decode(bytes.fromhex(key), value.encode("latin-1")), rest))
    remember(entries_of(items))  # type: ignore[arg-type]
