"""CREATE, ALTER and DROP TABLESPACE, and the choice of a relation's tablespace.

A tablespace has a storage of its own, which CREATE makes and DROP removes (engine/node/tablespaces.py), so neither can
run in a transaction block. A table goes to the named tablespace or to `default_tablespace`, an index to that of its
table. Sequences and the whole catalog are in pg_default.

Options for a cluster have no effect on a single node. PostgreSQL's cost options are stored and shown. The options for a
cluster are:

    leader                  the node that should lead the tablespace
    replicas                nodes that should hold it, joined by commas
    expected_replicas       the number of nodes that should hold it
    max_leader_inactivity   the time after which another node becomes leader, as '30s'
    store                   the store of its changelog, as a URL (file, s3, log, or a quorum of them)
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import replace

from catalog.errors import SqlError, not_supported
from catalog.privileges import may
from catalog.schema import DEFAULT_TABLESPACE_OID, Index, Sequence, Table, Tablespace
from engine.ddl.context import DdlContext
from engine.ddl.ownership import must_own, role_named, user_role
from engine.sql import ast

GLOBAL_OID = 1664  # pg_global, for what all databases share
_LARGEST = f"{1.7976931348623157e308:f}"

_NODE = re.compile(r"[A-Za-z0-9_.-]{1,63}")
_TIME = re.compile(r"\s*\d+\s*(us|ms|s|min|h|d)?\s*")
_URL = re.compile(r"(file|s3|log)://\S+|quorum\(\d+,\d+,\d+\):\S+")


def _invalid(kind: str, name: str, value: str) -> SqlError:
    return SqlError("22023", f'invalid value for {kind}option "{name}": {value}')


def _number(low: int, high: int | None, real: bool) -> Callable[[str, str], None]:
    def check(name: str, value: str) -> None:
        try:
            number = float(value) if real else int(value)
        except ValueError:
            raise _invalid("floating point " if real else "integer ", name, value) from None
        if not low <= number or (high is not None and number > high):
            shown = (f'"{low:.6f}"', f'"{_LARGEST}"') if real else (f'"{low}"', f'"{high}"')
            raise SqlError(
                "22023",
                f'value {value} out of bounds for option "{name}"',
                detail=f"Valid values are between {shown[0]} and {shown[1]}.",
            )

    return check


def _pattern(pattern: re.Pattern[str], many: bool = False) -> Callable[[str, str], None]:
    def check(name: str, value: str) -> None:
        for part in value.split(",") if many else [value]:
            if pattern.fullmatch(part.strip() if many else part) is None:
                raise _invalid("", name, value)

    return check


OPTIONS: dict[str, Callable[[str, str], None]] = {
    "leader": _pattern(_NODE),
    "replicas": _pattern(_NODE, many=True),
    "expected_replicas": _number(1, 1000, real=False),
    "max_leader_inactivity": _pattern(_TIME),
    "store": _pattern(_URL),
    "seq_page_cost": _number(0, None, real=True),
    "random_page_cost": _number(0, None, real=True),
    "effective_io_concurrency": _number(0, 1000, real=False),
    "maintenance_io_concurrency": _number(0, 1000, real=False),
}


def _with_options(
    known: tuple[tuple[str, str], ...], given: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """The options after SET. Raises 22023."""
    found = dict(known)
    for name, value in given:
        check = OPTIONS.get(name)
        if check is None:
            raise SqlError("22023", f'unrecognized parameter "{name}"')
        check(name, value)
        found[name] = value
    return tuple(found.items())


# ---- the statements -------------------------------------------------------------------------------------------------


def tablespace(context: DdlContext, statement: ast.TablespaceStmt) -> str:
    """CREATE, ALTER (SET, RESET) and DROP TABLESPACE. Raises 42501, 42704, 42710, 42939, 22023, 55000."""
    {"create": _create, "alter": _alter, "drop": _drop}[statement.action](context, statement)
    return f"{statement.action.upper()} TABLESPACE"


def refuse_name(context: DdlContext, name: str) -> None:
    """Raises 42939 for a reserved name, 42710 for one in use. Locks the name for its creator."""
    if name.startswith("pg_"):
        message = f'unacceptable tablespace name "{name}"'
        raise SqlError("42939", message, detail='The prefix "pg_" is reserved for system tablespaces.')
    context.lock_name(0, name)
    if name in context.catalog.tablespaces:
        raise SqlError("42710", f'tablespace "{name}" already exists')


def find(context: DdlContext, name: str) -> Tablespace:
    """Raises 42704."""
    found = context.catalog.get(context.catalog.tablespaces.get(name, 0))
    if not isinstance(found, Tablespace):
        raise SqlError("42704", f'tablespace "{name}" does not exist')
    return found


def _create(context: DdlContext, statement: ast.TablespaceStmt) -> None:
    if not context.is_superuser:
        raise SqlError(
            "42501",
            f'permission denied to create tablespace "{statement.name}"',
            hint="Must be superuser to create a tablespace.",
        )
    owner = context.user_oid
    if statement.owner is not None:
        owner = role_named(context, statement.owner).oid
    if statement.directory:
        not_supported("a LOCATION for a tablespace", hint="Omit it: the tablespace is within the data directory.")
    refuse_name(context, statement.name)
    options = _with_options((), statement.options)
    context.check_tablespace_options(dict(options), None)
    item = Tablespace(context.new_oid(), statement.name, owner, options=options, identity=uuid.uuid4().hex)
    context.change({item.oid: item})
    context.create_tablespace(item)


def _alter(context: DdlContext, statement: ast.TablespaceStmt) -> None:
    item = find(context, statement.name)
    must_own(context, item)
    if statement.reset:
        gone = {name: "" for name, _ in statement.options}
        options = tuple(option for option in item.options if option[0] not in gone)
        context.check_tablespace_options({name: "" for name, _ in item.options if name in gone}, item)
    else:
        options = _with_options(item.options, statement.options)
        context.check_tablespace_options(dict(statement.options), item)
    context.change({item.oid: replace(item, options=options)})


def _drop(context: DdlContext, statement: ast.TablespaceStmt) -> None:
    if statement.name not in context.catalog.tablespaces:
        message = f'tablespace "{statement.name}" does not exist'
        if not statement.if_exists:
            raise SqlError("42704", message)
        context.notice(SqlError("42704", f"{message}, skipping", severity="NOTICE"))
        return
    item = find(context, statement.name)
    must_own(context, item)
    if item.oid in (DEFAULT_TABLESPACE_OID, GLOBAL_OID):
        raise SqlError("42501", f"permission denied for tablespace {item.name}")
    context.lock_relation(item.oid, "access exclusive")
    for other in context.catalog.objects.values():
        if isinstance(other, Table | Index | Sequence) and other.tablespace == item.oid:
            raise SqlError("55000", f'tablespace "{item.name}" is not empty')
    context.change({item.oid: None})
    context.drop_tablespace(item)


# ---- which one a relation goes to -----------------------------------------------------------------------------------


def place_of_table(context: DdlContext, name: str | None, persistence: str = "p") -> int:
    """The OID of a new table's tablespace: the named one or `default_tablespace`. It cannot be dropped until the
    transaction ends. Raises 42704, 22023 for pg_global, 42501."""
    if name is None:
        default = context.default_tablespace if persistence == "p" else ""
        oid = context.catalog.tablespaces.get(default, DEFAULT_TABLESPACE_OID)
    else:
        oid = find(context, name).oid
    if oid == GLOBAL_OID:
        raise SqlError("22023", "only shared relations can be placed in pg_global tablespace")
    if oid != DEFAULT_TABLESPACE_OID:
        if persistence == "t":
            context.check_temporary_place()
        item = context.catalog.get(oid)
        assert isinstance(item, Tablespace)
        if not may(context.catalog, item, user_role(context), "C"):
            raise SqlError("42501", f"permission denied for tablespace {item.name}")
        context.lock_relation(oid, "row exclusive")
    return oid


def place_of_index(context: DdlContext, name: str | None, table: Table) -> int:
    """The OID of its table's tablespace. Raises 42704, 22023, and 0A000 for another one."""
    if name is not None:
        oid = find(context, name).oid
        if oid == GLOBAL_OID:
            raise SqlError("22023", "only shared relations can be placed in pg_global tablespace")
        if oid != table.tablespace:
            not_supported(
                "an index in another tablespace than its table",
                hint="Omit TABLESPACE: the index is in the tablespace of its table.",
            )
    return table.tablespace
