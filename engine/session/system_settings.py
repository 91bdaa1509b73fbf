"""ALTER SYSTEM, and what pg_settings and pg_file_settings tell (PostgreSQL 16 manual, ALTER SYSTEM and 54.24).

ALTER SYSTEM writes the file of the node that runs it; what is in it holds from when the configuration is read again,
or when the server starts. It is for superusers, and for whom GRANT ALTER SYSTEM ON PARAMETER lets change a setting.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from catalog.errors import SqlError, not_supported
from catalog.privileges import acts_as, may_set
from catalog.schema import READ_ALL_SETTINGS_OID
from catalog.system.parameters import postgres_parameters
from catalog.types.base import Array
from engine.session.settings import (
    DEFINITIONS,
    SERVER_DEFINITIONS,
    check_for_all,
    description_of,
    in_list,
    milliseconds,
    not_permitted,
)
from engine.sql import ast

if TYPE_CHECKING:
    from engine.configuration import Configuration
    from engine.session.answer import Sink
    from engine.session.prepared import Portal
    from engine.session.session import Session
    from engine.session.state import SessionState

_BYTES = {"kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


async def alter_system(session: Session, tree: ast.AlterSystemStmt, portal: Portal, sink: Sink) -> None:
    """Raises 25001, 42501, 42704, 22023, 55P02, 58030."""
    if session.in_block:
        raise SqlError("25001", "ALTER SYSTEM cannot run inside a transaction block")
    changed, user = tree.setting, session.user
    every = changed.reset and changed.name.lower() == "all"
    if every and (user is None or not user.superuser):
        raise SqlError("42501", "permission denied to perform ALTER SYSTEM RESET ALL")
    if not every and not may_set(session.catalog, user, changed.name, "A"):
        raise not_permitted(changed.name)
    name = None if every else changed.name.lower()
    value = None if name is None else check_for_all(name, in_list(name, changed.values) if changed.values else None)
    configuration = session.present.configuration
    if configuration is None:
        not_supported("ALTER SYSTEM: this database has no server whose settings it could change")
    await configuration.alter(name, value)
    sink.complete("ALTER SYSTEM")


def examined(session: SessionState, name: str) -> str:
    """The value in force of a setting of the server. Raises 42501."""
    configuration = session.present.configuration
    if name not in postgres_parameters() and not _sees_files(session):
        raise SqlError("42501", f'must be superuser or have privileges of pg_read_all_settings to examine "{name}"')
    return SERVER_DEFINITIONS[name].default if configuration is None else configuration.shown(name)


def server_settings(session: SessionState) -> list[tuple[str, str]]:
    """(name, value) of the server's settings that the user may see."""
    sees = _sees_files(session)
    return [(name, examined(session, name)) for name in SERVER_DEFINITIONS if sees or name in postgres_parameters()]


def _sees_files(session: SessionState) -> bool:
    return acts_as(session.catalog, session.user, READ_ALL_SETTINGS_OID)


def setting_rows(session: Session) -> list[dict[str, object]]:
    """The rows of pg_settings."""
    configuration, sees = session.present.configuration, _sees_files(session)
    rows = []
    for name, value in session.shown_settings():
        row = _row(name, value, session.settings.reset_value(name))
        if configuration is not None:
            row |= _origin(configuration, name.lower(), row, sees)
        rows.append(row)
    return rows


def _origin(configuration: Configuration, name: str, row: dict[str, object], sees: bool) -> dict[str, object]:
    """Where it is from, if the configuration says it, and the session has said nothing else."""
    told: dict[str, object] = {"pending_restart": name in configuration.pending}
    origin = configuration.origin(name)
    if origin is not None and (name in SERVER_DEFINITIONS or row["setting"] == row["reset_val"]):
        told["source"] = origin.source
        if sees:
            told |= {"sourcefile": origin.file, "sourceline": origin.line}
    return told


def _row(name: str, value: str, again: str | None) -> dict[str, object]:
    """What Shoal has is described by it, and by PostgreSQL where it says nothing itself. `again`: what RESET gives."""
    key = name.lower()
    own, known = DEFINITIONS.get(key) or SERVER_DEFINITIONS.get(key), postgres_parameters().get(key)
    if own is None and known is None:
        return {
            "name": name, "setting": value, "category": "Customized Options", "context": "user", "vartype": "string",
            "source": "session", "boot_val": "", "reset_val": "", "pending_restart": False,
        }  # fmt: skip
    row: dict[str, object] = {"name": name, "category": "Shoal", "pending_restart": False}
    if known is not None:
        row |= {
            "unit": known.unit, "category": known.category, "short_desc": known.description, "extra_desc": known.more,
            "vartype": known.kind, "min_val": known.least, "max_val": known.most,
            "enumvals": None if known.choices is None else Array.of(known.choices),
        }  # fmt: skip
    if own is None:
        assert known is not None
        default, unit = known.default, known.unit
        row["context"] = "user" if known.without_effect else "internal"
        setting = default if value == known.shown else in_unit(value, unit)
        reset = default if again in (None, known.shown) else in_unit(again or "", unit)
    else:
        unit, row["context"], row["vartype"] = own.unit, own.context, own.kind
        default, setting = in_unit(own.default, unit), in_unit(value, unit)
        reset = setting if again is None else in_unit(again, unit)
        if own.description:
            row |= {"short_desc": description_of(name), "extra_desc": None}
    source = "default" if setting == default else "session"
    return row | {"unit": unit, "setting": setting, "source": source, "boot_val": default, "reset_val": reset}


def in_unit(value: str, unit: str | None) -> str:
    """A setting's value in its unit, as pg_settings shows it: '4MB' is 4096 (kB), '1min' 60000 (ms)."""
    if unit == "ms":
        return str(milliseconds(value))
    found = re.fullmatch(r"(\d+)(kB|MB|GB|TB)", value)
    if found is None or unit is None:
        return value
    size = int(unit[:-2] or 1) * _BYTES["kB"] if unit.endswith("kB") else 1
    return str(int(found[1]) * _BYTES[found[2]] // size)


def file_rows(session: Session) -> list[dict[str, object]]:
    """The rows of pg_file_settings."""
    configuration = session.present.configuration
    found = () if configuration is None else configuration.entries()
    return [
        {
            "sourcefile": entry.file, "sourceline": entry.line, "seqno": number, "name": entry.name,
            "setting": entry.value, "applied": entry.applied, "error": entry.error,
        }
        for number, entry in enumerate(found, 1)
    ]  # fmt: skip


def rule_rows(session: Session) -> list[dict[str, object]]:
    """The rows of pg_hba_file_rules."""
    configuration = session.present.configuration
    return [
        {
            "line_number": entry.line, "type": entry.kind, "address": entry.address, "netmask": entry.netmask,
            "database": None if entry.databases is None else Array.of(entry.databases),
            "user_name": None if entry.users is None else Array.of(entry.users),
            "auth_method": entry.method, "error": entry.error,
        }
        for entry in (() if configuration is None else configuration.rules())
    ]  # fmt: skip
