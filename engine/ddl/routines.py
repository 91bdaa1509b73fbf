"""CREATE, ALTER and DROP of functions and procedures in SQL (pg_proc.c, functioncmds.c).

A body in a string is stored as it is, and resolves names by the caller's search path; it is analysed here only to find
errors. A body of SQL statements is stored as the deparsed result of the analysis, with qualified names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from catalog import types
from catalog.errors import SqlError, not_supported
from catalog.functions import registry
from catalog.functions.base import Function, Operator
from catalog.routines import function_in, shown_signature
from catalog.schema import PG_CATALOG_OID, Routine, RoutineArgument, SchemaObject, Table, View
from catalog.types import oids
from catalog.types.base import TypeRef
from catalog.types.oids import ANY_ARRAYS, POLYMORPHIC
from engine.ddl.code_users import users_of_code
from engine.ddl.context import DdlContext
from engine.ddl.drop import remove
from engine.ddl.expressions import default_text
from engine.ddl.ownership import must_own, must_own_to_drop, must_rename, new_owner, target_schema, with_owner
from engine.ddl.views import refuse_whole_rows
from engine.sql import ast, tree
from engine.sql.analyze import resolve_type
from engine.sql.analyze.routines import Body, analyse_body, parsed_body
from engine.sql.deparse import deparse_expression, deparse_query
from engine.sql.literal_places import move_to_statement
from engine.sql.plpgsql.parser import parse_body
from engine.sql.plpgsql.signatures import signature_of, stand_ins
from engine.sql.plpgsql.types import CatalogTypes
from engine.sql.tree_walk import walk

_KNOWN_LANGUAGES = frozenset({"c", "internal", "plperl", "plperlu", "plpython3u", "pltcl", "pltclu"})
LANGUAGES = ("sql", "plpgsql")
_NO_ARGUMENTS = frozenset(
    {oids.CSTRING, oids.ANY, oids.INTERNAL, oids.TRIGGER, oids.EVENT_TRIGGER, oids.VOID, oids.RECORD}
)
_ARTICLES = {"f": "function", "p": "procedure", "a": "aggregate function"}


def _wrong(message: str, detail: str | None = None, hint: str | None = None) -> SqlError:
    return SqlError("42P13", message, detail=detail, hint=hint)


# ---- CREATE ---------------------------------------------------------------------------------------------------------


def create(context: DdlContext, statement: ast.CreateFunctionStmt) -> str:
    """CREATE [OR REPLACE] FUNCTION, PROCEDURE. Raises 42P13, 42723, 42809, 42704, 0A000 for other languages."""
    options = _options(statement.options)
    _check_language(options, statement)
    relation = ast.RangeVar(None, statement.name[-2] if len(statement.name) > 1 else None, statement.name[-1])
    schema = context.creation_schema(relation)
    arguments = _arguments(context, statement)
    result, returns_set, returned = _result(context, statement, arguments)
    fresh = Routine(
        0, schema.oid, statement.name[-1], "f" if statement.kind == "function" else "p", arguments, result, returns_set,
        str(options["as"].value) if "as" in options else "", () if statement.body is not None else None, returned,
        rows=1000.0 if returns_set else 0.0, owner=context.user_oid, language=_language(options),
    )  # fmt: skip
    fresh = _with_settings(context, _with_options(fresh, options), statement.options)
    _check_leakproof(context, fresh)
    existing = same_routine(context, fresh)
    if existing is not None:  # locked before its name, as by a transaction that changes its rights and then replaces it
        _check_replaced(context, existing, fresh, statement)
        context.lock_object(existing.oid)
    context.lock_name(schema.oid, f"{fresh.name}()")
    if existing is not None:
        fresh = replace(fresh, oid=existing.oid, owner=existing.owner, acl=existing.acl, comment=existing.comment)
    else:
        fresh = replace(fresh, oid=context.new_oid())
    context.change({fresh.oid: fresh})
    with context.under_settings(fresh.settings if statement.body is None else ()):
        _check_body(context, fresh, statement)
    return f"CREATE {statement.kind.upper()}"


def _check_body(context: DdlContext, fresh: Routine, statement: ast.CreateFunctionStmt) -> None:
    """Checks the body of a new routine; one in SQL-standard form is stored."""
    context.environment.make_current()
    if statement.body is None:
        if context.checks_bodies:
            (body,) = [option for option in statement.options if option.name == "as"]
            _check_string(context, fresh, body)
    else:
        known = context.catalog.get(fresh.oid)
        assert isinstance(known, Routine)  # with its initial privileges
        fresh = replace(known, is_expression=statement.returns_expression)
        context.change({fresh.oid: _with_statements(context, fresh, statement.body)})


def _options(given: Sequence[ast.FunctionOption]) -> dict[str, ast.FunctionOption]:
    """The options but SET clauses, which may be several, by name."""
    found: dict[str, ast.FunctionOption] = {}
    for option in given:
        if option.name == "set":
            continue
        if option.name in found:
            raise SqlError("42601", "conflicting or redundant options", position=option.location + 1)
        found[option.name] = option
    return found


def _check_language(options: dict[str, ast.FunctionOption], statement: ast.CreateFunctionStmt) -> None:
    named = options.get("language")
    if named is None and statement.body is None:
        raise _wrong("no language specified")
    language = "sql" if named is None else str(named.value).lower()
    if language in _KNOWN_LANGUAGES:
        not_supported(f'language "{language}"')
    if language not in LANGUAGES:
        raise SqlError("42704", f'language "{language}" does not exist')
    if language != "sql" and statement.body is not None:
        raise _wrong("inline SQL function body only valid for language SQL")
    if "window" in options:
        not_supported("CREATE FUNCTION ... WINDOW")
    if "support" in options:
        not_supported("SUPPORT of a function")
    if "as" in options and statement.body is not None:
        raise _wrong("duplicate function body specified")
    if "as" not in options and statement.body is None:
        raise _wrong("no function body specified")
    if "as" in options and options["as"].more:
        raise _wrong(f'only one AS item needed for language "{language}"')
    for name in ("volatility", "strict", "leakproof", "cost", "rows", "parallel"):
        if statement.kind == "procedure" and name in options:
            message = "invalid attribute in procedure definition"
            raise SqlError("42P13", message, position=options[name].location + 1)


def _language(options: dict[str, ast.FunctionOption]) -> str:
    named = options.get("language")
    return "sql" if named is None else str(named.value).lower()


def _check_leakproof(context: DdlContext, item: Routine) -> None:
    if item.leakproof and not context.is_superuser:
        raise SqlError("42501", "only superuser can define a leakproof function")


def _with_options(item: Routine, options: dict[str, ast.FunctionOption]) -> Routine:
    changed = item
    for name, option in options.items():
        value = option.value
        if name in ("volatility", "strict", "leakproof"):
            changed = replace(changed, **{name: value})  # type: ignore[arg-type]
        elif name == "security":
            changed = replace(changed, security_definer=bool(value))
        elif name == "cost":
            if float(value) <= 0:
                raise SqlError("22023", "COST must be positive")
            changed = replace(changed, cost=float(value))
        elif name == "rows":
            if float(value) <= 0 or not math.isfinite(float(value)):
                raise SqlError("22023", "ROWS must be positive")
            if not item.returns_set:
                raise SqlError("22023", "ROWS is not applicable when function does not return a set")
            changed = replace(changed, rows=float(value))
        elif name == "parallel":
            if value not in ("safe", "restricted", "unsafe"):
                raise SqlError("42601", 'parameter "parallel" must be SAFE, RESTRICTED, or UNSAFE')
            changed = replace(changed, parallel=str(value)[0])
    return changed


def _with_settings(context: DdlContext, item: Routine, options: Sequence[ast.FunctionOption]) -> Routine:
    """The routine after SET and RESET clauses. Raises 42704, 22023, 42501, 0A000."""
    settings = item.settings
    for option in options:
        if option.name != "set":
            continue
        change = option.setting
        if change is not None and change.modes is not None:
            not_supported("SET TRANSACTION of a function")
        if change is None or change.values:
            name, value = context.stored_setting(str(option.value), change)
            settings = (*(item for item in settings if item[0] != name), (name, value))
        else:
            settings = tuple(
                item for item in settings if change.name != "all" and item[0].lower() != change.name.lower()
            )
    return replace(item, settings=settings)


def _arguments(context: DdlContext, statement: ast.CreateFunctionStmt) -> tuple[RoutineArgument, ...]:
    """interpret_function_parameter_list."""
    found: list[RoutineArgument] = []
    defaulted = False
    for parameter in statement.parameters:
        if parameter.returns_set:
            word = "procedures" if statement.kind == "procedure" else "functions"
            raise _wrong(f"{word} cannot accept set arguments")
        type_ = _type(context, parameter.type)
        if parameter.mode != "t" and parameter.mode != "o" and type_.oid in _NO_ARGUMENTS:
            raise _wrong(f"SQL functions cannot have arguments of type {types.format_type(type_.oid)}")
        if any(item.mode == "v" for item in found) and parameter.mode in "ibv":
            raise _wrong("VARIADIC parameter must be the last input parameter")
        if parameter.mode == "v" and not (types.element_of(type_.oid) or type_.oid in ANY_ARRAYS):
            raise _wrong("VARIADIC parameter must be an array")
        _check_name(found, parameter)
        default = None
        if parameter.default is not None:
            if parameter.mode not in "ibv":
                raise _wrong("only input parameters can have default values")
            default = default_text(context, parameter.default, type_)
            defaulted = True
        elif defaulted and parameter.mode in "ibv":
            message = "input parameters after one with a default value must also have defaults"
            raise _wrong(message)
        found.append(RoutineArgument(parameter.name, type_, parameter.mode, default))
    return tuple(found)


def _check_name(found: Sequence[RoutineArgument], parameter: ast.FunctionParameter) -> None:
    for other in found:
        pair = (other.mode, parameter.mode)
        apart = pair in (("i", "o"), ("o", "i"), ("i", "t"), ("v", "t"), ("v", "o"), ("o", "v"))
        if parameter.name and other.name == parameter.name and (not apart or "t" in pair):
            raise _wrong(f'parameter name "{parameter.name}" used more than once')


def _type(context: DdlContext, name: ast.TypeName) -> TypeRef:
    found = resolve_type(name, context.environment)
    if name.percent_type:
        shown = types.format_type(found.oid)
        message = f"type reference {'.'.join(name.names)}%TYPE converted to {shown}"
        context.notice(SqlError("00000", message, severity="NOTICE"))
    return TypeRef(found.oid, -1, found.domain)


def _result(
    context: DdlContext, statement: ast.CreateFunctionStmt, arguments: Sequence[RoutineArgument]
) -> tuple[TypeRef, bool, int]:
    """The result type, whether the function returns a set, and the relation of its rows (0: none)."""
    outputs = [item for item in arguments if item.mode in "obt"]
    table = any(item.mode == "t" for item in outputs)
    if statement.kind == "procedure":
        return TypeRef(oids.RECORD if outputs else oids.VOID), False, 0
    if table and any(item.mode in "ob" for item in outputs):
        raise _wrong("OUT and INOUT arguments aren't allowed in TABLE functions")
    required = TypeRef(oids.RECORD) if len(outputs) > 1 else outputs[0].type if outputs else None
    given = statement.returns
    if table:
        assert required is not None
        return required, True, 0
    if given is None:
        if required is None:
            raise _wrong("function result type must be specified")
        return required, False, 0
    relation = _relation_of(context, given.type)
    if relation is not None:
        return TypeRef(oids.RECORD), given.returns_set, relation.oid
    result = _type(context, given.type)
    if required is not None and result.oid != required.oid:
        shown = types.format_type(required.oid)
        raise _wrong(f"function result type must be {shown} because of OUT parameters")
    if result.oid in oids.TRIGGERS and _is_plpgsql(statement):
        if statement.parameters:
            hint = "The arguments of the trigger can be accessed through TG_NARGS and TG_ARGV instead."
            error = _wrong("trigger functions cannot have declared arguments", hint=hint)
            if result.oid == oids.EVENT_TRIGGER:
                error = _wrong("event trigger functions cannot have declared arguments")
            error.context = f'compilation of PL/pgSQL function "{statement.name[-1]}" near line 1'
            raise error
        return result, given.returns_set, 0
    if result.oid in _NO_ARGUMENTS and result.oid not in (oids.VOID, oids.RECORD):
        raise _wrong(f"SQL functions cannot return type {types.format_type(result.oid)}")
    inputs = {item.type.oid for item in arguments if item.mode in "ibv"}
    if result.oid in POLYMORPHIC and not inputs & POLYMORPHIC:
        shown = types.format_type(result.oid)
        raise _wrong(
            "cannot determine result data type",
            f"A result of type {shown} requires at least one input of type anyelement, anyarray, anynonarray, anyenum, "
            "anyrange, or anymultirange.",
        )
    return result, given.returns_set, 0


def _is_plpgsql(statement: ast.CreateFunctionStmt) -> bool:
    return any(option.name == "language" and str(option.value).lower() == "plpgsql" for option in statement.options)


def _relation_of(context: DdlContext, name: ast.TypeName) -> Table | View | None:
    """The table or view with this row type."""
    if name.percent_type or name.array_dimensions or name.modifiers:
        return None
    schema = name.names[-2] if len(name.names) > 1 else None
    if name.names[-1] in types.pg_type_by_name and schema in (None, "pg_catalog"):
        return None
    if context.environment.find_type(schema, name.names[-1]) is not None:
        return None
    found = context.environment.find_relation(schema, name.names[-1])
    return found if isinstance(found, Table | View) else None


def same_routine(context: DdlContext, item: Routine) -> Routine | None:
    for other in context.catalog.routines.get(item.name, ()):
        if other.schema == item.schema and other.signature == item.signature:
            return other
    return None


def _check_replaced(context: DdlContext, old: Routine, new: Routine, statement: ast.CreateFunctionStmt) -> None:
    if not statement.replace:
        raise SqlError("42723", f'function "{new.name}" already exists with same argument types')
    must_own(context, old)
    if old.kind != new.kind:
        article = "an" if old.kind == "a" else "a"
        detail = f'"{old.name}" is {article} {_ARTICLES[old.kind]}.'
        raise SqlError("42809", "cannot change routine kind", detail=detail)
    hint = f"Use DROP {_ARTICLES[old.kind].upper()} {shown_signature(old)} first."
    if (old.result.declared, old.returns_set, old.relation) != (new.result.declared, new.returns_set, new.relation):
        word = "whether a procedure has output parameters" if old.kind == "p" else "return type of existing function"
        raise _wrong(f"cannot change {word}", hint=hint)
    outs = [[(item.name, item.type.oid) for item in each.outputs] for each in (old, new)]
    if outs[0] != outs[1]:
        raise _wrong("cannot change return type of existing function",
                     "Row type defined by OUT parameters is different.", hint)  # fmt: skip
    for before, after in zip(old.inputs, new.inputs, strict=True):
        if before.name and before.name != after.name:
            raise _wrong(f'cannot change name of input parameter "{before.name}"', hint=hint)
    if sum(item.default is not None for item in old.inputs) > sum(item.default is not None for item in new.inputs):
        raise _wrong("cannot remove parameter defaults from existing function", hint=hint)


def _analyse(context: DdlContext, item: Routine, nodes: Sequence[ast.Node]) -> Body:
    parameters = [(argument.name, argument.type.oid) for argument in item.inputs]
    function = function_in(context.catalog, item)
    return analyse_body(nodes, context.environment, item.name, parameters, function, item.result)


def _check_string(context: DdlContext, item: Routine, body: ast.FunctionOption) -> None:
    """fmgr_sql_validator, plpgsql_validator. The body of a polymorphic function is only parsed."""
    try:
        if item.language == "plpgsql":
            parse_body(item.body, signature_of(item, None, stand_ins(item)), CatalogTypes(context.environment))
            return
        nodes = parsed_body(item)
        if not POLYMORPHIC & {*item.signature, item.result.oid}:
            _analyse(context, item, nodes)
    except SqlError as error:
        move_to_statement(error, body.literal, item.body)
        if error.position is None and item.language == "sql":
            error.context = f'SQL function "{item.name}"'
        raise


def _with_statements(context: DdlContext, item: Routine, body: Sequence[ast.Statement]) -> Routine:
    """The routine with a body of SQL statements as qualified texts, and its dependencies."""
    if POLYMORPHIC & {*item.signature, item.result.oid}:
        raise _wrong("SQL function with unquoted function body cannot have polymorphic arguments")
    texts = []
    used: dict[int, None] = {}
    nodes = [statement.tree for statement in body]
    if any(not isinstance(node, ast.SelectStmt) for node in nodes):
        not_supported("INSERT, UPDATE, DELETE or MERGE in a body in SQL's own form")
    analysed = _analyse(context, item, nodes)
    plain = _analyse(context, replace(item, result=TypeRef(oids.VOID)), nodes)
    for analysed_statement in plain.queries_and_changes:
        query = analysed_statement.statement
        assert isinstance(query, tree.Query)
        texts.append(_stored_text(context, item, query))
        for node in walk(query):
            for name in ("function", "operator"):
                found = getattr(node, name, None)
                if isinstance(found, Function | Operator) and context.catalog.get(found.oid) is not None:
                    used[found.oid] = None
    return replace(item, statements=tuple(texts), depends_on=(*analysed.relations, *used))


def _stored_text(context: DdlContext, item: Routine, query: tree.Query) -> str:
    refuse_whole_rows(query)
    if item.is_expression:
        return f"SELECT {deparse_expression(query.output[0].expression, (), context.catalog)}"
    return deparse_query(query, context.catalog)


# ---- finding --------------------------------------------------------------------------------------------------------


_KINDS = {"function": "fa", "procedure": "p", "aggregate": "a"}  # the kinds of routines that a statement finds
_Check = Callable[[DdlContext, Routine], None] | None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The types of a signature: of the input arguments, and of all; None if none were written."""

    inputs: tuple[int, ...] | None
    every: tuple[int, ...] | None
    shown: str


def _read_signature(context: DdlContext, kind: str, signature: ast.FunctionSignature) -> _Wanted:
    name = ".".join(signature.name)
    if signature.parameters is None:
        return _Wanted(None, None, name)
    if kind == "aggregate" and not signature.parameters:
        return _Wanted((), (), f"{name}(*)")
    found = [(item.mode, resolve_type(item.type, context.environment).oid) for item in signature.parameters]
    inputs = tuple(oid for mode, oid in found if mode in "ibv")
    shown = f"{name}({', '.join(types.format_type(oid) for oid in inputs)})"
    return _Wanted(inputs, tuple(oid for _, oid in found), shown)


def signature_inputs(context: DdlContext, kind: str, signature: ast.FunctionSignature) -> tuple[int, ...] | None:
    """The types of the input arguments of a signature; None if none were written."""
    return _read_signature(context, kind, signature).inputs


def find_routine(
    context: DdlContext, kind: str, signature: ast.FunctionSignature, owned: _Check = must_own
) -> Routine | None:
    """The routine with a signature, or None. Raises 42725 for an ambiguous name, 42809 for another kind, 42501 for a
    built-in routine and for another owner's."""
    wanted = _read_signature(context, kind, signature)
    schema = signature.name[-2] if len(signature.name) > 1 else None
    environment = context.environment
    places = environment.path_oids if schema is None else (environment.schema_oid(schema),)
    if schema is not None and not places[0]:
        raise SqlError("3F000", f'schema "{schema}" does not exist')
    everything = context.catalog.routines.get(signature.name[-1], ())
    kinds = _KINDS.get(kind, "fpa")
    found: list[Routine] = []
    for place in places:
        if place == PG_CATALOG_OID and not found and wanted.inputs is not None:
            built_in = _built_in(signature.name[-1], wanted)
            if built_in is not None and owned:
                raise _is_systems(built_in)
        here = [item for item in everything if item.schema == place and _fits(item, wanted)]
        found += [item for item in here if all(item.signature != other.signature for other in found)]
    fitting = [item for item in found if item.kind in kinds] or found
    if not fitting:
        built_in = _built_in(signature.name[-1], wanted) if schema in (None, "pg_catalog") else None
        if built_in is not None and owned:
            raise _is_systems(built_in)
        return None
    if len(fitting) > 1:
        message = f'{kind} name "{".".join(signature.name)}" is not unique'
        raise SqlError("42725", message, hint=f"Specify the argument list to select the {kind} unambiguously.")
    (item,) = fitting
    if item.kind not in kinds:
        if kind == "aggregate":
            raise SqlError("42809", f"function {wanted.shown} is not an aggregate")
        raise SqlError("42809", f"{wanted.shown} is not a {kind}")
    if owned is not None:
        owned(context, item)
    return item


def _is_systems(function: Function) -> SqlError:
    shown = f"function {function.name}({','.join(map(types.format_type, function.argument_types))})"
    return SqlError("2BP01", f"cannot drop {shown} because it is required by the database system")


def securable(context: DdlContext, kind: str, signature: ast.FunctionSignature) -> Routine:
    """The routine of a GRANT or REVOKE, which the grantor need not own. Raises 42883, 42725."""
    found = find_routine(context, kind, signature, owned=None)
    if found is None:
        wanted = _read_signature(context, kind, signature)
        if _built_in(signature.name[-1], wanted) is not None:
            not_supported("GRANT on a built-in function")
        raise SqlError(*_missing(kind, wanted, signature))
    return found


def _fits(item: Routine, wanted: _Wanted) -> bool:
    if wanted.inputs is None:
        return True
    every = tuple(argument.type.oid for argument in item.arguments if argument.mode != "t")
    return item.signature in (wanted.inputs, wanted.every) or every == wanted.every


def _built_in(name: str, wanted: _Wanted) -> Function | None:
    known = registry.functions_named(name)
    return next((item for item in known if wanted.inputs in (None, item.argument_types)), None)


def _missing(kind: str, wanted: _Wanted, signature: ast.FunctionSignature) -> tuple[str, str]:
    """(SQLSTATE, message) for a routine that does not exist."""
    if wanted.inputs is None:
        return "42883", f'could not find a {kind} named "{".".join(signature.name)}"'
    return "42883", f"{kind} {wanted.shown} does not exist"


# ---- DROP, ALTER ----------------------------------------------------------------------------------------------------


def drop(context: DdlContext, statement: ast.DropFunctionStmt) -> str:
    """DROP FUNCTION, PROCEDURE, ROUTINE. Raises 42883, 42725, 42809, 42501, 2BP01."""
    roots: list[SchemaObject] = []
    for signature in statement.signatures:
        sqlstate, message = "", ""
        try:
            found = find_routine(context, statement.kind, signature, owned=must_own_to_drop)
            if found is None:
                sqlstate, message = _missing(
                    statement.kind, _read_signature(context, statement.kind, signature), signature
                )
                if statement.if_exists:
                    message = f"{statement.kind} {_as_written(signature)} does not exist"
        except SqlError as error:
            if error.sqlstate not in ("42704", "3F000") or not statement.if_exists:
                raise
            found, message = None, error.message
        if found is not None:
            if found.kind == "a" and statement.kind == "function":
                message, hint = (
                    f'"{found.name}" is an aggregate function',
                    "Use DROP AGGREGATE to drop aggregate functions.",
                )
                raise SqlError("42809", message, hint=hint)
            roots.append(found)
        elif not statement.if_exists:
            raise SqlError(sqlstate, message)
        else:
            context.notice(SqlError("00000", f"{message}, skipping", severity="NOTICE"))
    remove(context, roots, statement.cascade)
    return f"DROP {statement.kind.upper()}"


def _as_written(signature: ast.FunctionSignature) -> str:
    """A signature without a routine as a notice shows it: 'f(pg_catalog.int4,foo)'."""
    given = [item.type for item in signature.parameters or () if item.mode in "ibv"]
    shown = ",".join(".".join(type_.names) + "[]" * type_.array_dimensions for type_ in given)
    return f"{'.'.join(signature.name)}({shown})"


def alter(context: DdlContext, statement: ast.AlterFunctionStmt) -> str:
    """ALTER FUNCTION: options, RENAME, OWNER, SET SCHEMA; COMMENT ON."""
    tag = "COMMENT" if statement.action == "comment" else f"ALTER {statement.kind.upper()}"
    found = find_routine(context, statement.kind, statement.signature)
    if found is None:
        wanted = _read_signature(context, statement.kind, statement.signature)
        raise SqlError(*_missing(statement.kind, wanted, statement.signature))
    change = _ALTERATIONS[statement.action]
    context.change({found.oid: change(context, found, statement)})
    return tag


def _rename(context: DdlContext, item: Routine, statement: ast.AlterFunctionStmt) -> Routine:
    assert statement.value is not None
    must_rename(context, item)
    _refuse_users(context, item, "RENAME")
    return _check_place(context, replace(item, name=statement.value))


def _set_schema(context: DdlContext, item: Routine, statement: ast.AlterFunctionStmt) -> Routine:
    assert statement.value is not None
    schema = target_schema(context, item.schema, item.name, statement.value)
    if schema.oid == item.schema:
        return item
    _refuse_users(context, item, "SET SCHEMA")
    return _check_place(context, replace(item, schema=schema.oid))


def _refuse_users(context: DdlContext, item: Routine, what: str) -> None:
    """0A000 if stored texts use the routine, because they are not rewritten."""
    schema = context.catalog.schema_name(item.schema)
    called = any(users_of_code(context, schema, lambda oid: oid == item.oid))
    if called or any(item.oid in other.depends_on for other in _routines(context)):
        not_supported(f"ALTER FUNCTION {what} of a function that stored expressions use")


def _routines(context: DdlContext) -> list[Routine]:
    return [item for items in context.catalog.routines.values() for item in items]


def _check_place(context: DdlContext, item: Routine) -> Routine:
    context.lock_name(item.schema, f"{item.name}()")
    taken = same_routine(context, item)
    if taken is not None and taken.oid != item.oid:
        schema = context.catalog.schema_name(item.schema)
        raise SqlError("42723", f'function {shown_signature(item)} already exists in schema "{schema}"')
    return item


def _set_owner(context: DdlContext, item: Routine, statement: ast.AlterFunctionStmt) -> Routine:
    changed = with_owner(context, item, new_owner(context, item, str(statement.value)))
    assert isinstance(changed, Routine)
    return changed


def _alter_options(context: DdlContext, item: Routine, statement: ast.AlterFunctionStmt) -> Routine:
    if item.kind == "a":
        raise SqlError("42809", f'"{item.name}" is an aggregate function')
    options = _options(statement.options)
    if "support" in options:
        not_supported("SUPPORT of a function")
    changed = _with_settings(context, _with_options(item, options), statement.options)
    if "leakproof" in options:
        _check_leakproof(context, changed)
    return changed


def _set_comment(context: DdlContext, item: Routine, statement: ast.AlterFunctionStmt) -> Routine:
    return replace(item, comment=statement.value or None)


_ALTERATIONS: dict[str, Callable[[DdlContext, Routine, ast.AlterFunctionStmt], Routine]] = {
    "rename": _rename, "schema": _set_schema, "owner": _set_owner, "options": _alter_options, "comment": _set_comment,
}  # fmt: skip
