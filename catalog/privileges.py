"""Access control lists, and the privileges of a role (PostgreSQL 16 manual, 5.7).

An object's `acl` is a tuple of items as PostgreSQL prints them, `grantee=letters/grantor`. An empty grantee is PUBLIC;
`*` after a letter means WITH GRANT OPTION. None stands for the default privileges of the object's kind: all for the
owner, and those in DEFAULTS for PUBLIC. Items contain the names of roles; ALTER ROLE ... RENAME rewrites them.

A role holds the privileges granted to PUBLIC, to itself, and to the roles of which it is a member. The owner has all
grant options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from catalog.catalog import Catalog
from catalog.schema import (
    BOOTSTRAP_ROLE_OID,
    DATABASE_OWNER_OID,
    ChangeStream,
    Collation,
    Column,
    Database,
    Extension,
    ForeignServer,
    ForeignWrapper,
    Index,
    Parameter,
    Role,
    Routine,
    Schema,
    Sequence,
    StatisticsObject,
    Table,
    Tablespace,
    UserOperator,
    UserType,
    View,
)
from catalog.text_search.objects import (
    TextSearchConfiguration,
    TextSearchDictionary,
)

Securable = (
    Table | View | Sequence | Schema | Database | Tablespace | Routine | Parameter | ForeignServer | ForeignWrapper
)
Owned = (
    Securable
    | Index
    | UserType
    | Collation
    | Extension
    | UserOperator
    | StatisticsObject
    | ChangeStream
    | TextSearchConfiguration
    | TextSearchDictionary
)
Acl = tuple[str, ...] | None

ORDER = "arwdDxtXUCTcsA"
WORDS = {
    "INSERT": "a", "SELECT": "r", "UPDATE": "w", "DELETE": "d", "TRUNCATE": "D", "REFERENCES": "x", "TRIGGER": "t",
    "EXECUTE": "X", "USAGE": "U", "CREATE": "C", "TEMPORARY": "T", "TEMP": "T", "CONNECT": "c", "SET": "s",
    "ALTER SYSTEM": "A",
}  # fmt: skip
DEFAULTS = {  # by kind: all privileges, and those that PUBLIC has by default
    "table": ("arwdDxt", ""),
    "view": ("arwdDxt", ""),
    "column": ("arwx", ""),
    "sequence": ("rwU", ""),
    "schema": ("UC", ""),
    "database": ("CTc", "Tc"),
    "tablespace": ("C", ""),
    "function": ("X", "X"),
    "parameter": ("sA", ""),
    "foreign server": ("U", ""),
    "foreign-data wrapper": ("U", ""),
}
DATABASE_OWNER = "pg_database_owner"
_EVERYWHERE = {  # the privileges that predefined roles have on all objects of a kind
    "pg_read_all_data": {
        "table": frozenset("r"), "view": frozenset("r"), "sequence": frozenset("r"), "schema": frozenset("U"),
    },
    "pg_write_all_data": {
        "table": frozenset("awd"), "view": frozenset("awd"), "sequence": frozenset("w"), "schema": frozenset("U"),
    },
}  # fmt: skip
_KINDS: dict[type[Securable], str] = {
    Table: "table", View: "view", Sequence: "sequence", Schema: "schema", Database: "database",
    Tablespace: "tablespace", Routine: "function", Parameter: "parameter",
    ForeignServer: "foreign server", ForeignWrapper: "foreign-data wrapper",
}  # fmt: skip
_ITEM = re.compile(r'("(?:[^"]|"")*"|[^=]*)=([A-Za-z*]*)/("(?:[^"]|"")*"|.*)')
_PLAIN = re.compile(r"[A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Grant:
    """One item. `letters` are the privileges, `options` those of them WITH GRANT OPTION."""

    grantee: str  # '' for PUBLIC
    grantor: str
    letters: frozenset[str]
    options: frozenset[str] = frozenset()

    def __str__(self) -> str:
        shown = "".join(letter + "*" * (letter in self.options) for letter in ORDER if letter in self.letters)
        return f"{_quote(self.grantee)}={shown}/{_quote(self.grantor)}"


def _quote(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _bare(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


@lru_cache(4096)
def parse(item: str) -> Grant:
    """Parses an item."""
    found = _ITEM.fullmatch(item)
    assert found is not None, item
    letters = found[2]
    options = frozenset(letter for letter, star in pairwise(letters) if star == "*")
    return Grant(_bare(found[1]), _bare(found[3]), frozenset(letters) - {"*"}, options - {"*"})


def kind_of(item: Securable) -> str:
    """The kind of an object, a key of DEFAULTS."""
    return _KINDS[type(item)]


def owner_of(item: Owned) -> int:
    """The OID of the owner. Until its owner is changed, the schema public belongs to pg_database_owner."""
    if isinstance(item, Schema) and item.name == "public" and item.owner == BOOTSTRAP_ROLE_OID:
        return DATABASE_OWNER_OID
    return item.owner


def owner_name(catalog: Catalog, item: Securable) -> str:
    """The name of the owner."""
    owner = catalog.get(owner_of(item))
    return owner.name if isinstance(owner, Role) else ""


def grants_of(catalog: Catalog, item: Securable) -> tuple[Grant, ...]:
    """The items of an object, or those of its default privileges."""
    if item.acl is not None:
        return tuple(map(parse, item.acl))
    owner = owner_name(catalog, item)
    everything, public = DEFAULTS[kind_of(item)]
    if owner == DATABASE_OWNER:
        return Grant(owner, owner, frozenset(everything)), Grant("", owner, frozenset("U"))
    own = Grant(owner, owner, frozenset(everything))
    return (Grant("", owner, frozenset(public)), own) if public else (own,)


def column_grants(column: Column) -> tuple[Grant, ...]:
    """The items of a column, which has no default privileges."""
    return tuple(map(parse, column.acl or ()))


def roles_of(catalog: Catalog, role: Role, *, inherited: bool = True) -> set[int]:
    """The OIDs of the roles whose privileges a role has, itself included. With `inherited` false: all roles that it is
    a member of, which it can use by SET ROLE. A role with NOINHERIT has the privileges of its groups only after SET
    ROLE."""
    found: set[int] = set()
    pending = [role.oid]
    while pending:
        oid = pending.pop()
        item = role if oid == role.oid else catalog.get(oid)
        if oid not in found and isinstance(item, Role):
            found.add(oid)
            pending.extend(item.member_of if item.inherit or not inherited else ())
    database = catalog.get(catalog.database)
    if isinstance(database, Database) and database.owner in found:
        found.add(DATABASE_OWNER_OID)
    return found


def names_of(catalog: Catalog, role: Role) -> frozenset[str]:
    """The grantees whose privileges a role has: its own name, those of its groups, and '' (PUBLIC)."""
    found = (catalog.get(oid) for oid in roles_of(catalog, role))
    return frozenset(["", role.name, *(item.name for item in found if isinstance(item, Role))])


def acts_as(catalog: Catalog, role: Role | None, owner: int) -> bool:
    """Whether a role has the privileges of `owner`: it is a superuser, `owner` itself, or a member that inherits from
    it."""
    if role is None:
        return False
    return role.superuser or role.oid == owner or owner in roles_of(catalog, role)


def is_member(catalog: Catalog, role: Role, of: int) -> bool:
    """Whether a role may SET ROLE to `of`: it is a superuser, `of` itself, or any member of it."""
    return role.superuser or role.oid == of or of in roles_of(catalog, role, inherited=False)


def administers(catalog: Catalog, role: Role, group: int) -> bool:
    """Whether a role may grant membership in `group`: it is a superuser, or it or a role that it is a member of has the
    ADMIN OPTION."""
    known = (catalog.get(oid) for oid in roles_of(catalog, role, inherited=False))
    return role.superuser or any(isinstance(one, Role) and group in one.admin_of for one in known)


def is_owner(catalog: Catalog, item: Owned, role: Role) -> bool:
    """Whether a role has the owner's rights: it is a superuser, the owner, or a member that inherits from the owner."""
    return acts_as(catalog, role, owner_of(item))


def get_privileges(catalog: Catalog, item: Securable, role: Role) -> tuple[frozenset[str], frozenset[str]]:
    """The privileges of a role on an object, and those that it may grant."""
    everything = frozenset(DEFAULTS[kind_of(item)][0])
    if role.superuser:
        return everything, everything
    names = names_of(catalog, role)
    letters, options = _collect_privileges(grants_of(catalog, item), names)
    for name, given in _EVERYWHERE.items():
        if name in names:
            letters |= given.get(kind_of(item), frozenset())
    return letters, everything if is_owner(catalog, item, role) else options


def held_on_column(catalog: Catalog, column: Column, role: Role) -> tuple[frozenset[str], frozenset[str]]:
    """Like `get_privileges`, for the privileges that were granted on one column."""
    return _collect_privileges(column_grants(column), names_of(catalog, role))


def _collect_privileges(grants: Iterable[Grant], names: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    letters: frozenset[str] = frozenset()
    options: frozenset[str] = frozenset()
    for grant in grants:
        if grant.grantee in names:
            letters |= grant.letters
            options |= grant.options
    return letters, options


def may(catalog: Catalog, item: Securable, role: Role, letters: str) -> bool:
    """Whether a role has any of these privileges on an object."""
    return not get_privileges(catalog, item, role)[0].isdisjoint(letters)


def may_set(catalog: Catalog, role: Role | None, name: str, letter: str = "s") -> bool:
    """Whether a role may SET a setting that is reserved for superusers, or (letter A) change it by ALTER SYSTEM."""
    item = catalog.parameters.get(name.lower())
    return role is not None and (role.superuser or (item is not None and may(catalog, item, role, letter)))


def may_columns(catalog: Catalog, item: Table | View, role: Role, letter: str, columns: frozenset[int]) -> bool:
    """Whether a role has a privilege on a relation, or on each of these columns (if empty: on any of its columns)."""
    if letter in get_privileges(catalog, item, role)[0]:
        return True
    granted = {column.number for column in item.columns if letter in held_on_column(catalog, column, role)[0]}
    return columns <= granted if columns else bool(granted)


def any_is_granted(catalog: Catalog, item: Securable, role: Role, words: Iterable[tuple[str, bool]]) -> bool:
    """Whether a role has any of these privileges: (letter, whether the grant option is required)."""
    letters, options = get_privileges(catalog, item, role)
    return any(letter in (options if on else letters) for letter, on in words)


def column_is_granted(
    catalog: Catalog, item: Table | View, role: Role, column: int | None, letter: str, on: bool
) -> bool:
    """Whether a role has a privilege (`on`: with grant option) on a relation, or on one of its columns (None: any)."""
    if letter in get_privileges(catalog, item, role)[on]:
        return True
    return any(letter in held_on_column(catalog, one, role)[on] for one in item.columns if column in (None, one.number))


# ---- changes --------------------------------------------------------------------------------------------------------


class DependentPrivileges(Exception):  # noqa: N818 - a finding: the caller makes the error
    """Raised if other privileges depend on the ones to be revoked."""


def add_grant(grants: tuple[Grant, ...], new: Grant) -> tuple[Grant, ...]:
    """Adds a grant to the items."""
    for place, old in enumerate(grants):
        if (old.grantee, old.grantor) == (new.grantee, new.grantor):
            merged = replace(old, letters=old.letters | new.letters, options=old.options | new.options)
            return (*grants[:place], merged, *grants[place + 1 :])
    return (*grants, new)


def remove_grants(
    grants: tuple[Grant, ...], taken: Grant, only_options: bool, cascade: bool, owner: str
) -> tuple[Grant, ...]:
    """Revokes `taken` from the items, and the privileges that depend on it if `cascade` is set. Otherwise such
    privileges raise DependentPrivileges. `only_options`: REVOKE GRANT OPTION FOR."""
    found = []
    lost: frozenset[str] = frozenset()
    for old in grants:
        if (old.grantee, old.grantor) == (taken.grantee, taken.grantor):
            lost = old.options & taken.letters
            letters = old.letters if only_options else old.letters - taken.letters
            found.append(replace(old, letters=letters, options=old.options - taken.letters))
        else:
            found.append(old)
    rest = tuple(grant for grant in found if grant.letters)
    if taken.grantee == owner:
        return rest
    lost -= frozenset[str]().union(*(grant.options for grant in rest if grant.grantee == taken.grantee))
    for grant in rest:
        again = grant.letters & lost
        if grant.grantor == taken.grantee and again:
            if not cascade:
                raise DependentPrivileges
            rest = remove_grants(rest, replace(grant, letters=again), False, True, owner)
    return rest


def texts(grants: Iterable[Grant]) -> tuple[str, ...]:
    """The items in their stored form."""
    return tuple(map(str, grants))


def rename_role(acl: Acl, old: str, new: str) -> Acl:
    """Replaces a role's name in the items, after a rename or (with another role's name) a change of owner."""
    if acl is None:
        return None
    found: tuple[Grant, ...] = ()
    for grant in map(parse, acl):
        grantee = new if grant.grantee == old else grant.grantee
        grantor = new if grant.grantor == old else grant.grantor
        found = add_grant(found, replace(grant, grantee=grantee, grantor=grantor))
    return texts(found)
