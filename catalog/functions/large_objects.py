"""Functions of large objects (PostgreSQL 16 manual, 35.4), for libpq and for SQL.

engine/session/large_objects.py implements them. lo_import and lo_export, which use the server's files, do not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from catalog.errors import SqlError
from catalog.functions.base import CallContext, Trait
from catalog.functions.registry import implement, mark

_INT4 = 2**31


class _Objects(Protocol):
    def create(self, oid: int) -> int: ...
    def unlink(self, oid: int) -> None: ...
    def open(self, oid: int, mode: int) -> int: ...
    def close(self, number: int) -> None: ...
    def read(self, number: int, length: int) -> bytes: ...
    def write(self, number: int, data: bytes) -> int: ...
    def seek(self, number: int, offset: int, whence: int) -> int: ...
    def tell(self, number: int) -> int: ...
    def truncate(self, number: int, length: int) -> None: ...
    def get(self, oid: int, offset: int, length: int) -> bytes: ...
    def put(self, oid: int, offset: int, data: bytes) -> None: ...


def _objects(call: CallContext) -> _Objects:
    return cast(_Objects, cast(Any, call.session).large_objects)


def _in_int4(value: int, function: str, number: int) -> int:
    """Checks a position that a function with int4 results returns. Raises 22003."""
    if value >= _INT4:
        raise SqlError("22003", f"{function} result out of range for large-object descriptor {number}")
    return value


def _unlink(call: CallContext, oid: int) -> int:
    _objects(call).unlink(oid)
    return 1


def _close(call: CallContext, number: int) -> int:
    _objects(call).close(number)
    return 0


def _truncate(call: CallContext, number: int, length: int) -> int:
    _objects(call).truncate(number, length)
    return 0


def _fragment(call: CallContext, oid: int, offset: int, length: int) -> bytes:
    if length < 0:
        raise SqlError("22023", "requested length cannot be negative")
    return _objects(call).get(oid, offset, length)


def _from_bytea(call: CallContext, oid: int, data: bytes) -> int:
    made = _objects(call).create(oid)
    _objects(call).put(made, 0, data)
    return made


def _put(call: CallContext, oid: int, offset: int, data: bytes) -> str:
    _objects(call).put(oid, offset, data)
    return ""


_FUNCTIONS: dict[str, Callable[..., object]] = {
    "be_lo_create": lambda call, oid: _objects(call).create(oid),
    "be_lo_creat": lambda call, mode: _objects(call).create(0),
    "be_lo_unlink": _unlink,
    "be_lo_open": lambda call, oid, mode: _objects(call).open(oid, mode),
    "be_lo_close": _close,
    "be_loread": lambda call, number, length: _objects(call).read(number, length),
    "be_lowrite": lambda call, number, data: _objects(call).write(number, data),
    "be_lo_lseek": lambda call, number, offset, whence: _in_int4(
        _objects(call).seek(number, offset, whence), "lo_lseek", number
    ),
    "be_lo_lseek64": lambda call, number, offset, whence: _objects(call).seek(number, offset, whence),
    "be_lo_tell": lambda call, number: _in_int4(_objects(call).tell(number), "lo_tell", number),
    "be_lo_tell64": lambda call, number: _objects(call).tell(number),
    "be_lo_truncate": _truncate,
    "be_lo_truncate64": _truncate,
    "be_lo_get": lambda call, oid: _objects(call).get(oid, 0, -1),
    "be_lo_get_fragment": _fragment,
    "be_lo_from_bytea": _from_bytea,
    "be_lo_put": _put,
}
for _source, _function in _FUNCTIONS.items():
    implement(_source, _function, needs_session=True, traits=(Trait.LEADER,))
mark(Trait.LEADER, "be_lo_import", "be_lo_import_with_oid", "be_lo_export")
