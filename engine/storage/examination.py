"""Checks of the directory of a tablespace whose server is stopped, without a change to it.

LMDB has no checksums of its pages. So the check finds broken trees, keys out of order and keys of an impossible length.
It does not find a changed value (`shoal check` compares replicas, and `shoal verify` backups, which have checksums).
"""

from __future__ import annotations

import fcntl
import os
import struct
from dataclasses import dataclass, field
from typing import Any

import lmdb

from catalog.errors import SqlError
from engine.storage.checkpoint import FORMAT, map_size
from engine.storage.edits import Edits

PREFIX, MAX_KEY = 4, 511


@dataclass(slots=True)
class Tables:
    """The content of a tablespace's tables."""

    tablespace: bytes = b""
    flushed: int = 0
    keys: int = 0
    bytes: int = 0
    problems: list[str] = field(default_factory=list)


def in_use(directory: str) -> bool:
    """Whether a server has the data directory open. Changes nothing."""
    try:
        fd = os.open(os.path.join(directory, "lock"), os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def examine_tables(path: str) -> Tables:
    """`path`: the directory of the LMDB environment."""
    found = Tables()
    if not os.path.exists(os.path.join(path, "data.mdb")):
        found.problems.append("the tables (rows/data.mdb) are missing")
        return found
    try:
        environment: Any = lmdb.open(
            path, map_size=map_size(path), max_dbs=4, readonly=True, create=False, lock=False, readahead=True
        )
        try:
            needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
            there = os.path.getsize(os.path.join(path, "data.mdb"))
            if there < needed:  # reading past its end would be SIGBUS
                found.problems.append(f"the tables cannot be read: {needed} bytes are in use, the file has {there}")
            else:
                _walk(environment, found)
        finally:
            environment.close()
    except (lmdb.Error, struct.error) as error:
        found.problems.append(f"the tables cannot be read: {error}")
    return found


def _walk(environment: Any, found: Tables) -> None:
    rows, meta = environment.open_db(b"rows", create=False), environment.open_db(b"meta", create=False)
    with environment.begin() as transaction:
        (version,) = struct.unpack("<I", transaction.get(b"format", db=meta) or b"")
        if version != FORMAT:
            found.problems.append(f"the tables have format {version}, this release reads {FORMAT}")
            return
        found.tablespace = transaction.get(b"tablespace", db=meta) or b""
        (found.flushed,) = struct.unpack("<Q", transaction.get(b"flushed", db=meta) or b"")
        last = b""
        for key, value in transaction.cursor(db=rows):
            if not PREFIX <= len(key) <= MAX_KEY or key <= last:
                found.problems.append(f"a key is out of order or no key: {key[:20].hex()}")
                return
            last = key
            found.keys += 1
            found.bytes += len(key) + len(value)
        counted = transaction.stat(db=rows)["entries"]
        if counted != found.keys:
            found.problems.append(f"the tables count {counted} keys and have {found.keys}")


def bulk_files(body: bytes) -> list[tuple[str, int]]:
    """The bulk segments of an entry's body: name and checksum. Raises SqlError XX001 for an invalid body."""
    try:
        return [(run.name, run.checksum) for run in Edits.decode(body).runs]
    except (struct.error, ValueError, IndexError) as error:
        raise SqlError("XX001", f"it cannot be decoded: {error}") from None
