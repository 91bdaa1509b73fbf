"""The function call protocol (PostgreSQL 16 manual, 55.2.4): a function by its OID, as libpq calls large objects.

A call is a SELECT of the function with parameters: it resolves, runs and fails in the same way.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.functions import registry
from catalog.identifiers import quote_identifier
from engine.session.errors import aborted_error
from engine.session.portal import Portal
from engine.statements import planning
from engine.statements import run as running
from engine.statements.collect import Collector

if TYPE_CHECKING:
    from engine.session.session import Session

_HEAD = 7  # bytes of a DataRow before its one value's length


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """Formats as in Bind: none, one for all, or one each."""

    function: int
    formats: tuple[int, ...]
    arguments: list[bytes | None]
    result_format: int

    async def run(self, session: Session) -> bytes | None:
        """The result's bytes; the state that it depends on is durable. Raises 42883, 08P01, 25P02 and errors of the
        function."""
        if session.status == "E":
            raise aborted_error()
        try:
            found = registry.function(self.function)
        except KeyError:
            raise _unknown_error(self.function) from None
        if registry.is_inner(found.oid):
            raise _unknown_error(found.oid)
        if found.kind != "f" or found.returns_set:
            raise SqlError("0A000", f'cannot call function "{found.name}" via fastpath interface')
        wanted, given = len(found.argument_types), len(self.arguments)
        if wanted != given:
            raise SqlError("08P01", f"function call message contains {given} arguments but function requires {wanted}")
        places = ", ".join(f"${place}" for place in range(1, given + 1))
        sql = f"SELECT pg_catalog.{quote_identifier(found.name)}({places})"
        prepared = planning.prepare_own(session, sql.encode(), found.argument_types)
        portal = Portal(
            prepared, prepared.parameters.decode(self.arguments, self.formats), prepared.formats((self.result_format,))
        )
        rows = Collector(session.memory)
        await running.run(session, portal, 0, rows)
        lsn = session.finish()
        if lsn:
            await session.durable(lsn)
        (row,) = rows.split()
        (length,) = struct.unpack_from(">i", row, _HEAD)
        return None if length < 0 else row[_HEAD + 4 :]


def _unknown_error(oid: int) -> SqlError:
    return SqlError("42883", f"function with OID {oid} does not exist")
