"""Where a tablespace's znodes and objects are, and how they are written: JSON that older and newer readers understand.

Readers ignore fields that they do not know, and fields that are missing have their defaults; see
`replication/interface.py` for what each of them means. The head is written with every commit, so it is kept short: its
objects are lists in place of records (`[ledger, first, last, commit id]`).
"""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from typing import Any, TypeVar

import orjson

from catalog.errors import SqlError
from replication.interface import Checkpoint, Epoch, Head, HeadObject, Ledger, Node, Replica, Spec

RECENT = 24
"""Objects that a head names: a follower closer than that fetches them without listing a ledger."""

_OBJECT = re.compile(r"(\d{20})-(\d{20})-([0-9a-f]{32})")
_LEDGER_FOLDER = re.compile(r"ledger-(\d{10})")

Record = TypeVar("Record", Epoch, Ledger, Checkpoint, Node, Replica, Spec, Head)
_FIELDS: dict[type, frozenset[str]] = {
    kind: frozenset(field.name for field in dataclasses.fields(kind))
    for kind in (Epoch, Ledger, Checkpoint, Node, Replica, Spec, Head)
}


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


def encode_list(records: tuple[Ledger, ...] | tuple[Checkpoint, ...]) -> bytes:
    return orjson.dumps(records)


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


def decode_ledgers(data: bytes) -> tuple[Ledger, ...]:
    """Oldest first."""
    return tuple(_record(Ledger, item) for item in _parse(data))


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
    """With everything that belongs to the ledger: entries, and the bulk files that they refer to."""
    return f"{tablespace.hex()}/ledger-{ledger:010d}/"


def object_name(tablespace: bytes, item: HeadObject) -> str:
    return f"{ledger_folder(tablespace, item.ledger)}{item.first:020d}-{item.last:020d}-{item.commit_id}"


def bulk_name(tablespace: bytes, ledger: int, name: str) -> str:
    return f"{ledger_folder(tablespace, ledger)}bulk/{name}"


def first_name_from(tablespace: bytes, ledger: int, lsn: int) -> str:
    """Sorts before every object of the ledger whose first LSN is `lsn` or above, and behind all others."""
    return f"{ledger_folder(tablespace, ledger)}{lsn:020d}"


def parse_object_name(name: str, ledger: int) -> HeadObject | None:
    """None for what is no object of entries (a bulk file, something strange)."""
    found = _OBJECT.fullmatch(name.rpartition("/")[2])
    return None if found is None else HeadObject(ledger, int(found[1]), int(found[2]), found[3])


def parse_ledger(tablespace: bytes, name: str) -> int | None:
    """The ledger that an object belongs to, None if it belongs to none."""
    parts = name.split("/")
    if len(parts) < 3 or parts[0] != tablespace.hex():
        return None
    found = _LEDGER_FOLDER.fullmatch(parts[1])
    return None if found is None else int(found[1])
