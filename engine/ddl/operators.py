"""CREATE, ALTER and DROP OPERATOR (operatorcmds.c, pg_operator.c)."""

from __future__ import annotations

import re
from dataclasses import replace

from catalog import types
from catalog.errors import SqlError
from catalog.functions import added, registry
from catalog.functions.base import Function, Operator
from catalog.routines import LANGUAGE, shown_operator
from catalog.schema import Routine, SchemaObject, UserOperator
from catalog.types import oids
from engine.ddl.context import DdlContext
from engine.ddl.definitions import DefinitionItems
from engine.ddl.drop import remove
from engine.ddl.ownership import must_own, must_own_to_drop, new_owner, target_schema, user_role
from engine.sql import ast
from engine.sql.analyze import resolve_type
from engine.sql.analyze.resolve import find_function, signature
from engine.sql.analyze.routine_rights import check_execute

_KNOWN = frozenset(("leftarg", "rightarg", "function", "procedure", "commutator", "negator", "restrict", "join")).union(
    ("hashes", "merges", "sort1", "sort2", "ltcmp", "gtcmp")
)
_SORTS = ("merges", "sort1", "sort2", "ltcmp", "gtcmp")
_NAME = re.compile(r"[-+*/<>=~!@#%^&|`?]{1,63}")
_RESTRICT = (oids.INTERNAL, oids.OID, oids.INTERNAL, oids.INT4)
_JOIN = (oids.INTERNAL, oids.OID, oids.INTERNAL, oids.INT2, oids.INTERNAL)
_JOIN_BEFORE = _JOIN[:-1]


def _wrong(message: str, detail: str | None = None) -> SqlError:
    return SqlError("42P13", message, detail=detail)


def create(context: DdlContext, statement: ast.CreateOperatorStmt) -> str:
    """CREATE OPERATOR. Raises 42P13, 42601, 42883, 42723, 42602, 42501."""
    name = statement.name[-1]
    relation = ast.RangeVar(None, statement.name[-2] if len(statement.name) > 1 else None, name)
    schema = context.creation_schema(relation)
    given = _read(context, statement.definition)
    left, right = (_operand(context, given, word) for word in ("leftarg", "rightarg"))
    named = given.names("function") or given.names("procedure")
    if not named:
        raise _wrong("operator function must be specified")
    if not left and not right:
        raise _wrong("operator argument types must be specified")
    if not right:
        raise _wrong("operator right argument type must be specified", "Postfix operators are not supported.")
    function = exact_function(context, named, (left, right) if left else (right,))
    _check_callable(context, function)
    result = function.result_type
    restrict = _estimator(context, given, "restrict")
    join = _estimator(context, given, "join")
    if not _NAME.fullmatch(name):
        raise SqlError("42602", f'"{name}" is not a valid operator name')
    hashes, merges = (
        given.boolean("hashes"),
        any(given.boolean(word) for word in _SORTS[:1]) or any(word in given.items for word in _SORTS[1:]),
    )
    _check_properties(given, bool(left), result, hashes=hashes, merges=merges)
    context.lock_name(schema.oid, name)
    existing = _find_in(context, schema.oid, name, left, right)
    if existing is not None and existing.function:
        raise SqlError("42723", f"operator {name} already exists")
    oid = context.new_oid() if existing is None else existing.oid
    if existing is not None:
        must_own(context, existing)
    fresh = UserOperator(
        oid, schema.oid, name, left, right, result, function.oid, 0, 0, restrict, join, hashes, merges,
        context.user_oid if existing is None else existing.owner,
        None if existing is None else existing.comment,
    )  # fmt: skip
    context.change({oid: fresh})
    _link(context, fresh, given.names("commutator"), given.names("negator"))
    return "CREATE OPERATOR"


def _read(context: DdlContext, items: tuple[ast.DefinitionItem, ...]) -> DefinitionItems:
    found = DefinitionItems()
    for item in items:
        if item.name not in _KNOWN:
            message = f'operator attribute "{item.name}" not recognized'
            context.notice(SqlError("42601", message, severity="WARNING"))
            continue
        if item.returns_set and item.name in ("leftarg", "rightarg"):
            raise _wrong("SETOF type not allowed for operator argument")
        found.items[item.name] = item
    return found


def _operand(context: DdlContext, given: DefinitionItems, name: str) -> int:
    item = given.items.get(name)
    if item is None or (item.kind == "word" and item.text == "none"):
        return 0
    found = given.type(context, name)
    assert found is not None
    return found.oid


def exact_function(context: DdlContext, names: tuple[str, ...], inputs: tuple[int, ...]) -> Function:
    """LookupFuncName: the function with exactly these types of arguments."""
    schema = names[-2] if len(names) > 1 else None
    context.environment.make_current()
    if schema is not None and not context.environment.schema_oid(schema):
        raise SqlError("3F000", f'schema "{schema}" does not exist')
    found = find_function(names[-1], inputs, expand_variadic=False, schema=schema)
    candidate = found.candidate
    if candidate is None or candidate.types != inputs:
        raise SqlError("42883", f"function {signature('.'.join(names), inputs)} does not exist")
    return candidate.function


def _check_callable(context: DdlContext, function: Function) -> None:
    if function.language == LANGUAGE:
        routine = context.catalog.get(function.oid)
        assert isinstance(routine, Routine)
        check_execute(routine, context.catalog, user_role(context))


def _estimator(context: DdlContext, given: DefinitionItems, word: str) -> int:
    """The OID of a selectivity estimator; 0 for none."""
    names = given.names(word)
    if not names or names == ("none",):
        return 0
    if word == "join":
        try:
            function = exact_function(context, names, _JOIN)
        except SqlError:
            try:
                function = exact_function(context, names, _JOIN_BEFORE)
            except SqlError:
                function = exact_function(context, names, _JOIN)
    else:
        function = exact_function(context, names, _RESTRICT)
    if function.result_type != oids.FLOAT8:
        kind = "restriction" if word == "restrict" else "join"
        message = f"{kind} estimator function {'.'.join(names)} must return type double precision"
        raise SqlError("42P17", message)
    _check_callable(context, function)
    return function.oid


def _check_properties(given: DefinitionItems, binary: bool, result: int, *, hashes: bool, merges: bool) -> None:
    """OperatorCreate: what only binary operators, and those that return boolean, may have."""
    names = {word: given.names(word) for word in ("commutator", "negator", "restrict", "join")}
    names = {word: () if found == ("none",) else found for word, found in names.items()}
    if not binary:
        for present, words in (
            (names["commutator"], "have commutators"), (names["join"], "have join selectivity"),
            (merges, "merge join"), (hashes, "hash"),
        ):  # fmt: skip
            if present:
                raise _wrong(f"only binary operators can {words}")
    if result != oids.BOOL:
        for present, words in (
            (names["negator"], "have negators"), (names["restrict"], "have restriction selectivity"),
            (names["join"], "have join selectivity"), (merges, "merge join"), (hashes, "hash"),
        ):  # fmt: skip
            if present:
                raise _wrong(f"only boolean operators can {words}")


def _find_in(context: DdlContext, schema: int, name: str, left: int, right: int) -> UserOperator | None:
    for item in context.catalog.operators.get(name, ()):
        if (item.schema, item.left, item.right) == (schema, left, right):
            return item
    return None


def _link(context: DdlContext, fresh: UserOperator, commutator: tuple[str, ...], negator: tuple[str, ...]) -> None:
    """Connects an operator with its commutator and its negator (get_other_operator, OperatorUpd)."""
    if commutator:
        other = _other(context, fresh, commutator, fresh.right, fresh.left)
        fresh = replace(fresh, commutator=other)
        found = context.catalog.get(other)
        if isinstance(found, UserOperator) and found.oid != fresh.oid and not found.commutator:
            context.change({other: replace(found, commutator=fresh.oid)})
    if negator:
        other = _other(context, fresh, negator, fresh.left, fresh.right)
        if other == fresh.oid:
            raise _wrong("operator cannot be its own negator or sort operator")
        fresh = replace(fresh, negator=other)
        found = context.catalog.get(other)
        if isinstance(found, UserOperator) and not found.negator:
            context.change({other: replace(found, negator=fresh.oid)})
    context.change({fresh.oid: fresh})


def _other(context: DdlContext, fresh: UserOperator, names: tuple[str, ...], left: int, right: int) -> int:
    """The OID of a named operator with these operands; it is made without a function if it does not exist."""
    name = names[-1]
    schema = context.environment.schema_oid(names[-2]) if len(names) > 1 else fresh.schema
    if (name, left, right) == (fresh.name, fresh.left, fresh.right) and schema == fresh.schema:
        return fresh.oid
    found = _find(context, names, left, right)
    if found is not None:
        return found.oid
    made = UserOperator(context.new_oid(), schema, name, left, right, owner=context.user_oid)
    context.change({made.oid: made})
    return made.oid


# ---- finding --------------------------------------------------------------------------------------------------------


def _find(context: DdlContext, names: tuple[str, ...], left: int, right: int) -> UserOperator | Operator | None:
    """The operator with these operands, in the named schema or in the search path."""
    environment = context.environment
    schema = names[-2] if len(names) > 1 else None
    if schema is not None and not environment.schema_oid(schema):
        raise SqlError("3F000", f'schema "{schema}" does not exist')
    places = environment.path_oids if schema is None else (environment.schema_oid(schema),)
    for place in places:
        found = _find_in(context, place, names[-1], left, right)
        if found is not None:
            return found
    environment.make_current()
    built_in = registry.operators_named(names[-1]) if schema in (None, "pg_catalog") else ()
    for item in (*built_in, *added.operators_named(names[-1], schema)):
        if (item.left, item.right) == (left, right):
            return item
    return None


def _signature(context: DdlContext, node: ast.OperatorSignature) -> tuple[int, int, str]:
    """The types of the operands, and the operator as messages show it."""
    left, right = (
        0 if given is None else resolve_type(replace(given, location=-1), context.environment).oid
        for given in (node.left, node.right)
    )
    if not right:
        raise SqlError("42601", "postfix operators are not supported")
    shown = f"{types.format_type(left)} " if left else ""
    shown += ".".join(node.name)
    return left, right, shown + (f" {types.format_type(right)}" if right else "")


def _require(context: DdlContext, node: ast.OperatorSignature, *, dropped: bool = False) -> UserOperator:
    """The user's operator. Raises 42883; 42501, or 2BP01 if it is to be dropped, for a built-in one."""
    left, right, shown = _signature(context, node)
    found = _find(context, node.name, left, right)
    if found is None:
        raise SqlError("42883", f"operator does not exist: {shown}")
    if isinstance(found, Operator) and dropped and context.is_superuser:
        shown = f"operator {shown_operator(found)}"
        raise SqlError("2BP01", f"cannot drop {shown} because it is required by the database system")
    if isinstance(found, Operator):
        raise SqlError("42501", f"must be owner of operator {found.name}")
    return found


def drop(context: DdlContext, statement: ast.DropOperatorStmt) -> str:
    """DROP OPERATOR. Raises 42883, 42501, 2BP01."""
    roots: list[SchemaObject] = []
    for node in statement.signatures:
        try:
            found = _require(context, node, dropped=True)
        except SqlError as error:
            if error.sqlstate not in ("42883", "42704", "3F000") or not statement.if_exists:
                raise
            message = error.message
            if error.sqlstate == "42883":
                message = f"operator {'.'.join(node.name)} does not exist"
            context.notice(SqlError("00000", f"{message}, skipping", severity="NOTICE"))
            continue
        must_own_to_drop(context, found)
        roots.append(found)
    remove(context, roots, statement.cascade)
    _unlink(context, {root.oid for root in roots})
    return "DROP OPERATOR"


def _unlink(context: DdlContext, gone: set[int]) -> None:
    """Removes dropped operators from the commutators and negators of others."""
    for items in list(context.catalog.operators.values()):
        for item in items:
            if gone & {item.commutator, item.negator}:
                commutator = 0 if item.commutator in gone else item.commutator
                negator = 0 if item.negator in gone else item.negator
                context.change({item.oid: replace(item, commutator=commutator, negator=negator)})


def alter(context: DdlContext, statement: ast.AlterOperatorStmt) -> str:
    """ALTER OPERATOR OWNER TO, SET SCHEMA, SET (...); COMMENT ON OPERATOR. Raises 42883, 42501, 42601, 42710."""
    tag = "COMMENT" if statement.action == "comment" else "ALTER OPERATOR"
    item = _require(context, statement.signature)
    must_own(context, item)
    context.lock_object(item.oid)
    if statement.action == "comment":
        changed = replace(item, comment=statement.value or None)
    elif statement.action == "owner":
        changed = replace(item, owner=new_owner(context, item, str(statement.value)).oid)
    elif statement.action == "schema":
        schema = target_schema(context, item.schema, item.name, str(statement.value))
        if schema.oid == item.schema:
            return tag
        if _find_in(context, schema.oid, item.name, item.left, item.right) is not None:
            message = 'duplicate key value violates unique constraint "pg_operator_oprname_l_r_n_index"'
            key = f"({item.name}, {item.left}, {item.right}, {schema.oid})"
            detail = f"Key (oprname, oprleft, oprright, oprnamespace)={key} already exists."
            raise SqlError("23505", message, detail=detail)
        changed = replace(item, schema=schema.oid)
    else:
        changed = _with_estimators(context, item, statement.definition)
    context.change({item.oid: changed})
    return tag


def _with_estimators(context: DdlContext, item: UserOperator, items: tuple[ast.DefinitionItem, ...]) -> UserOperator:
    given = DefinitionItems()
    for one in items:
        if one.name in ("leftarg", "rightarg", "function", "procedure", "commutator", "negator", "hashes", "merges"):
            raise SqlError("42601", f'operator attribute "{one.name}" cannot be changed')
        if one.name not in ("restrict", "join"):
            raise SqlError("42601", f'operator attribute "{one.name}" not recognized')
        given.items[one.name] = one
    changed = item
    if "restrict" in given.items:
        changed = replace(changed, restrict=_estimator(context, given, "restrict"))
    if "join" in given.items:
        changed = replace(changed, join=_estimator(context, given, "join"))
    _check_properties(given, bool(item.left), item.result, hashes=False, merges=False)
    return changed
