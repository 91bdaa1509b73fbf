"""System information: the session, names, privileges, definitions (PostgreSQL 16 manual, 9.26 and 9.27).

These are the Python sides, for the row path and for constant arguments. On the columnar path the same functions are
sub-queries on virtual tables (catalog/system/lookups.py); functions without a Python side here exist only there.
`_show_name` and `_read` are the output and input functions of the reg types, which print and read names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, cast

from catalog import collations, privileges, types
from catalog.catalog import Catalog
from catalog.encodings import BY_NUMBER, encoding_named
from catalog.errors import SqlError
from catalog.functions.base import CallContext, Function, Trait
from catalog.functions.registry import declare, function_oids, implement, implements, mark
from catalog.functions.system_lookups import found_name
from catalog.identifiers import canonical_name, quote_identifier
from catalog.row_security import is_restricted_user
from catalog.schema import Composite, Database, Domain, Index, Role, Routine, Schema, Sequence, Table, Tablespace, View
from catalog.system import definitions
from catalog.system.names import function_names, operator_names
from catalog.system.objects import qualified_name, schema_name
from catalog.system.relations import FUNCTION_NAMES, OPERATOR_NAMES, system_view_text
from catalog.types import lookup, oids
from catalog.types.base import Array
from catalog.types.user import FIRST_ADDED_OID

RELEASE = "0.1.0"
VERSION = f"PostgreSQL 15.0 (Shoal {RELEASE})"
_REG_TYPES = {
    oids.REGCLASS: "regclass",
    oids.REGTYPE: "regtype",
    oids.REGPROC: "regproc",
    oids.REGPROCEDURE: "regprocedure",
    oids.REGOPER: "regoper",
    oids.REGOPERATOR: "regoperator",
    oids.REGNAMESPACE: "regnamespace",
    oids.REGROLE: "regrole",
    oids.REGCOLLATION: "regcollation",
}


class _Services(Protocol):
    """The parts of the session that these functions use, besides settings: `SessionSurroundings` in
    engine/system_views/surroundings.py."""

    catalog: Catalog
    path: tuple[int, ...]
    user: Role | None
    temporary_schema: str

    def expression(self, text: str, table: Table | None, pretty: bool) -> str: ...
    def view(self, view: View | Table, pretty: bool) -> str: ...
    def read_name(self, type_oid: int, text: str) -> int: ...
    def signal(self, process_id: int, terminate: bool) -> bool: ...
    def query_text(self) -> str: ...
    def last_commit_token(self) -> str: ...
    def write_checkpoint(self, run: object) -> int: ...
    def begin_check(self, run: object) -> str: ...
    def check_indexes(self, run: object) -> str: ...


class _Session(Protocol):
    process_id: int
    user_name: str
    session_user_name: str
    database_name: str
    search_path: tuple[str, ...]
    trigger_depth: int

    @property
    def surroundings(self) -> _Services: ...
    def setting(self, name: str) -> str: ...
    def set_setting(self, name: str, value: str, local: bool) -> None: ...


def _session(call: CallContext) -> _Session:
    return cast(_Session, call.session)


def _services(call: CallContext) -> _Services:
    return _session(call).surroundings


# ---- the session ----------------------------------------------------------------------------------------------------


@implements("current_schema", needs_session=True)
def _current_schema(call: CallContext) -> str | None:
    services, named = _services(call), _session(call).search_path
    names = (schema_name(services.catalog, oid) for oid in services.path)
    return next((name for name in names if _is_named(services, named, name)), None)


@implements("current_schemas", needs_session=True)
def _current_schemas(call: CallContext, implicit: bool) -> Array:
    services, named = _services(call), _session(call).search_path
    names = [schema_name(services.catalog, oid) for oid in services.path]
    return Array.of(tuple(name for name in names if implicit or _is_named(services, named, name)))


def _is_named(services: _Services, named: tuple[str, ...], schema: str) -> bool:
    """Whether search_path names a schema explicitly, so that it is not only searched implicitly."""
    if schema == services.temporary_schema:
        return "pg_temp" in named
    return schema != "pg_catalog" or schema in named


implement("current_database", lambda call: _session(call).database_name, needs_session=True)
implement("current_user", lambda call: _session(call).user_name, needs_session=True)
implement("session_user", lambda call: _session(call).session_user_name, needs_session=True)
implement(
    "current_query",
    lambda call: _services(call).query_text(),
    needs_session=True,
    traits=(Trait.SESSION_ONLY,),
)
implement("pg_backend_pid", lambda call: _session(call).process_id, needs_session=True)
implement("pgsql_version", lambda: VERSION)
implement("getdatabaseencoding", lambda: "UTF8")
implement("pg_is_in_recovery", lambda: False)
for _source in ("pg_last_wal_receive_lsn", "pg_last_wal_replay_lsn", "pg_last_xact_replay_timestamp"):
    implement(_source, lambda: None)


@implements(
    "pg_is_wal_replay_paused", "pg_get_wal_replay_pause_state", "pg_wal_replay_pause", "pg_wal_replay_resume",
    "pg_promote",
)  # fmt: skip
def _no_recovery(*_: object) -> None:
    """Raises 55000: a follower applies the changelog without a pause, and is promoted by its cluster."""
    hint = "Recovery control functions can only be executed during recovery."
    raise SqlError("55000", "recovery is not in progress", hint=hint)


implement("pg_jit_available", lambda: False)
implement("pg_trigger_depth", lambda call: _session(call).trigger_depth, needs_session=True)
mark(
    Trait.SESSION_ONLY, "current_database", "pg_backend_pid", "pgsql_version", "pg_is_in_recovery", "shoal_last_commit"
)


def _address(side: str, part: str, call: CallContext) -> object:
    """Returns the address or the port of a TCP connection's client or server (`side`); NULL for a Unix-domain
    socket."""
    found = getattr(call.session, f"{side}_address", None)
    if found is None:
        return None
    return lookup(oids.INET).text_decoder()(found[0]) if part == "addr" else found[1]


for _side in ("client", "server"):
    for _part in ("addr", "port"):
        _function = functools.partial(_address, _side, _part)
        implement(f"inet_{_side}_{_part}", _function, needs_session=True, traits=(Trait.SESSION_ONLY,))


@implements("pg_postmaster_start_time", "pg_conf_load_time", needs_session=True)
def _start_time(call: CallContext) -> int:
    return int(cast(Any, call.session).node.started)


@implements("show_config_by_name", "show_config_by_name_missing_ok", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _current_setting(call: CallContext, name: str, missing_ok: bool = False) -> str | None:
    try:
        return _session(call).setting(name)
    except SqlError:
        if missing_ok:
            return None
        raise


@implements("set_config_by_name", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _set_config(call: CallContext, name: str | None, value: str | None, local: bool | None) -> str:
    if name is None:
        raise SqlError("22004", "SET requires parameter name")
    _session(call).set_setting(name, value if value is not None else "", bool(local))
    return _session(call).setting(name)


@implements("pg_my_temp_schema", needs_session=True)
def _temporary_schema(call: CallContext) -> int:
    services = _services(call)
    return services.catalog.schemas.get(services.temporary_schema, 0) if services.temporary_schema else 0


@implements("pg_is_other_temp_schema", needs_session=True)
def _is_other_temporary(call: CallContext, oid: int) -> bool:
    services = _services(call)
    found = services.catalog.get(oid)
    if not isinstance(found, Schema) or not found.name.startswith("pg_temp_"):
        return False
    return found.name != services.temporary_schema


@implements("pg_cancel_backend", needs_session=True)
def _cancel_backend(call: CallContext, process_id: int) -> bool:
    return _services(call).signal(process_id, False)


@implements("pg_terminate_backend", needs_session=True)
def _terminate_backend(call: CallContext, process_id: int, timeout: int = 0) -> bool:
    return _services(call).signal(process_id, True)


# ---- encodings and types --------------------------------------------------------------------------------------------


@implements("PG_encoding_to_char")
def _encoding_name(number: int) -> str:
    found = BY_NUMBER.get(number)
    return "" if found is None else found.name


@implements("PG_char_to_encoding")
def _encoding_number(name: str) -> int:
    found = encoding_named(name)
    return -1 if found is None else found.number


@implements("pg_encoding_max_length_sql")
def _encoding_length(number: int) -> int | None:
    found = BY_NUMBER.get(number)
    return None if found is None else found.width


@implements("pg_client_encoding", needs_session=True, traits=(Trait.SESSION_ONLY,))
def _client_encoding(call: CallContext) -> str:
    return _session(call).setting("client_encoding")


@implements("format_type", needs_session=True)
def shown_type(call: CallContext, oid: int | None, typmod: int | None) -> str | None:
    services = _services(call)
    return None if oid is None else definitions.type_name(services.catalog, services.path, oid, typmod)


_TYPMOD = (oids.OID, oids.INT4)
declare(
    Function(9905, "shoal_builtin_type", "shoal_builtin_type", "f", False, False, "s", _TYPMOD, oids.TEXT, 0, 0),
    inner=True,
)


@implements("shoal_builtin_type")
def _builtin_type(oid: int | None, typmod: int | None) -> str | None:
    """format_type of built-in types; the catalog has the names of other types (lookups.py)."""
    return None if oid is None else types.format_type(oid, typmod)


def _type_of(argument_types: Any, result: Any) -> Callable[..., object]:
    oid = argument_types[0].declared
    return lambda value: oid


implement("pg_typeof", python_for_types=_type_of)


@implements("nameconcatoid")
def _numbered_name(name: str, oid: int) -> str:
    """Returns a name with the OID as suffix, of at most 63 bytes: specific_name in information_schema."""
    suffix = f"_{oid}"
    return name.encode()[: 63 - len(suffix)].decode(errors="ignore") + suffix


# ---- sizes ----------------------------------------------------------------------------------------------------------


@implements("pg_size_pretty", "pg_size_pretty_numeric")
def size_pretty(size: Any) -> str:
    """pg_size_pretty: '12 kB', in the unit that leaves at most five digits, rounded half away from zero (dbsize.c)."""
    value = int(size)
    units = (("bytes", 10 * 1024), ("kB", 20 * 1024 - 1), ("MB", 20 * 1024 - 1), ("GB", 20 * 1024 - 1),
             ("TB", 20 * 1024 - 1), ("PB", 20 * 1024 - 1))  # fmt: skip
    half = False
    for number, (unit, limit) in enumerate(units):
        if abs(value) < limit or number == len(units) - 1:
            if half:
                value = (value + 1) // 2 if value >= 0 else -((1 - value) // 2)
            shown = size if unit == "bytes" else value
            return f"{shown} {unit}"
        shift = 9 if number == 0 else 10
        value = value >> shift if value >= 0 else -(-value >> shift)
        half = True
    raise AssertionError


# ---- names ----------------------------------------------------------------------------------------------------------


declare(
    Function(
        9900, "shoal_canonical_name", "shoal_canonical_name", "f", True, False, "i", (oids.TEXT,), oids.TEXT, 0, 0
    ),
    inner=True,
)
implement("shoal_canonical_name", canonical_name)


declare(Function(9901, "shoal_last_commit", "shoal_last_commit", "f", True, False, "v", (), oids.TEXT, 0, 0))
implement("shoal_last_commit", lambda call: _services(call).last_commit_token(), needs_session=True)
declare(Function(9902, "shoal_checkpoint", "shoal_checkpoint", "f", True, False, "v", (), oids.INT8, 0, 0))
implement("shoal_checkpoint", lambda call: _services(call).write_checkpoint(call), needs_session=True)
declare(Function(9903, "shoal_check", "shoal_check", "f", True, False, "v", (), oids.TEXT, 0, 0))
implement("shoal_check", lambda call: _services(call).begin_check(call), needs_session=True)
declare(Function(9936, "shoal_check_indexes", "shoal_check_indexes", "f", True, False, "v", (), oids.TEXT, 0, 0))
implement("shoal_check_indexes", lambda call: _services(call).check_indexes(call), needs_session=True)
for _trait in (Trait.LEADER, Trait.ALL_TABLESPACES):
    mark(_trait, "shoal_checkpoint", "shoal_check", "shoal_check_indexes")


def _show_name(type_oid: int, call: CallContext, oid: int) -> str:
    """Returns the name of a reg type's value; '-' for 0 ('0' for operators), the number if the object does not
    exist."""
    if oid == 0:
        return "0" if type_oid in oids.OPERATOR_NAMES else "-"
    return _names(type_oid, _services(call), oid) or _added_name(type_oid, call, oid) or str(oid)


def _added_name(type_oid: int, call: CallContext, oid: int) -> str | None:
    """Returns the name of a function or operator of an extension or of a user; None for others."""
    if oid < FIRST_ADDED_OID or type_oid not in (oids.REGPROC, oids.REGPROCEDURE, oids.REGOPER, oids.REGOPERATOR):
        return None
    wanted = "signature" if type_oid in oids.SIGNATURES else "shown"
    of_functions = type_oid in oids.FUNCTION_NAMES
    return found_name(call, FUNCTION_NAMES if of_functions else OPERATOR_NAMES, wanted, oid)


def _names(type_oid: int, services: _Services, oid: int) -> str | None:
    catalog, path = services.catalog, services.path
    if type_oid == oids.REGTYPE:
        name = definitions.type_name(catalog, path, oid)
        return None if name == "???" else name
    if type_oid == oids.REGCLASS:
        relation = definitions.find_relation(catalog, oid)
        return None if relation is None else definitions.relation_name(catalog, path, relation)
    if type_oid in (oids.REGNAMESPACE, oids.REGROLE):
        found = catalog.get(oid)
        return quote_identifier(found.name) if isinstance(found, Schema | Role) else None
    if type_oid == oids.REGCOLLATION:
        return collations.show_name(catalog, path, oid)
    return _builtin_names(type_oid).get(oid)


@functools.cache
def _builtin_names(type_oid: int) -> dict[int, str]:
    """Returns the names of built-in functions or operators, as regproc, regprocedure, regoper or regoperator."""
    wanted = "signature" if type_oid in oids.SIGNATURES else "shown"
    source = function_names if type_oid in oids.FUNCTION_NAMES else operator_names
    columns = cast("dict[str, list[Any]]", source([], cast(Any, None)))
    return dict(zip(columns["oid"], columns[wanted], strict=True))


for _oid, _name in _REG_TYPES.items():
    implement(f"{_name}out", functools.partial(_show_name, _oid), needs_session=True)


def _read(type_oid: int, call: CallContext, text: str) -> int:
    return _services(call).read_name(type_oid, text)


def _read_if_there(type_oid: int, call: CallContext, text: str) -> int | None:
    try:
        return _services(call).read_name(type_oid, text)
    except SqlError as error:
        if error.sqlstate in ("42P01", "3F000", "42704", "42883", "42725"):
            return None
        raise


for _oid, _name in _REG_TYPES.items():
    implement(f"{_name}in", functools.partial(_read, _oid), needs_session=True)
    implement(f"to_{_name}", functools.partial(_read_if_there, _oid), needs_session=True)
implement("text_regclass", functools.partial(_read, oids.REGCLASS), needs_session=True)


@implements("pg_get_userbyid", needs_session=True)
def _user_by_id(call: CallContext, oid: int) -> str:
    found = _services(call).catalog.get(oid)
    return found.name if isinstance(found, Role) else f"unknown (OID={oid})"


@implements("pg_table_is_visible", needs_session=True)
def _table_is_visible(call: CallContext, oid: int) -> bool | None:
    services = _services(call)
    found = definitions.find_relation(services.catalog, oid)
    if found is not None:
        return definitions.is_visible(services.catalog, services.path, found)
    for item in services.catalog.by_kind.get(Composite, ()):
        if isinstance(item, Composite) and item.relation == oid:
            return next((s == item.schema for s in services.path if (s, item.name) in services.catalog.types), False)
    return None


# ---- definitions ----------------------------------------------------------------------------------------------------


@implements("pg_get_viewdef", "pg_get_viewdef_ext", needs_session=True)
def _view_definition(call: CallContext, oid: int, pretty: bool = False) -> str | None:
    services = _services(call)
    found = definitions.find_relation(services.catalog, oid)
    if not isinstance(found, View | Table) or found.query is None:
        return None
    return system_view_text(oid) or services.view(found, pretty)


@implements("pg_get_viewdef_name", "pg_get_viewdef_name_ext", needs_session=True)
def _view_definition_by_name(call: CallContext, name: str, pretty: bool = False) -> object:
    return _view_definition(call, _services(call).read_name(oids.REGCLASS, name), pretty)


@implements("pg_get_indexdef", "pg_get_indexdef_ext", needs_session=True)
def _index_definition(call: CallContext, oid: int, column: int = 0, pretty: bool = False) -> str | None:
    services: Any = _services(call)
    found = services.catalog.get(oid)
    if not isinstance(found, Index):
        return None
    table = services.catalog.table(found.table)
    if column:
        return definitions.index_column_definition(services, found, table, column, pretty)
    return definitions.index_definition(services, found, table, pretty)


@implements("pg_get_constraintdef", "pg_get_constraintdef_ext", needs_session=True)
def _constraint_definition(call: CallContext, oid: int, pretty: bool = False) -> str | None:
    services: Any = _services(call)
    for table in services.catalog.tables():
        for constraint in table.constraints:
            if constraint.oid == oid:
                return definitions.constraint_definition(services, table, constraint, pretty)
    for domain in services.catalog.by_kind.get(Domain, ()):
        for constraint in domain.checks:
            if constraint.oid == oid:
                return definitions.domain_check(constraint, pretty)
    return None


@implements("pg_get_serial_sequence", needs_session=True)
def _serial_sequence(call: CallContext, table_name: str, column_name: str) -> str | None:
    services = _services(call)
    oid = services.read_name(oids.REGCLASS, table_name)
    columns = getattr(definitions.find_relation(services.catalog, oid), "columns", ())
    column = next((item for item in columns if item.name == column_name), None)
    if column is None:
        raise SqlError("42703", f'column "{column_name}" of relation "{table_name}" does not exist')
    for item in services.catalog.objects.values():
        if isinstance(item, Sequence) and item.owned_by == (oid, column.number):
            return qualified_name(services.catalog, item)
    return None


# ---- privileges -----------------------------------------------------------------------------------------------------

_PRIVILEGES = {
    "table": (
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "TRUNCATE",
        "REFERENCES",
        "TRIGGER",
        "RULE",
    ),
    "sequence": (
        "USAGE",
        "SELECT",
        "UPDATE",
    ),
    "database": (
        "CREATE",
        "TEMPORARY",
        "TEMP",
        "CONNECT",
    ),
    "schema": (
        "CREATE",
        "USAGE",
    ),
    "tablespace": ("CREATE",),
    "function": ("EXECUTE",),
    "parameter": ("SET", "ALTER SYSTEM"),
    "type": ("USAGE",),
    "language": ("USAGE",),
    "column": (
        "SELECT",
        "INSERT",
        "UPDATE",
        "REFERENCES",
    ),
    "any_column": (
        "SELECT",
        "INSERT",
        "UPDATE",
        "REFERENCES",
    ),
}


def _check_privilege(kind: str, text: str) -> set[tuple[str, bool]]:
    """Returns the privileges of a text such as 'SELECT, INSERT WITH GRANT OPTION': (letter, with grant option). Raises
    22023 for an unknown privilege."""
    found = set()
    for part in text.split(","):
        shown = part.strip().upper()
        word = shown.removesuffix(" WITH GRANT OPTION")
        if word not in _PRIVILEGES[kind]:
            raise SqlError("22023", f'unrecognized privilege type: "{part.strip()}"')
        if word in privileges.WORDS:
            found.add((privileges.WORDS[word], shown != word))
    return found


def _role(services: _Services, role: str | int) -> Role | None:
    """Returns the role of this name or OID. Raises 42704 for an unknown name; None for an unknown OID."""
    found = services.catalog.get(services.catalog.roles.get(role, 0) if isinstance(role, str) else role)
    if not isinstance(found, Role):
        if isinstance(role, str):
            raise SqlError("42704", f'role "{role}" does not exist')
        return None
    return found


def _may(call: CallContext, user: Role | None, owner: int) -> bool:
    return privileges.acts_as(_services(call).catalog, user, owner)


def _on_relation(kind: str, call: CallContext, user: Role | None, relation: str | int, text: str) -> bool | None:
    services = _services(call)
    words = _check_privilege(kind, text)
    oid = services.read_name(oids.REGCLASS, relation) if isinstance(relation, str) else relation
    found = definitions.find_relation(services.catalog, oid)
    if found is None:
        return None
    if kind == "sequence" and not isinstance(found, Sequence):
        raise SqlError("42809", f'"{found.name}" is not a sequence')
    if user is None:
        return False
    if not isinstance(found, Table | View | Sequence) or found.oid not in services.catalog.objects:
        return _may(call, user, found.owner) if isinstance(found, Index) else words <= {("r", False)} or user.superuser
    if kind == "any_column" and isinstance(found, Table | View):
        return any(privileges.column_is_granted(services.catalog, found, user, None, *word) for word in words)
    return privileges.any_is_granted(services.catalog, found, user, words)


def _on_schema(call: CallContext, user: Role | None, schema: str | int, text: str) -> bool | None:
    services = _services(call)
    words = _check_privilege("schema", text)
    found = services.catalog.get(services.read_name(oids.REGNAMESPACE, schema) if isinstance(schema, str) else schema)
    if not isinstance(found, Schema):
        return None
    if user is None:
        return False
    if found.name in ("pg_catalog", "information_schema"):
        return user.superuser or ("U", False) in words
    return privileges.any_is_granted(services.catalog, found, user, words)


def _on_database(call: CallContext, user: Role | None, database: str | int, text: str) -> bool | None:
    services = _services(call)
    words = _check_privilege("database", text)
    oid = services.catalog.databases.get(database) if isinstance(database, str) else database
    found = services.catalog.get(oid or 0)
    if found is None:
        if isinstance(database, str):
            raise SqlError("3D000", f'database "{database}" does not exist')
        return None
    return (
        isinstance(found, Database)
        and user is not None
        and privileges.any_is_granted(services.catalog, found, user, words)
    )


def _on_function(call: CallContext, user: Role | None, function: str | int, text: str) -> bool | None:
    services = _services(call)
    words = _check_privilege("function", text)
    oid = services.read_name(oids.REGPROCEDURE, function) if isinstance(function, str) else function
    found = services.catalog.get(oid)
    if not isinstance(found, Routine):
        return True if oid in function_oids() else None
    return user is not None and privileges.any_is_granted(services.catalog, found, user, words)


def _on_tablespace(call: CallContext, user: Role | None, tablespace: str | int, text: str) -> bool | None:
    services = _services(call)
    words = _check_privilege("tablespace", text)
    oid = services.catalog.tablespaces.get(tablespace) if isinstance(tablespace, str) else tablespace
    found = services.catalog.get(oid or 0)
    if not isinstance(found, Tablespace):
        if isinstance(tablespace, str):
            raise SqlError("42704", f'tablespace "{tablespace}" does not exist')
        return None
    return user is not None and privileges.any_is_granted(services.catalog, found, user, words)


def _on_parameter(call: CallContext, user: Role | None, name: str, text: str) -> bool:
    """has_parameter_privilege. Only superusers have privileges on a setting without grants."""
    catalog, words = _services(call).catalog, _check_privilege("parameter", text)
    item = catalog.parameters.get(name.lower())
    if user is None or item is None:
        return user is not None and user.superuser
    return privileges.any_is_granted(catalog, item, user, words)


def _public(kind: str, call: CallContext, user: Role | None, item: str | int, text: str) -> bool:
    """Returns True, because PUBLIC has all privileges on built-in functions, types and languages."""
    _check_privilege(kind, text)
    return True


_CHECKS: dict[str, Callable[..., bool | None]] = {
    "table": functools.partial(_on_relation, "table"),
    "any_column": functools.partial(_on_relation, "any_column"),
    "sequence": functools.partial(_on_relation, "sequence"),
    "schema": _on_schema,
    "database": _on_database,
    "function": _on_function,
    "tablespace": _on_tablespace,
    "type": functools.partial(_public, "type"),
    "language": functools.partial(_public, "language"),
}


def _own(check: Callable[..., bool | None], call: CallContext, item: str | int, text: str) -> bool | None:
    return check(call, _services(call).user, item, text)


def _others(
    check: Callable[..., bool | None], call: CallContext, role: str | int, item: str | int, text: str
) -> bool | None:
    return check(call, _role(_services(call), role), item, text)


for _kind, _check in _CHECKS.items():
    for _item in ("name", "id"):
        implement(f"has_{_kind}_privilege_{_item}", functools.partial(_own, _check), needs_session=True)
        for _who in ("name", "id"):
            implement(f"has_{_kind}_privilege_{_who}_{_item}", functools.partial(_others, _check), needs_session=True)


implement("has_parameter_privilege_name", functools.partial(_own, _on_parameter), needs_session=True)
for _who in ("name", "id"):
    implement(f"has_parameter_privilege_{_who}_name", functools.partial(_others, _on_parameter), needs_session=True)


def _own_column(call: CallContext, relation: str | int, column: str | int, text: str) -> bool | None:
    return _on_column(call, _services(call).user, relation, column, text)


def _others_column(
    call: CallContext, role: str | int, relation: str | int, column: str | int, text: str
) -> bool | None:
    return _on_column(call, _role(_services(call), role), relation, column, text)


def _on_column(call: CallContext, user: Role | None, relation: str | int, column: str | int, text: str) -> bool | None:
    services = _services(call)
    words = _check_privilege("column", text)
    oid = services.read_name(oids.REGCLASS, relation) if isinstance(relation, str) else relation
    found = services.catalog.get(oid)
    if not isinstance(found, Table | View):
        return _on_relation("table", call, user, relation, text)
    chosen = next((one for one in found.columns if column in (one.name, one.number)), None)
    if chosen is None and isinstance(column, str):
        raise SqlError("42703", f'column "{column}" of relation "{found.name}" does not exist')
    if chosen is None or user is None:
        return None
    number = chosen.number
    return any(privileges.column_is_granted(services.catalog, found, user, number, *word) for word in words)


for _item in ("name_name", "name_attnum", "id_name", "id_attnum"):
    implement(f"has_column_privilege_{_item}", _own_column, needs_session=True)
    for _who in ("name", "id"):
        implement(f"has_column_privilege_{_who}_{_item}", _others_column, needs_session=True)


@implements("row_security_active", needs_session=True)
@implements("row_security_active_name", needs_session=True)
def _row_security_active(call: CallContext, relation: str | int) -> bool:
    """row_security_active: whether policies restrict the user's access to a table. Raises 42P01 for an unknown name."""
    services = _services(call)
    oid = services.read_name(oids.REGCLASS, relation) if isinstance(relation, str) else relation
    found = services.catalog.get(oid)
    return isinstance(found, Table) and is_restricted_user(services.catalog, found, services.user)


def _has_role(call: CallContext, user: Role | None, role: str | int, text: str) -> bool | None:
    """pg_has_role: USAGE tests for inherited privileges, MEMBER for SET ROLE, and an option for the right to grant the
    role."""
    services = _services(call)
    found = _role(services, role)
    allowed = False
    for part in text.split(","):
        word = part.strip().upper()
        if word not in ("USAGE", "MEMBER", *(f"{word} WITH {o} OPTION" for word in ("USAGE", "MEMBER") for o in _ON)):
            raise SqlError("22023", f'unrecognized privilege type: "{part.strip()}"')
        if found is not None and user is not None:
            if word == "USAGE":
                allowed |= privileges.acts_as(services.catalog, user, found.oid)
            elif word == "MEMBER":
                allowed |= privileges.is_member(services.catalog, user, found.oid)
            else:
                allowed |= privileges.administers(services.catalog, user, found.oid)
    return None if found is None else allowed


_ON = ("ADMIN", "GRANT")


for _item in ("name", "id"):
    implement(f"pg_has_role_{_item}", functools.partial(_own, _has_role), needs_session=True)
    for _who in ("name", "id"):
        implement(f"pg_has_role_{_who}_{_item}", functools.partial(_others, _has_role), needs_session=True)
