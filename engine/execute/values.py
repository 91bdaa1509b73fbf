"""CURRENT_TIMESTAMP and similar: the functions of SQL that are written without parentheses.

PostgreSQL's parser translated them in the same way before release 9.5: now() cast to the type, under the session's time
zone. So they use the implementations of now() and the casts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from catalog.functions.base import CallContext
from catalog.functions.registry import implementation
from catalog.types import lookup, oids
from engine.execute.code import NotOnRowPath
from engine.execute.context import SessionServices

ValueMaker = Callable[[CallContext], object]

# name -> (source of the cast from timestamptz, OID of the result)
_TIMES = {
    "current_date": ("timestamptz_date", oids.DATE),
    "current_time": ("timestamptz_timetz", oids.TIMETZ),
    "current_timestamp": ("", oids.TIMESTAMPTZ),
    "localtime": ("timestamptz_time", oids.TIME),
    "localtimestamp": ("timestamptz_timestamp", oids.TIMESTAMP),
}


def sql_value_function(name: str, precision: int | None) -> ValueMaker:
    """The value of CURRENT_DATE, CURRENT_USER, LOCALTIME(2) and so on. Times are those of the transaction's start."""
    if name in _TIMES:
        return _time(name, precision)
    if name in ("current_user", "user", "current_role"):
        return lambda call: _session(call).user_name
    if name == "session_user":
        return lambda call: _session(call).session_user_name
    if name == "current_catalog":
        return lambda call: _session(call).database_name
    if name == "current_schema":
        found = implementation("current_schema")
        if found is not None and found.python is not None and found.needs_context:
            return found.python
    raise NotOnRowPath(name)


def _session(call: CallContext) -> SessionServices:
    return cast(SessionServices, call.session)


def _time(name: str, precision: int | None) -> ValueMaker:
    source, oid = _TIMES[name]
    rounded = None if precision is None else lookup(oid).length_coercion(precision, True)
    if not source:
        return (lambda call: call.transaction_time) if rounded is None else lambda call: rounded(call.transaction_time)
    found = implementation(source)
    if found is None or found.python is None:
        raise NotOnRowPath(name)
    convert = found.python
    if found.needs_context:
        of_call: ValueMaker = lambda call: convert(call, call.transaction_time)  # noqa: E731
    else:
        of_call = lambda call: convert(call.transaction_time)  # noqa: E731
    return of_call if rounded is None else lambda call: rounded(of_call(call))
