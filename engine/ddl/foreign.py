"""Foreign data wrappers, servers and user mappings (foreigncmds.c)."""

from __future__ import annotations

from dataclasses import replace

from catalog.errors import SqlError, not_supported
from catalog.extensions import POSTGRES_HANDLER, POSTGRES_VALIDATOR
from catalog.privileges import may
from catalog.schema import EVERYBODY, Extension, ForeignServer, ForeignWrapper, Role, SchemaObject, UserMapping
from catalog.types import oids
from engine.ddl import foreign_options, ownership
from engine.ddl.context import DdlContext
from engine.ddl.drop import remove
from engine.ddl.operators import exact_function
from engine.sql import ast

_WRAPPER = "foreign-data wrapper"


# ---- wrappers -------------------------------------------------------------------------------------------------------


def define_wrapper(context: DdlContext, statement: ast.ForeignWrapperStmt) -> str:
    """CREATE and ALTER FOREIGN DATA WRAPPER. Raises 42501, 42710, 42704, 42883, 42809, and errors of the options."""
    name, action = statement.name, statement.action
    if not context.is_superuser:
        hint = f"Must be superuser to {action} a foreign-data wrapper."
        raise SqlError("42501", f'permission denied to {action} {_WRAPPER} "{name}"', hint=hint)
    if action == "create":
        context.lock_name(0, f"foreign data wrapper {name}")
        if name in context.catalog.wrappers:
            raise SqlError("42710", f'{_WRAPPER} "{name}" already exists')
        item = ForeignWrapper(context.new_oid(), context.catalog.database, name, context.user_oid)
    else:
        item = wrapper_named(context, name)
    item = _with_functions(context, item, statement)
    options = foreign_options.change_options(context, item, "wrapper", item.options, statement.options)
    context.change({item.oid: replace(item, options=options)})
    return f"{action.upper()} FOREIGN DATA WRAPPER"


def _with_functions(context: DdlContext, item: ForeignWrapper, statement: ast.ForeignWrapperStmt) -> ForeignWrapper:
    if statement.handler is not None:
        handler = 0
        if statement.handler:
            found = exact_function(context, statement.handler, ())
            handler = found.oid
            if found.result_type != oids.FDW_HANDLER:
                message = f"function {'.'.join(statement.handler)} must return type fdw_handler"
                raise SqlError("42809", message)
        if statement.action == "alter":
            _warn(context, "handler can change behavior of existing foreign tables")
        item = replace(item, handler=handler)
    if statement.validator is not None:
        validator = 0
        if statement.validator:
            validator = exact_function(context, statement.validator, (oids.TEXT_ARRAY, oids.OID)).oid
            if validator != POSTGRES_VALIDATOR:
                not_supported("a validator of a foreign data wrapper other than postgres_fdw_validator")
        if statement.action == "alter" and validator:
            _warn(context, "validator can cause the options for dependent objects to become invalid")
        item = replace(item, validator=validator)
    return item


def _warn(context: DdlContext, what: str) -> None:
    context.notice(SqlError("01000", f"changing the {_WRAPPER} {what}", severity="WARNING"))


def create_wrapper_of(context: DdlContext, extension: Extension) -> None:
    """The wrapper that CREATE EXTENSION postgres_fdw makes. Raises 42710."""
    if extension.name in context.catalog.wrappers:
        raise SqlError("42710", f'{_WRAPPER} "{extension.name}" already exists')
    item = ForeignWrapper(
        context.new_oid(), context.catalog.database, extension.name, extension.owner, POSTGRES_HANDLER,
        POSTGRES_VALIDATOR, extension=extension.oid,
    )  # fmt: skip
    context.change({item.oid: item})


def wrapper_named(context: DdlContext, name: str) -> ForeignWrapper:
    """Raises 42704."""
    found = context.catalog.wrappers.get(name)
    if found is None:
        raise SqlError("42704", f'{_WRAPPER} "{name}" does not exist')
    return found


# ---- servers --------------------------------------------------------------------------------------------------------


def define_server(context: DdlContext, statement: ast.ForeignServerStmt) -> str:
    """CREATE and ALTER SERVER. Raises 42501, 42710, 42704, and errors of the options."""
    if statement.action == "create":
        return _create_server(context, statement)
    item = server_named(context, statement.name)
    ownership.must_own(context, item)
    options = foreign_options.change_options(
        context, wrapper_of(context, item), "server", item.options, statement.options
    )
    version = statement.version if statement.sets_version else item.version
    context.change({item.oid: replace(item, version=version, options=options)})
    return "ALTER SERVER"


def _create_server(context: DdlContext, statement: ast.ForeignServerStmt) -> str:
    context.lock_name(0, f"server {statement.name}")
    if statement.name in context.catalog.servers:
        message = f'server "{statement.name}" already exists'
        if not statement.if_not_exists:
            raise SqlError("42710", message)
        context.notice(SqlError("42710", f"{message}, skipping", severity="NOTICE"))
        return "CREATE SERVER"
    wrapper = wrapper_named(context, statement.wrapper)
    _must_use(context, wrapper, ownership.user_role(context))
    options = foreign_options.change_options(context, wrapper, "server", (), statement.options)
    item = ForeignServer(
        context.new_oid(), context.catalog.database, statement.name, context.user_oid, wrapper.oid, statement.type,
        statement.version, options,
    )  # fmt: skip
    context.change({item.oid: item})
    return "CREATE SERVER"


def server_named(context: DdlContext, name: str) -> ForeignServer:
    """Raises 42704."""
    found = context.catalog.servers.get(name)
    if found is None:
        raise SqlError("42704", f'server "{name}" does not exist')
    return found


def server_to_use(context: DdlContext, name: str) -> ForeignServer:
    """The server for a new foreign table. Raises 42704, 42501."""
    found = server_named(context, name)
    _must_use(context, found, ownership.user_role(context))
    return found


def wrapper_of(context: DdlContext, server: ForeignServer) -> ForeignWrapper:
    """The wrapper of a server."""
    found = context.catalog.get(server.wrapper)
    assert isinstance(found, ForeignWrapper)
    return found


def _must_use(context: DdlContext, item: ForeignWrapper | ForeignServer, role: Role) -> None:
    if not may(context.catalog, item, role, "U"):
        raise SqlError("42501", f"permission denied for {ownership.word_of(item)} {item.name}")


def find(context: DdlContext, kind: str, name: str) -> ForeignWrapper | ForeignServer:
    """A wrapper or server by the words of its kind. Raises 42704."""
    return server_named(context, name) if kind == "server" else wrapper_named(context, name)


def set_owner(context: DdlContext, statement: ast.AlterOwnerStmt) -> str:
    """ALTER SERVER | FOREIGN DATA WRAPPER ... OWNER TO. Raises 42704, 42501."""
    item = find(context, statement.kind, statement.name)
    owner = ownership.role_named(context, statement.owner)
    if isinstance(item, ForeignWrapper):
        for role, hint in (
            (ownership.user_role(context), "Must be superuser to change owner of a foreign-data wrapper."),
            (owner, "The owner of a foreign-data wrapper must be a superuser."),
        ):
            if not role.superuser:
                message = f'permission denied to change owner of {_WRAPPER} "{item.name}"'
                raise SqlError("42501", message, hint=hint)
    elif owner.oid != item.owner and not context.is_superuser:
        ownership.must_own(context, item)
        ownership.must_be_member(context, owner)
        _must_use(context, wrapper_of(context, item), owner)
    if owner.oid != item.owner:
        context.change({item.oid: ownership.with_owner(context, item, owner)})
    return f"ALTER {statement.kind.upper()}"


def rename(context: DdlContext, statement: ast.RenameStmt) -> str:
    """ALTER SERVER | FOREIGN DATA WRAPPER ... RENAME TO. Raises 42704, 42501, 42710."""
    item = find(context, statement.kind, statement.name or "")
    ownership.must_own(context, item)
    taken = context.catalog.servers if isinstance(item, ForeignServer) else context.catalog.wrappers
    context.lock_name(0, f"{statement.kind} {statement.new_name}")
    if statement.new_name in taken:
        word = "server" if isinstance(item, ForeignServer) else _WRAPPER
        raise SqlError("42710", f'{word} "{statement.new_name}" already exists')
    context.change({item.oid: replace(item, name=statement.new_name)})
    return f"ALTER {statement.kind.upper()}"


def comment(context: DdlContext, kind: str, name: str, text: str | None) -> str:
    """COMMENT ON SERVER | FOREIGN DATA WRAPPER. Raises 42704, 42501."""
    item = find(context, kind, name)
    ownership.must_own(context, item)
    context.change({item.oid: replace(item, comment=text)})
    return "COMMENT"


def drop(context: DdlContext, statement: ast.DropStmt) -> str:
    """DROP SERVER | FOREIGN DATA WRAPPER. Raises 42704, 42501, 2BP01."""
    roots: list[SchemaObject] = []
    for (name,) in statement.names:
        try:
            item = find(context, statement.kind, name)
        except SqlError as error:
            if not statement.if_exists:
                raise
            context.notice(SqlError("00000", f"{error.message}, skipping", severity="NOTICE"))
            continue
        ownership.must_own(context, item)
        if item not in roots:
            roots.append(item)
    remove(context, roots, statement.cascade)
    return f"DROP {statement.kind.upper()}"


# ---- user mappings --------------------------------------------------------------------------------------------------


def user_mapping(context: DdlContext, statement: ast.UserMappingStmt) -> str:
    """CREATE, ALTER and DROP USER MAPPING. Raises 42704, 42710, 42501, and errors of the options."""
    tag = f"{statement.action.upper()} USER MAPPING"
    dropped = statement.action == "drop" and statement.exists
    try:
        role = EVERYBODY if statement.role == "public" else ownership.role_named(context, statement.role).oid
        server = server_named(context, statement.server)
    except SqlError as error:
        if not dropped:
            raise
        context.notice(SqlError("00000", f"{error.message}, skipping", severity="NOTICE"))
        return tag
    _must_map(context, server, role)
    shown = f'user mapping for "{role_name(context, role)}"'
    found = context.catalog.user_mappings.get((server.oid, role))
    if statement.action == "create":
        context.lock_name(server.oid, f"user mapping {role}")
        if found is not None:
            message = f'{shown} already exists for server "{server.name}"'
            if not statement.exists:
                raise SqlError("42710", message)
            context.notice(SqlError("42710", f"{message}, skipping", severity="NOTICE"))
            return tag
        found = UserMapping(context.new_oid(), context.catalog.database, server.oid, role)
    elif found is None:
        message = f'{shown} does not exist for server "{server.name}"'
        if not dropped:
            raise SqlError("42704", message)
        context.notice(SqlError("00000", f"{message}, skipping", severity="NOTICE"))
        return tag
    if statement.action == "drop":
        context.change({found.oid: None})
        return tag
    options = foreign_options.change_options(
        context, wrapper_of(context, server), "mapping", found.options, statement.options
    )
    context.change({found.oid: replace(found, options=options)})
    return tag


def _must_map(context: DdlContext, server: ForeignServer, role: int) -> None:
    """user_mapping_ddl_aclcheck: the server's owner may define mappings for all, who may use it its own. Raises
    42501."""
    if ownership.owns(context, server):
        return
    if role == context.user_oid:
        _must_use(context, server, ownership.user_role(context))
    else:
        ownership.must_own(context, server)


def role_name(context: DdlContext, role: int) -> str:
    """The name of the role of a user mapping."""
    found = context.catalog.get(role) if role != EVERYBODY else None
    return found.name if isinstance(found, Role) else "public"
