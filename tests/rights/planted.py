"""Servers with a fault in their rights, which the matrix must notice (`python -m tests.torture.planted matrix ...`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from catalog import privileges
from catalog.schema import Role
from engine.ddl import ownership
from engine.session.identity import Identity
from engine.statements import alter_system, ddl_context


def _always(*_: object) -> bool:
    return True


def _owned() -> None:
    ownership.is_owner = _always


def _members() -> None:
    ownership.is_member = _always


def _inherited() -> None:
    roles_of = privileges.roles_of

    def everything(catalog: Any, role: Role, *, inherited: bool = True) -> set[int]:
        return roles_of(catalog, role, inherited=False)

    privileges.roles_of = everything


def _created() -> None:
    ownership.may = _always
    ddl_context.may = _always


def _remembered() -> None:
    user = Identity.user.fget
    assert user is not None

    def remembered(identity: Identity) -> Role | None:
        found, settings = user(identity), identity._session.settings
        return None if found is None else replace(found, superuser=settings.get("is_superuser") == "on")

    Identity.user = property(remembered)  # type: ignore[assignment, method-assign]


def _nothing_predefined() -> None:
    privileges._EVERYWHERE.clear()


def _every_setting() -> None:
    may_set = privileges.may_set

    def granted_anything(catalog: Any, role: Role | None, name: str, letter: str = "s") -> bool:
        return may_set(catalog, role, name) or may_set(catalog, role, name, "A")

    alter_system.may_set = granted_anything


RIGHTS: dict[str, Callable[[], None]] = {
    "every check of an owner passes": _owned,
    "objects are given to anybody": _members,
    "NOINHERIT is ignored": _inherited,
    "CREATE on a schema is asked of nobody": _created,
    "who was a superuser stays one": _remembered,
    "predefined roles hold nothing": _nothing_predefined,
    "SET on a setting is ALTER SYSTEM too": _every_setting,
}
