"""pg_namespace, and the objects that all databases share: databases, roles, tablespaces, their settings and
comments."""

from __future__ import annotations

from catalog.catalog import Catalog
from catalog.privileges import owner_of, roles_of
from catalog.schema import BOOTSTRAP_ROLE_OID, DEFAULT_TABLESPACE_OID, Database, Parameter, Role, Schema, Tablespace
from catalog.system import derived_oids
from catalog.system.content import Columns, Item, Items, Surroundings, comment_columns, content, shared_objects
from catalog.system.relations import ROLE_GROUPS
from catalog.types.base import Array

UTF8 = 6
roles = shared_objects(Role)
databases = shared_objects(Database)
tablespaces = shared_objects(Tablespace)
schemas = shared_objects(Schema)


_PUBLIC_ACL = Array.of(("pg_database_owner=UC/pg_database_owner", "=U/pg_database_owner"))


def is_untouched_public(schema: Schema) -> bool:
    """Whether the schema is the initial `public`, whose owner is pg_database_owner."""
    return schema.owner != owner_of(schema)


@content("pg_namespace", "catalog", schemas)
def _schemas(items: list[Item], _: Surroundings) -> Columns:
    found: list[Schema] = [schema for (schema,) in items]
    return {
        "oid": [schema.oid for schema in found],
        "nspname": [schema.name for schema in found],
        "nspowner": [owner_of(schema) for schema in found],
        "nspacl": [
            Array.of(schema.acl) if schema.acl is not None else _PUBLIC_ACL if is_untouched_public(schema) else None
            for schema in found
        ],
    }


@content("pg_description", "catalog", schemas)
def _schema_comments(items: list[Item], _: Surroundings) -> Columns:
    return comment_columns(derived_oids.PG_NAMESPACE, (schema for (schema,) in items))


@content("pg_database", "catalog", databases)
def _databases(items: list[Item], _: Surroundings) -> Columns:
    found: list[Database] = [database for (database,) in items]
    return {
        "oid": [database.oid for database in found],
        "datname": [database.name for database in found],
        "datdba": [database.owner for database in found],
        "encoding": UTF8,
        "datlocprovider": "c",
        "datistemplate": [database.is_template for database in found],
        "datallowconn": [database.allow_connections for database in found],
        "datconnlimit": [database.connection_limit for database in found],
        "dattablespace": DEFAULT_TABLESPACE_OID,
        "datacl": [None if database.acl is None else Array.of(database.acl) for database in found],
        "datcollate": [database.collate for database in found],
        "datctype": [database.ctype for database in found],
    }


_DEFAULT_KINDS = {"table": "r", "sequence": "S", "function": "f", "schema": "n"}


@content("pg_default_acl", "catalog", databases)
def _default_acls(items: list[Item], surroundings: Surroundings) -> Columns:
    here = surroundings.catalog.database
    found = [acl for (database,) in items if database.oid == here for acl in database.default_acls]
    return {
        "oid": [acl.oid for acl in found],
        "defaclrole": [acl.role for acl in found],
        "defaclnamespace": [acl.schema for acl in found],
        "defaclobjtype": [_DEFAULT_KINDS[acl.kind] for acl in found],
        "defaclacl": [Array.of(acl.acl) for acl in found],
    }


@content("pg_shdescription", "catalog", databases)
def _database_comments(items: list[Item], _: Surroundings) -> Columns:
    return _shared_comments(items, derived_oids.PG_DATABASE)


@content("pg_shdescription", "catalog", tablespaces)
def _tablespace_comments(items: list[Item], _: Surroundings) -> Columns:
    return _shared_comments(items, derived_oids.PG_TABLESPACE)


def _shared_comments(items: list[Item], kind: int) -> Columns:
    found = [item for (item,) in items if item.comment is not None]
    return {
        "objoid": [item.oid for item in found],
        "classoid": kind,
        "description": [item.comment for item in found],
    }


def _with_groups(catalog: Catalog, role: Role) -> Item:
    return role, tuple(roles_of(catalog, role, inherited=False)), roles_of(catalog, role)


@content(ROLE_GROUPS, "catalog", Items((Role,), _with_groups))
def _groups(items: list[Item], _: Surroundings) -> Columns:
    found = [(role.oid, group, group in inherited) for role, groups, inherited in items for group in groups]
    return {name: [row[place] for row in found] for place, name in enumerate(("member", "role", "inherited"))}


@content("pg_authid", "catalog", roles)
def _roles(items: list[Item], _: Surroundings) -> Columns:
    found: list[Role] = [role for (role,) in items]
    return {
        "oid": [role.oid for role in found],
        "rolname": [role.name for role in found],
        "rolsuper": [role.superuser for role in found],
        "rolinherit": [role.inherit for role in found],
        "rolcreaterole": [role.create_role for role in found],
        "rolcreatedb": [role.create_db for role in found],
        "rolcanlogin": [role.login for role in found],
        "rolreplication": [role.replication for role in found],
        "rolbypassrls": [role.bypass_rls for role in found],
        "rolconnlimit": [role.connection_limit for role in found],
        # SQL does not show the password verifiers, which no client needs.
        "rolpassword": [None if role.password is None else "********" for role in found],
        "rolvaliduntil": [role.valid_until for role in found],
    }


@content("pg_auth_members", "catalog", roles)
def _members(items: list[Item], _: Surroundings) -> Columns:
    found = [(group, role.oid) for (role,) in items for group in role.member_of]
    return {
        "roleid": [group for group, _ in found],
        "member": [member for _, member in found],
        "grantor": BOOTSTRAP_ROLE_OID,
        "admin_option": [group in role.admin_of for (role,) in items for group in role.member_of],
    }


@content("pg_db_role_setting", "catalog", shared_objects(Role))
def _role_settings(items: list[Item], _: Surroundings) -> Columns:
    found = [role for (role,) in items if role.settings]
    return {"setrole": [role.oid for role in found], "setconfig": [_settings(role) for role in found]}


@content("pg_db_role_setting", "catalog", shared_objects(Database))
def _database_settings(items: list[Item], _: Surroundings) -> Columns:
    found = [database for (database,) in items if database.settings]
    return {"setdatabase": [item.oid for item in found], "setconfig": [_settings(item) for item in found]}


def _settings(item: Role | Database) -> Array:
    return Array.of(tuple(f"{name}={value}" for name, value in item.settings))


@content("pg_tablespace", "catalog", tablespaces)
def _tablespaces(items: list[Item], _: Surroundings) -> Columns:
    found: list[Tablespace] = [item for (item,) in items]
    return {
        "oid": [item.oid for item in found],
        "spcname": [item.name for item in found],
        "spcowner": [item.owner for item in found],
        "spcacl": [None if item.acl is None else Array.of(item.acl) for item in found],
        "spcoptions": [
            Array.of(tuple(f"{name}={value}" for name, value in item.options)) if item.options else None
            for item in found
        ],
    }


@content("pg_parameter_acl", "catalog", shared_objects(Parameter))
def _parameters(items: list[Item], _: Surroundings) -> Columns:
    found: list[Parameter] = [item for (item,) in items]
    return {
        "oid": [item.oid for item in found],
        "parname": [item.name for item in found],
        "paracl": [None if item.acl is None else Array.of(item.acl) for item in found],
    }
