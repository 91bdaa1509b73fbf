"""The paths of a tablespace's znodes and objects, and their encoding: JSON that older and newer readers understand.

Readers ignore unknown fields, and missing fields have defaults; `replication/interface.py` has their meanings. The head
is written with every commit, so it is short: its objects are lists instead of records (`[ledger, first, last, commit
id]`).
"""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from typing import Any, TypeVar

import orjson

from catalog.errors import SqlError
from replication.interface import Checkpoint, Epoch, Head, HeadObject, Ledger, LedgerList, Node, Replica, Spec

RECENT = 24
"""Objects that a head names: a follower closer than that fetches them without listing a ledger."""

_OBJECT = re.compile(r"(\d{20})-(\d{20})-([0-9a-f]{32})")
_LEDGER_FOLDER = re.compile(r"ledger-(\d{10})")

Record = TypeVar("Record", Epoch, Ledger, LedgerList, Checkpoint, Node, Replica, Spec, Head)
_FIELDS: dict[type, frozenset[str]] = {
    kind: frozenset(field.name for field in dataclasses.fields(kind))
    for kind in (Epoch, Ledger, LedgerList, Checkpoint, Node, Replica, Spec, Head)
}
_LISTED = tuple(field.name for field in dataclasses.fields(LedgerList) if field.name != "ledgers")


# --- znodes ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Paths:
    """The znodes of one tablespace."""

    root: str
    spec: str
    epoch: str
    head: str
    ledgers: str
    checkpoints: str
    replicas: str

    def replica(self, node: str) -> str:
        return f"{self.replicas}/{node}"

    def segment(self, number: int) -> str:
        return f"{self.ledgers}/{number}"


@cache
def paths(tablespace: bytes) -> Paths:
    """`tablespace`: its id, 16 bytes."""
    root = f"tablespaces/{tablespace.hex()}"
    return Paths(root, *(f"{root}/{name}" for name in ("spec", "epoch", "head", "ledgers", "checkpoints", "replicas")))


def node_path(node: str) -> str:
    return f"nodes/{node}"


def encode(record: Epoch | Node | Replica | Spec) -> bytes:
    return orjson.dumps(record)


def encode_head(head: Head) -> bytes:
    recent = [(item.ledger, item.first, item.last, item.commit_id) for item in head.recent[-RECENT:]]
    return orjson.dumps(
        {
            "lsn": head.lsn,
            "epoch": head.epoch,
            "hash": head.hash,
            "commit_time": head.commit_time,
            "bytes": head.bytes,
            "recent": recent,
        }
    )


def encode_checkpoints(checkpoints: tuple[Checkpoint, ...]) -> bytes:
    return orjson.dumps(checkpoints)


def encode_ledgers(listed: LedgerList) -> bytes:
    """A list that has never had a segment is a JSON list of records, which releases without segments can read."""
    if not listed.next_segment:
        return orjson.dumps(listed.ledgers)
    known = {name: getattr(listed, name) for name in _LISTED}
    return orjson.dumps({**known, **_compact(listed.ledgers)})


def encode_segment(ledgers: tuple[Ledger, ...]) -> bytes:
    return orjson.dumps(_compact(ledgers))


def _compact(ledgers: tuple[Ledger, ...]) -> dict[str, Any]:
    """Rows instead of records, and each URL once, because a list is written with every new ledger."""
    stores = list(dict.fromkeys(ledger.store for ledger in ledgers))
    number = {store: index for index, store in enumerate(stores)}
    rows = [
        (item.ledger, item.epoch, item.first, item.last, item.bytes, item.closed, number[item.store])
        for item in ledgers
    ]
    return {"stores": stores, "ledgers": rows}


def decode_epoch(data: bytes) -> Epoch:
    return _record(Epoch, _parse(data))


def decode_spec(data: bytes) -> Spec:
    spec = _record(Spec, _parse(data))
    return dataclasses.replace(
        spec, replicas=tuple(spec.replicas), asked=tuple(spec.asked), former_stores=tuple(spec.former_stores)
    )


def decode_node(data: bytes) -> Node:
    return _record(Node, _parse(data))


def decode_replica(data: bytes) -> Replica:
    return _record(Replica, _parse(data))


def decode_head(data: bytes) -> Head:
    value = _parse(data)
    value["recent"] = tuple(HeadObject(*item[:4]) for item in value.get("recent", ()))
    return _record(Head, value)


def decode_ledgers(data: bytes) -> LedgerList:
    value = _parse(data)
    if isinstance(value, list):
        return LedgerList(tuple(_record(Ledger, item) for item in value))
    return _record(LedgerList, {**value, "ledgers": _rows(value)})


def decode_segment(data: bytes) -> tuple[Ledger, ...]:
    return _rows(_parse(data))


def _rows(value: Any) -> tuple[Ledger, ...]:
    try:
        stores = value["stores"]
        return tuple(
            Ledger(ledger, epoch, first, last, size, closed, stores[store])
            for ledger, epoch, first, last, size, closed, store in value["ledgers"]
        )
    except (TypeError, ValueError, KeyError, IndexError):
        raise SqlError("XX001", f"a znode of the cluster holds no list of ledgers: {str(value)[:80]}") from None


def decode_checkpoints(data: bytes) -> tuple[Checkpoint, ...]:
    return tuple(_record(Checkpoint, item) for item in _parse(data))


def _parse(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        raise SqlError("XX001", f"a znode of the cluster holds no JSON: {data[:80]!r}") from None


def _record(kind: type[Record], value: Any) -> Record:
    known = _FIELDS[kind]
    try:
        return kind(**{name: item for name, item in value.items() if name in known})
    except (TypeError, AttributeError):
        raise SqlError("XX001", f"a znode of the cluster holds no {kind.__name__}: {value!r}") from None


# --- objects ---------------------------------------------------------------------------------------------------------


def tablespace_folder(tablespace: bytes) -> str:
    return f"{tablespace.hex()}/"


def ledger_folder(tablespace: bytes, ledger: int) -> str:
    """The folder of a ledger: its entries, and their bulk files."""
    return f"{tablespace.hex()}/ledger-{ledger:010d}/"


def object_name(tablespace: bytes, item: HeadObject) -> str:
    return f"{ledger_folder(tablespace, item.ledger)}{item.first:020d}-{item.last:020d}-{item.commit_id}"


def bulk_name(tablespace: bytes, ledger: int, name: str) -> str:
    return f"{ledger_folder(tablespace, ledger)}bulk/{name}"


def first_name_from(tablespace: bytes, ledger: int, lsn: int) -> str:
    """Sorts before every object of the ledger whose first LSN is `lsn` or above, and after all others."""
    return f"{ledger_folder(tablespace, ledger)}{lsn:020d}"


def parse_object_name(name: str, ledger: int) -> HeadObject | None:
    """None for names of other objects (a bulk file, an unknown one)."""
    found = _OBJECT.fullmatch(name.rpartition("/")[2])
    return None if found is None else HeadObject(ledger, int(found[1]), int(found[2]), found[3])


def parse_ledger(tablespace: bytes, name: str) -> int | None:
    """The ledger that an object belongs to, None if it belongs to none."""
    parts = name.split("/")
    if len(parts) < 3 or parts[0] != tablespace.hex():
        return None
    found = _LEDGER_FOLDER.fullmatch(parts[1])
    return None if found is None else int(found[1])
