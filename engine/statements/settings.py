"""SET, RESET and SHOW."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.execute.context import Field
from engine.session.portal import Portal
from engine.session.setting_definitions import IDENTITIES
from engine.session.settings import description_of, in_list
from engine.sql import ast
from engine.statements import as_of as past
from engine.statements.utility import text_row

if TYPE_CHECKING:
    from engine.session.answer import Sink
    from engine.session.session import Session

TEXT = TypeRef(oids.TEXT)


def _setting_name(name: str) -> str:
    return {"time zone": "TimeZone", "transaction isolation level": "transaction_isolation"}.get(name.lower(), name)


def show_fields(session: Session, tree: ast.ShowStmt) -> tuple[Field, ...]:
    if tree.name == "all":
        return (Field("name", TEXT), Field("setting", TEXT), Field("description", TEXT))
    return (Field(session.settings.display_name(_setting_name(tree.name)), TEXT),)


async def run_set(session: Session, tree: ast.SetStmt, portal: Portal, sink: Sink) -> None:
    name = _setting_name(tree.name)
    in_transaction = session.has_block or session.transaction is not None
    tag = "RESET" if tree.reset else "SET"
    if tree.modes is not None:
        _set_modes(session, tree)
    elif name == "TRANSACTION SNAPSHOT":
        if not session.has_block:
            raise SqlError("25P01", "SET TRANSACTION SNAPSHOT can only be used in transaction blocks")
        session.node.exported.import_into(session, tree.values[0])
    elif name.lower() == "all" and tree.reset:
        if not in_transaction:
            session.leave_past()
        session.settings.reset_all(in_transaction)
    elif name.lower() == past.SETTING and not tree.local:
        await past.set_as_of(session, ", ".join(tree.values) if tree.values else None)
    elif name.lower() in IDENTITIES:
        wanted = tree.values[0] if tree.values and tree.values[0].lower() != "default" else None
        session.identity.set(name.lower(), wanted, tree.local)
    else:
        if tree.values:
            session.variables.set_mode(name, tree.values[0])
        if tree.local and not session.has_block:
            session.warn("25P01", "SET LOCAL can only be used in transaction blocks")
        value = in_list(name, tree.values) if tree.values else None
        session.variables.check(name, value)
        session.settings.set(name, value, local=tree.local, in_transaction=in_transaction)
    sink.complete(tag)


def _set_modes(session: Session, tree: ast.SetStmt) -> None:
    modes = tree.modes
    assert modes is not None
    if tree.name.upper() == "SESSION CHARACTERISTICS":
        if modes.isolation is not None:
            session.settings.set("default_transaction_isolation", modes.isolation)
        if modes.read_only is not None:
            session.settings.set("default_transaction_read_only", "on" if modes.read_only else "off")
        if modes.deferrable is not None:
            session.settings.set("default_transaction_deferrable", "on" if modes.deferrable else "off")
        return
    transaction = session.transaction
    if transaction is None or not session.has_block:
        session.warn("25P01", "SET TRANSACTION can only be used in transaction blocks")
        return
    if modes.isolation is not None:
        session.variables.set_isolation(transaction, modes.isolation)
    if modes.read_only is not None:
        session.variables.set_read_only(transaction, modes.read_only)
    if modes.deferrable is not None:
        session.variables.set_deferrable(transaction, modes.deferrable)


async def run_show(session: Session, tree: ast.ShowStmt, portal: Portal, sink: Sink) -> None:
    if tree.name == "all":
        rows = [text_row((name, value, description_of(name))) for name, value in session.variables.list_shown()]
        await sink.rows(b"".join(rows))
    else:
        await sink.rows(text_row((session.variables.get(_setting_name(tree.name)),)))
    sink.complete("SHOW")
