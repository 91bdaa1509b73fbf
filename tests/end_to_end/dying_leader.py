"""A leader that dies between the row of a tablespace and its znodes: called in a node's process (tests/cluster.py)."""

from __future__ import annotations

import os
import pathlib
import signal

from replication.interface import Coordination, Spec
from shoal.cluster import tablespaces


def flag(directory: pathlib.Path) -> pathlib.Path:
    """While this file is there, whoever is about to make or remove a tablespace's znodes removes it and dies."""
    return directory / "die"


def install() -> None:
    place = flag(pathlib.Path(os.environ["SHOAL_TEST_NODE"]).parent)
    create, drop = tablespaces.create_tablespace, tablespaces.drop_tablespace

    def die_if_told() -> None:
        if place.exists():
            place.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    async def create_or_die(coordination: Coordination, tablespace: bytes, spec: Spec, *, leader: str = "") -> None:
        die_if_told()
        await create(coordination, tablespace, spec, leader=leader)

    async def drop_or_die(coordination: Coordination, tablespace: bytes) -> None:
        die_if_told()
        await drop(coordination, tablespace)

    tablespaces.create_tablespace = create_or_die  # type: ignore[assignment]
    tablespaces.drop_tablespace = drop_or_die
