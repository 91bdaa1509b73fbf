"""What lies in LMDB's file of a tablespace that nobody serves."""

from __future__ import annotations

from typing import Any

import lmdb


def storage_ids(path: str) -> set[int]:
    """Those that have keys, but for what is dropped: its keys are deleted bit by bit."""
    environment: Any = lmdb.open(path, readonly=True, max_dbs=4)
    try:
        rows, meta = (environment.open_db(name, create=False) for name in (b"rows", b"meta"))
        with environment.begin() as transaction:
            found = {key[:4] for key, _ in transaction.cursor(db=rows)}
            gone = {key[4:] for key, _ in transaction.cursor(db=meta) if key.startswith(b"drop")}
        return {int.from_bytes(prefix, "big") for prefix in found - gone}
    finally:
        environment.close()
