"""OPTIONS (...) of foreign data wrappers, servers, user mappings, foreign tables and their columns
(transformGenericOptions of foreigncmds.c, and option.c of postgres_fdw).

Any option may be given to an object of a wrapper without a validator. The options of postgres_fdw are those of
PostgreSQL's, including those without effect here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from catalog.errors import SqlError
from catalog.extensions import POSTGRES_VALIDATOR, available
from catalog.schema import ForeignWrapper
from engine.ddl.context import DdlContext
from engine.sql import ast

Options = tuple[tuple[str, str], ...]

_BOOLEANS = frozenset(("true", "false", "on", "off", "1", "0"))
_CONNECTION = (
    "service", "passfile", "channel_binding", "connect_timeout", "dbname", "host", "hostaddr", "port", "options",
    "application_name", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count",
    "tcp_user_timeout", "sslmode", "sslcompression", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir",
    "sslsni", "requirepeer", "ssl_min_protocol_version", "ssl_max_protocol_version", "gssencmode", "krbsrvname",
    "gsslib", "target_session_attrs",
)  # fmt: skip
_OF_POSTGRES = {  # by the kind of object, in the order of PostgreSQL's hints
    "wrapper": (),
    "server": (
        *_CONNECTION, "use_remote_estimate", "fdw_startup_cost", "fdw_tuple_cost", "extensions", "updatable",
        "truncatable", "fetch_size", "batch_size", "async_capable", "parallel_commit", "keep_connections",
    ),
    "mapping": ("user", "password", "sslpassword", "password_required", "sslcert", "sslkey"),
    "table": (
        "schema_name", "table_name", "use_remote_estimate", "updatable", "truncatable", "fetch_size", "batch_size",
        "async_capable",
    ),
    "column": ("column_name",),
}  # fmt: skip


def change_options(
    context: DdlContext, wrapper: ForeignWrapper, kind: str, old: Options, changes: Iterable[ast.ForeignOption]
) -> Options:
    """The options of an object (`kind`: a key of _OF_POSTGRES) after OPTIONS (...). Raises 42704, 42710, HV00D and the
    errors of the wrapper's validator."""
    found = dict(old)
    for item in changes:
        if item.action in ("set", "drop") and item.name not in found:
            raise SqlError("42704", f'option "{item.name}" not found')
        if item.action in ("", "add") and item.name in found:
            raise SqlError("42710", f'option "{item.name}" provided more than once')
        if item.action == "drop":
            del found[item.name]
        else:
            found[item.name] = item.value
    if wrapper.validator == POSTGRES_VALIDATOR:
        for name, value in found.items():
            _check(context, kind, name, value)
    return tuple(found.items())


def _check(context: DdlContext, kind: str, name: str, value: str) -> None:
    """postgres_fdw_validator for one option."""
    valid = _OF_POSTGRES[kind]
    if name not in valid:
        hint = f"Valid options in this context are: {', '.join(valid)}" if valid else ""
        raise SqlError("HV00D", f'invalid option "{name}"', hint=hint or "There are no valid options in this context.")
    check = _CHECKS.get(name)
    if check is not None:
        check(context, name, value)


def _boolean(context: DdlContext, name: str, value: str) -> None:
    if value.lower() not in _BOOLEANS:
        raise SqlError("42601", f"{name} requires a Boolean value")


def _positive(context: DdlContext, name: str, value: str) -> None:
    try:
        number = int(value)
    except ValueError:
        raise SqlError("22023", f'invalid value for integer option "{name}": {value}') from None
    if number <= 0:
        raise SqlError("22023", f'"{name}" must be an integer value greater than zero')


def _cost(context: DdlContext, name: str, value: str) -> None:
    try:
        number = float(value)
    except ValueError:
        raise SqlError("22023", f'invalid value for floating point option "{name}": {value}') from None
    if not number >= 0:
        raise SqlError("22023", f'"{name}" must be a floating point value greater than or equal to zero')


def _extensions(context: DdlContext, name: str, value: str) -> None:
    for extension in filter(None, (part.strip() for part in value.split(","))):
        if extension not in context.catalog.extensions and extension not in available():
            message = f'extension "{extension}" is not installed'
            context.notice(SqlError("42704", message, severity="WARNING"))


def _password_required(context: DdlContext, name: str, value: str) -> None:
    _boolean(context, name, value)
    if not is_true(value) and not context.is_superuser:
        raise SqlError(
            "42501",
            "password_required=false is superuser-only",
            hint="User mappings with the password_required option set to false may only be created or modified by the "
            "superuser.",
        )


def _certificate(context: DdlContext, name: str, value: str) -> None:
    if not context.is_superuser:
        raise SqlError(
            "42501",
            "sslcert and sslkey are superuser-only",
            hint="User mappings with the sslcert or sslkey options set may only be created or modified by the "
            "superuser.",
        )


_CHECKS: dict[str, Callable[[DdlContext, str, str], None]] = {
    **dict.fromkeys(
        (
            "use_remote_estimate", "updatable", "truncatable", "async_capable", "parallel_commit", "keep_connections",
        ),
        _boolean,
    ),
    **dict.fromkeys(("fdw_startup_cost", "fdw_tuple_cost"), _cost),
    **dict.fromkeys(("fetch_size", "batch_size"), _positive),
    **dict.fromkeys(("sslcert", "sslkey"), _certificate),
    "extensions": _extensions,
    "password_required": _password_required,
}  # fmt: skip


def is_true(value: str) -> bool:
    """Whether the value of a Boolean option is true."""
    return value.lower() in ("true", "on", "1")
