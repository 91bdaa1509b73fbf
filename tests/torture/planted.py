"""`shoal serve` with a fault that a trial must notice.

    python -m tests.torture.planted SITE FAULT serve ...

`statement`: statements of sqlsmith's, which calls its tables ref_0 and so on, meet it when they are planned. `message`:
every Close message of the protocol meets it.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from engine.session import planning
from engine.session.planning import Prepared
from engine.session.session import Session
from engine.sql import ast
from shoal.cli import main
from tests.server import ShoalServer
from wire import core
from wire.connection import Connection

FAULTS = ("defect", "hang", "crash")

_prepare = planning.prepare


class PlantedServer(ShoalServer):
    """Shoal with one of FAULTS at a site."""

    def __init__(self, site: str, fault: str) -> None:
        super().__init__()
        self.planted = [site, fault]

    def command(self) -> list[str]:
        python, _, _, *rest = super().command()
        return [python, "-m", "tests.torture.planted", *self.planted, *rest]


def _fail(fault: str) -> None:
    if fault == "defect":
        raise KeyError("planted")
    if fault == "hang":
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        os._exit(1)


def plant(site: str, fault: str) -> None:
    """Makes this process faulty."""

    def prepare(session: Session, statement: ast.Statement, *rest: Any, **options: Any) -> Prepared:
        if "ref_0" in statement.text:
            _fail(fault)
        return _prepare(session, statement, *rest, **options)

    def close(connection: Connection, event: core.Close) -> None:
        _fail(fault)

    if site == "statement":
        planning.prepare = prepare
    else:
        Connection._on_close = close  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    plant(sys.argv[1], sys.argv[2])
    sys.exit(main(sys.argv[3:]))
