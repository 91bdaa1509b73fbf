"""The settings of the server as SHOW shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.privileges import acts_as
from catalog.schema import READ_ALL_SETTINGS_OID
from catalog.system.parameters import postgres_parameters
from engine.session.setting_definitions import SERVER_DEFINITIONS

if TYPE_CHECKING:
    from engine.session.interface import SessionCore


def show_checked(session: SessionCore, name: str) -> str:
    """The current value of a setting of the server. Raises 42501."""
    configuration = session.present.configuration
    if name not in postgres_parameters() and not sees_files(session):
        raise SqlError("42501", f'must be superuser or have privileges of pg_read_all_settings to examine "{name}"')
    return SERVER_DEFINITIONS[name].default if configuration is None else configuration.show_value(name)


def server_settings(session: SessionCore) -> list[tuple[str, str]]:
    """(name, value) of the server's settings that the user may see."""
    sees = sees_files(session)
    return [(name, show_checked(session, name)) for name in SERVER_DEFINITIONS if sees or name in postgres_parameters()]


def sees_files(session: SessionCore) -> bool:
    return acts_as(session.catalog, session.user, READ_ALL_SETTINGS_OID)
