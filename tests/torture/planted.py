"""`shoal serve` with a fault that a trial must notice.

    python -m tests.torture.planted SITE FAULT serve ...

`statement`: statements of sqlsmith's, which calls its tables ref_0 and so on, meet it when they are planned. `message`:
every Close message of the protocol meets it. `function`: sign(numeric) holds the engine's thread, see HOLDS.
`rights`: whose rights are looked at no more, one of UNASKED. `matrix`: tests/rights/planted.py.
`rows`: tests/rights/planted_rows.py.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

from catalog.functions import registry
from engine.session.identity import Identity
from engine.session.prepared import Prepared
from engine.session.session import Session
from engine.sql import ast, privileges
from engine.sql.analyze import routines
from engine.statements import planning
from shoal.cli import main
from tests.rights.planted import RIGHTS
from tests.rights.planted_rows import ROW_RIGHTS
from tests.server import ShoalServer
from wire import core
from wire.connection import Connection

FAULTS = ("defect", "hang", "crash")
HOLDS = {"hold": 1.0, "stay": 4.0, "remain": 16.0}  # seconds: seen by others, by who cancels it, by who ends the server
UNASKED = ("bodies", "execute", "refresh")

_prepare = planning.prepare


class PlantedServer(ShoalServer):
    """Shoal with one of FAULTS at a site."""

    def __init__(self, site: str, fault: str) -> None:
        super().__init__()
        self.planted = [site, fault]

    def command(self) -> list[str]:
        python, _, _, *rest = super().command()
        return [python, "-m", "tests.torture.planted", *self.planted, *rest]


def _holder(seconds: float) -> Callable[[Decimal], Decimal]:
    def hold(value: Decimal) -> Decimal:
        """One step of C, which no signal interrupts."""
        began = time.thread_time()
        sum(range(10_000_000))
        sum(range(int(seconds * 10_000_000 / (time.thread_time() - began))))
        return value

    return hold


def _fail(fault: str) -> None:
    if fault == "defect":
        raise KeyError("planted")
    if fault == "hang":
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        os._exit(1)


def _ask_no_more(what: str) -> None:
    """Nobody looks at the rights that bodies of functions need, calls of functions, ..."""
    if what == "bodies":
        routines.privileges = SimpleNamespace(check=lambda *_: None, role_of=privileges.role_of)  # type: ignore[assignment]
    elif what == "execute":
        routines.check_execute = lambda *_: None
    elif what == "refresh":
        Identity.acting_as = lambda self, role: nullcontext()  # type: ignore[method-assign]


def plant(site: str, fault: str) -> None:
    """Makes this process faulty."""

    def prepare(session: Session, statement: ast.Statement, *rest: Any, **options: Any) -> Prepared:
        if "ref_0" in statement.text:
            _fail(fault)
        return _prepare(session, statement, *rest, **options)

    def close(connection: Connection, event: core.Close) -> None:
        _fail(fault)

    if site == "rights":
        _ask_no_more(fault)
    elif site == "matrix":
        RIGHTS[fault]()
    elif site == "rows":
        ROW_RIGHTS[fault]()
    elif site == "statement":
        planning.prepare = prepare
    elif site == "function":
        known = registry.implementation("numeric_sign")
        assert known is not None
        registry._implementations["numeric_sign"] = replace(known, python=_holder(HOLDS[fault]), python_source=None)
    else:
        Connection._on_close = close  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    plant(sys.argv[1], sys.argv[2])
    sys.exit(main(sys.argv[3:]))
