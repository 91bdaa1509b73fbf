"""`shoal serve` with a fault that the trial must notice. Every statement of sqlsmith's, which calls its tables ref_0
and so on, meets it when it is planned.

    python -m tests.torture.smith.planted FAULT serve ...
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

FAULTS = {"defect": "XX000", "hang": "no answer within", "crash": "the server has ended"}

_prepare = planning.prepare


class PlantedServer(ShoalServer):
    """Shoal with a fault, one of FAULTS."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def command(self) -> list[str]:
        python, _, _, *rest = super().command()
        return [python, "-m", "tests.torture.smith.planted", self.fault, *rest]


def plant(fault: str) -> None:
    """Makes this process faulty."""

    def prepare(session: Session, statement: ast.Statement, *rest: Any, **options: Any) -> Prepared:
        if "ref_0" in statement.text:
            if fault == "defect":
                raise KeyError("planted")
            if fault == "hang":
                os.kill(os.getpid(), signal.SIGSTOP)
            else:
                os._exit(1)
        return _prepare(session, statement, *rest, **options)

    planning.prepare = prepare


if __name__ == "__main__":
    plant(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
