"""CREATE and DROP CAST, COMMENT ON CAST (CreateCast of functioncmds.c, CastCreate of pg_cast.c)."""

from __future__ import annotations

from dataclasses import replace

from catalog import types
from catalog.errors import SqlError, not_supported
from catalog.functions import registry
from catalog.functions.base import Function
from catalog.routines import function_in
from catalog.row_types import is_row_type
from catalog.schema import USER_TYPES, UserCast
from catalog.types import oids
from catalog.types.base import TypeRef
from catalog.types.user import entry_of
from engine.ddl.code_users import users_of_cast
from engine.ddl.context import DdlContext
from engine.ddl.drop import remove
from engine.ddl.object_words import name_object
from engine.ddl.operators import exact_function
from engine.ddl.ownership import owns
from engine.ddl.routines import find_routine, signature_inputs
from engine.sql import ast
from engine.sql.analyze import resolve_type
from engine.sql.analyze.common_types import find_pathway

_POSITIONS = ("first", "second", "third")


def create(context: DdlContext, statement: ast.CreateCastStmt) -> str:
    """CREATE CAST. Raises 42809, 42501, 42P17, 42883, 42710, 0A000."""
    source, target = (_type(context, name) for name in (statement.source, statement.target))
    rows = {word: types.type_row(oid) for word, oid in (("source", source), ("target", target))}
    for word, row in rows.items():
        if row is not None and row.kind == "p":
            raise SqlError("42809", f"{word} data type {types.format_type(row.oid)} is a pseudo-type")
    _must_own_either(context, source, target)
    for word, row in rows.items():
        if row is not None and is_row_type(row.oid):
            not_supported(f"a cast from or to the row type {types.format_type(row.oid)}")
        if row is not None and row.kind == "d":
            message = f"cast will be ignored because the {word} data type is a domain"
            context.notice(SqlError("42809", message, severity="WARNING"))
    function = None
    if statement.function is not None:
        function = _function(context, statement.function)
        _check_function(function, source, target)
    elif statement.method == "b":
        _check_binary(context, source, target)
    if source == target:
        if function is None or len(function.argument_types) == 1:
            raise SqlError("42P17", "source data type and target data type are the same")
        not_supported("a cast of a type to itself, which applies modifiers")
    context.lock_name(context.catalog.database, f"cast {source} {target}")
    if (source, target) in context.catalog.casts or registry.cast(source, target) is not None:
        raise SqlError(
            "42710", f"cast from type {types.format_type(source)} to type {types.format_type(target)} already exists"
        )
    oid, called = context.new_oid(), 0 if function is None else function.oid
    made = UserCast(oid, context.catalog.database, source, target, called, statement.context, statement.method)
    context.change({made.oid: made})
    return "CREATE CAST"


def _type(context: DdlContext, name: ast.TypeName) -> int:
    found: TypeRef = resolve_type(replace(name, location=-1), context.environment)
    return found.domain or found.oid


def _owns_type(context: DdlContext, oid: int) -> bool:
    if context.is_superuser:
        return True
    entry = entry_of(oid)
    item = entry.definition if entry is not None else None
    return isinstance(item, USER_TYPES) and owns(context, item)


def _must_own_either(context: DdlContext, source: int, target: int) -> None:
    if not _owns_type(context, source) and not _owns_type(context, target):
        raise SqlError(
            "42501", f"must be owner of type {types.format_type(source)} or type {types.format_type(target)}"
        )


def _function(context: DdlContext, signature: ast.FunctionSignature) -> Function:
    """The function of WITH FUNCTION. Raises 42883, 42725."""
    routine = find_routine(context, "function", signature, owned=None)
    if routine is not None:
        return function_in(context.catalog, routine)
    inputs = signature_inputs(context, "function", signature)
    if inputs is None:
        raise SqlError("42883", f'could not find a function named "{".".join(signature.name)}"')
    return exact_function(context, signature.name, inputs)


def _is_binary_coercible(source: int, target: int) -> bool:
    return source == target or find_pathway(target, source, "i")[0] == "relabel"


def _check_function(function: Function, source: int, target: int) -> None:
    """What CreateCast requires of the function. Raises 42P17."""
    given = function.argument_types
    if not 1 <= len(given) <= 3:
        raise SqlError("42P17", "cast function must take one to three arguments")
    if not _is_binary_coercible(source, given[0]):
        message = "argument of cast function must match or be binary-coercible from source data type"
        raise SqlError("42P17", message)
    for position, (oid, name) in enumerate(((oids.INT4, "integer"), (oids.BOOL, "boolean")), 1):
        if len(given) > position and given[position] != oid:
            raise SqlError("42P17", f"{_POSITIONS[position]} argument of cast function must be type {name}")
    if not _is_binary_coercible(function.result_type, target):
        message = "return data type of cast function must match or be binary-coercible to target data type"
        raise SqlError("42P17", message)
    if function.kind != "f":
        raise SqlError("42P17", "cast function must be a normal function")
    if function.returns_set:
        raise SqlError("42P17", "cast function must not return a set")


def _check_binary(context: DdlContext, source: int, target: int) -> None:
    """WITHOUT FUNCTION. Raises 42501, 42P17; 0A000, because values of two types never have the same form here."""
    if not context.is_superuser:
        raise SqlError("42501", "must be superuser to create a cast WITHOUT FUNCTION")
    rows = [row for oid in (source, target) if (row := types.type_row(oid)) is not None]
    kinds = {row.kind for row in rows}
    if len({(row.length, row.by_value, row.kind == "c") for row in rows}) > 1:  # rows are aligned to 8 bytes
        raise SqlError("42P17", "source and target data types are not physically compatible")
    for kind, word in (("c", "composite"), ("e", "enum")):
        if kind in kinds:
            raise SqlError("42P17", f"{word} data types are not binary-compatible")
    if any(types.element_of(oid) for oid in (source, target)):
        raise SqlError("42P17", "array data types are not binary-compatible")
    if "d" in kinds:
        raise SqlError("42P17", "domain data types must not be marked binary-compatible")
    not_supported("CREATE CAST WITHOUT FUNCTION")


# ---- DROP, COMMENT --------------------------------------------------------------------------------------------------


def _find(context: DdlContext, source: int, target: int) -> UserCast:
    """The user's cast. Raises 42704; 42501 or 2BP01 for a built-in one."""
    found = context.catalog.casts.get((source, target))
    shown = f"cast from {{}}{types.format_type(source)} to {{}}{types.format_type(target)}"
    if found is None and registry.cast(source, target) is None:
        raise SqlError("42704", f"{shown.format('type ', 'type ')} does not exist")
    _must_own_either(context, source, target)
    if found is None:
        message = f"cannot drop {shown.format('', '')} because it is required by the database system"
        raise SqlError("2BP01", message)
    return found


def drop(context: DdlContext, statement: ast.DropCastStmt) -> str:
    """DROP CAST. Raises 42704, 42501, 2BP01."""
    try:
        source, target = (_type(context, name) for name in (statement.source, statement.target))
        item = _find(context, source, target)
    except SqlError as error:
        if error.sqlstate not in ("42704", "3F000") or not statement.if_exists:
            raise
        message = error.message
        if message.startswith("cast "):
            source_name, target_name = (".".join(name.names) for name in (statement.source, statement.target))
            message = f"cast from type {source_name} to type {target_name} does not exist"
        context.notice(SqlError("00000", f"{message}, skipping", severity="NOTICE"))
        return "DROP CAST"
    use = next(users_of_cast(context, item), None)
    if use is not None:  # in PostgreSQL it stays as it is, for it depends on the cast's function only
        not_supported(f"dropping a {name_object(item)} which {name_object(use.item)} uses")
    remove(context, [item], statement.cascade)
    return "DROP CAST"


def comment(context: DdlContext, statement: ast.CommentOnCastStmt) -> str:
    """COMMENT ON CAST. Raises 42704, 42501."""
    source, target = (_type(context, name) for name in (statement.source, statement.target))
    item = _find(context, source, target)
    context.lock_object(item.oid)
    context.change({item.oid: replace(item, comment=statement.text or None)})
    return "COMMENT"
