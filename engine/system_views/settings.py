"""The rows of pg_settings, pg_file_settings and pg_hba_file_rules (PostgreSQL 16 manual, 54.24)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from catalog.system.parameters import postgres_parameters
from catalog.types.base import Array
from engine.session.server_settings import sees_files
from engine.session.setting_definitions import DEFINITIONS, SERVER_DEFINITIONS, milliseconds
from engine.session.settings import description_of

if TYPE_CHECKING:
    from engine.configuration import Configuration
    from engine.session.session import Session

_BYTES = {"kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


def setting_rows(session: Session) -> list[dict[str, object]]:
    """The rows of pg_settings."""
    configuration, sees = session.present.configuration, sees_files(session)
    rows = []
    for name, value in session.variables.list_shown():
        row = _row(name, value, session.settings.reset_value(name))
        if configuration is not None:
            row |= _origin(configuration, name.lower(), row, sees)
        rows.append(row)
    return rows


def _origin(configuration: Configuration, name: str, row: dict[str, object], sees: bool) -> dict[str, object]:
    """The source of the value, if the configuration has it and the session has not set another one."""
    told: dict[str, object] = {"pending_restart": name in configuration.pending}
    origin = configuration.origin(name)
    if origin is not None and (name in SERVER_DEFINITIONS or row["setting"] == row["reset_val"]):
        told["source"] = origin.source
        if sees:
            told |= {"sourcefile": origin.file, "sourceline": origin.line}
    return told


def _row(name: str, value: str, again: str | None) -> dict[str, object]:
    """The row of a setting. Shoal's own descriptions are used first, then PostgreSQL's. `again`: the value after
    RESET."""
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
        row["context"] = known.context if known.without_effect else "internal"
        setting = default if value == known.shown_value else in_unit(value, unit)
        reset = default if again in (None, known.shown_value) else in_unit(again or "", unit)
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
