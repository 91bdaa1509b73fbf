"""Row level security: whether the policies of a table apply to a role, and which of them (check_enable_rls of rls.c,
get_policies_for_relation of rowsecurity.c)."""

from __future__ import annotations

from collections.abc import Collection

from catalog.catalog import Catalog
from catalog.privileges import is_owner
from catalog.schema import EVERYBODY, Policy, Role, Table


def is_restricted(catalog: Catalog, table: Table, role: Role) -> bool:
    """Whether the policies of a table apply to a role: not to superusers, to roles with BYPASSRLS, and, without FORCE
    ROW LEVEL SECURITY, to the owner and the members that inherit from it."""
    if not table.row_security or role.superuser or role.bypass_rls:
        return False
    return table.force_row_security or not is_owner(catalog, table, role)


def is_restricted_user(catalog: Catalog, table: Table, role: Role | None) -> bool:
    """The same for a user who may have been dropped."""
    return table.row_security and (role is None or is_restricted(catalog, table, role))


def concerns_role(policy: Policy, groups: Collection[int]) -> bool:
    """Whether a policy names PUBLIC or one of these roles (OIDs)."""
    return any(oid == EVERYBODY or oid in groups for oid in policy.roles)
