"""The analytic worker with a DuckDB that fails by a defect of its own where its plan is not a plain one."""

from __future__ import annotations

import pytest

from tests.engine.columnar import small_worker

PROGRAM = """
import sys
from engine.columnar.worker import sandbox
enter = sandbox.enter

def enter_and_spoil(*arguments):
    alone = enter(*arguments)
    from engine.columnar.worker import query
    stream = query.Query._stream

    def fail(self):
        if not self._header.get("plainly") or "always" in self._header["sql"]:
            raise RuntimeError("INTERNAL Error: Failed to bind column reference")
        return stream(self)

    query.Query._stream = fail
    return alone

sandbox.enter = enter_and_spoil
from engine.columnar.worker.__main__ import main
main()
"""


def use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that start from now on are such."""
    small_worker.use_program(monkeypatch, PROGRAM)
