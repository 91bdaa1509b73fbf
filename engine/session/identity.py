"""The current user of a session and its privileges: SET ROLE, SET SESSION AUTHORIZATION, SECURITY DEFINER."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.privileges import is_member, may, may_columns
from catalog.row_security import is_restricted
from catalog.schema import Role, Table, View
from catalog.schema import Sequence as SequenceObject
from engine.sql import privileges, tree
from engine.sql.row_security import SecurityContext, affected_by_policies

if TYPE_CHECKING:
    from engine.session.interface import SessionCore


class Identity:
    """`acting`: the role that a function or view owner's code runs as, in place of the current user."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session
        self.acting: Role | None = None

    @property
    def user(self) -> Role | None:
        """The current user; None if the role has been dropped. In the past, a superuser is a role that was one at that
        moment and is one now."""
        session = self._session
        catalog, today = session.catalog, session.catalog_today
        found = catalog.get(catalog.roles.get(session.user_name, 0))
        if not isinstance(found, Role):
            return None
        if today is not None and found.superuser:
            now = today.get(today.roles.get(session.user_name, 0))
            if not (isinstance(now, Role) and now.superuser):
                return replace(found, superuser=False)
        return found

    def _known_user(self) -> Role:
        found = self.user
        return privileges.role_of(self._session.catalog, self._session.user_name) if found is None else found

    def set(self, name: str, wanted: str | None, local: bool = False) -> None:
        """SET ROLE and SET SESSION AUTHORIZATION; None goes back to the session's own. Raises 22023, 42501."""
        session = self._session
        if self.acting is not None:
            raise SqlError("42501", f'cannot set parameter "{name}" within security-definer function')
        in_transaction = session.in_block or session.transaction is not None
        catalog = session.catalog
        owner = session.role.name if name == "session_authorization" else session.session_user_name
        user = owner if wanted is None or (name == "role" and wanted == "none") else wanted
        found, base = (catalog.get(catalog.roles.get(item, 0)) for item in (user, owner))
        if not isinstance(found, Role):
            raise SqlError("22023", f'role "{user}" does not exist')
        if user != owner and not (isinstance(base, Role) and base.superuser):
            if name == "session_authorization":
                raise SqlError("42501", f'permission denied to set session authorization "{user}"')
            if not isinstance(base, Role) or not is_member(catalog, base, found.oid):
                raise SqlError("42501", f'permission denied to set role "{user}"')
        settings = session.settings
        if name == "session_authorization":
            settings.set(name, user, local=local, in_transaction=in_transaction)
        role = "none" if name == "session_authorization" or user == owner else user
        settings.set("role", role, local=local, in_transaction=in_transaction)
        settings.force("is_superuser", "on" if found.superuser else "off")

    @contextlib.contextmanager
    def acting_as(self, role: Role) -> Iterator[None]:
        """Code in this block is planned and run as another user, for example as the owner of a function."""
        before, self.acting = self.acting, role
        self._session.settings_changed()
        try:
            yield
        finally:
            self.acting = before
            self._session.settings_changed()

    # ---- privileges -------------------------------------------------------------------------------------------------

    def check_privileges(self, analyzed: tree.Analyzed) -> None:
        """Raises 42501 unless the user has the privileges that the statement needs (engine/sql/privileges.py)."""
        session = self._session
        catalog, today, user = session.catalog, session.catalog_today, self._known_user()
        views = any([isinstance(catalog.get(oid), View) for oid in analyzed.relations])
        if views or not user.superuser:
            privileges.check(catalog, user, analyzed.statement)
        if today is not None:
            user = privileges.role_of(today, session.user_name)
            if views or not user.superuser:
                privileges.check(today, user, analyzed.statement)

    def security_context(self) -> SecurityContext:
        """The role and the setting that decide about row security policies."""
        session = self._session
        today = session.catalog_today
        past = None if today is None else (today, privileges.role_of(today, session.user_name))
        return SecurityContext(self._known_user(), session.key.row_security, past)

    def check_row_security(self, table: Table) -> bool:
        """Whether policies restrict the current user at a table, now or at the moment that is read. Raises 42501 if
        row_security is off."""
        session = self._session
        catalogs = [catalog for catalog in (session.catalog, session.catalog_today) if catalog is not None]
        for catalog in catalogs:
            user, found = privileges.role_of(catalog, session.user_name), catalog.get(table.oid)
            if isinstance(found, Table) and is_restricted(catalog, found, user):
                if not session.key.row_security:
                    raise affected_by_policies(catalog, found, user)
                return True
        return False

    def require_superuser(self, function: str) -> None:
        """Raises 42501 unless the user is a superuser."""
        user = self.user  # the attribute may have changed since the session began
        if user is None or not user.superuser:
            raise SqlError("42501", f"permission denied for function {function}")

    def check_letters(self, item: Table | View | SequenceObject, letters: str, columns: Sequence[int] = ()) -> None:
        """Raises 42501 unless the user holds any of these privileges (catalog/privileges.py) on a relation, or on these
        columns of it."""
        catalog, user = self._session.catalog, self._known_user()
        if user.superuser:
            return
        if isinstance(item, SequenceObject):
            allowed = may(catalog, item, user, letters)
        else:
            chosen = frozenset(columns)
            allowed = any(may_columns(catalog, item, user, letter, chosen) for letter in letters)
        if not allowed:
            raise privileges.permission_denied(catalog, item)
