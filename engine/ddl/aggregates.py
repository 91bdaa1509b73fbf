"""CREATE AGGREGATE (aggregatecmds.c, pg_aggregate.c). An aggregate is a `Routine` of kind a: engine/ddl/routines.py
alters and drops it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catalog import types
from catalog.errors import SqlError
from catalog.functions.base import Function
from catalog.routines import LANGUAGE, shown_signature
from catalog.schema import AggregateParts, Routine, RoutineArgument
from catalog.types import element_of, oids
from catalog.types.base import TypeRef
from engine.ddl import routines
from engine.ddl.context import DdlContext
from engine.ddl.definitions import DefinitionItems
from engine.ddl.ownership import must_own, user_role
from engine.sql import ast
from engine.sql.analyze import resolve_type
from engine.sql.analyze.common_types import can_coerce, find_pathway, resolve_polymorphic
from engine.sql.analyze.resolve import find_function, operator_for, signature
from engine.sql.analyze.routine_rights import check_execute

_ALIASES = {"sfunc1": "sfunc", "stype1": "stype", "initcond1": "initcond"}
_FUNCTIONS = ("sfunc", "finalfunc", "combinefunc", "serialfunc", "deserialfunc", "msfunc", "minvfunc", "mfinalfunc")
_KNOWN = frozenset(
    (*_FUNCTIONS, "finalfunc_extra", "mfinalfunc_extra", "finalfunc_modify", "mfinalfunc_modify", "sortop", "basetype"),
).union(("hypothetical", "stype", "sspace", "mstype", "msspace", "initcond", "minitcond", "parallel"))
_MODIFY = {"read_only": "r", "shareable": "s", "read_write": "w"}
_PARALLEL = {"safe": "s", "restricted": "r", "unsafe": "u"}
_KINDS = {"n": "an ordinary", "o": "an ordered-set", "h": "a hypothetical-set"}


def _wrong(message: str, detail: str | None = None) -> SqlError:
    return SqlError("42P13", message, detail=detail)


def _modify(definition: DefinitionItems, name: str, kind: str) -> str:
    item = definition.items.get(name)
    if item is None:
        return "r" if kind == "n" else "w"
    if item.text not in _MODIFY:
        raise SqlError("42601", f'parameter "{name}" must be READ_ONLY, SHAREABLE, or READ_WRITE')
    return _MODIFY[item.text]


def create(context: DdlContext, statement: ast.CreateAggregateStmt) -> str:
    """CREATE [OR REPLACE] AGGREGATE. Raises 42P13, 42601, 42883, 42804, 42723, 42809, 42501."""
    relation = ast.RangeVar(None, statement.name[-2] if len(statement.name) > 1 else None, statement.name[-1])
    schema = context.creation_schema(relation)
    definition = _read(context, statement)
    kind, direct, arguments = _arguments(context, statement, definition)
    context.environment.make_current()
    maker = _Maker(context, definition, kind, direct, [item.type.oid for item in arguments])
    maker.variadic_any = bool(arguments) and arguments[-1].mode == "v" and arguments[-1].type.oid == oids.ANY
    parts, result = maker.make()
    parallel = definition.text("parallel")
    if parallel is not None and parallel not in _PARALLEL:
        raise SqlError("42601", 'parameter "parallel" must be SAFE, RESTRICTED, or UNSAFE')
    fresh = Routine(
        0, schema.oid, statement.name[-1], "a", tuple(arguments), TypeRef(result), False, "aggregate_dummy",
        volatility="i", parallel="u" if parallel is None else _PARALLEL[parallel], cost=1.0, language="internal",
        owner=context.user_oid, aggregate=parts, depends_on=_dependencies(context, parts),
    )  # fmt: skip
    existing = routines.same_routine(context, fresh)
    if existing is not None:
        _check_replaced(context, existing, fresh, statement)
        context.lock_object(existing.oid)
        fresh = replace(fresh, oid=existing.oid, owner=existing.owner, acl=existing.acl, comment=existing.comment)
    context.lock_name(schema.oid, f"{fresh.name}()")
    if existing is None:
        fresh = replace(fresh, oid=context.new_oid())
    context.change({fresh.oid: fresh})
    return "CREATE AGGREGATE"


def _read(context: DdlContext, statement: ast.CreateAggregateStmt) -> DefinitionItems:
    found = DefinitionItems()
    for item in statement.definition:
        name = _ALIASES.get(item.name, item.name)
        if name not in _KNOWN:
            message = f'aggregate attribute "{item.name}" not recognized'
            context.notice(SqlError("42601", message, severity="WARNING"))
            continue
        found.items[name] = item
    for name in ("stype", "sfunc"):
        if name not in found.items:
            raise _wrong(f"aggregate {name} must be specified")
    _check_moving(found)
    return found


def _check_moving(definition: DefinitionItems) -> None:
    if "mstype" in definition.items:
        for name in ("msfunc", "minvfunc"):
            if name not in definition.items:
                raise _wrong(f"aggregate {name} must be specified when mstype is specified")
        return
    for name in ("msfunc", "minvfunc", "mfinalfunc", "msspace", "minitcond"):
        if name in definition.items and not (name == "msspace" and not definition.integer("msspace")):
            raise _wrong(f"aggregate {name} must not be specified without mstype")


def _arguments(
    context: DdlContext, statement: ast.CreateAggregateStmt, definition: DefinitionItems
) -> tuple[str, int, list[RoutineArgument]]:
    """The kind of the aggregate, the number of its direct arguments, and its arguments."""
    hypothetical = definition.boolean("hypothetical")
    if statement.arguments is None:
        item = definition.items.get("basetype")
        if item is None:
            raise _wrong("aggregate input type must be specified")
        if item.text.lower() in ("any", '"any"') and item.kind in ("word", "string", "type"):
            return "n", 0, []
        found = definition.type(context, "basetype")
        assert found is not None
        return "n", 0, [RoutineArgument("", found)]
    if "basetype" in definition.items:
        raise _wrong("basetype is redundant with aggregate input type specification")
    kind = "n" if statement.arguments.direct < 0 else "h" if hypothetical else "o"
    if kind == "n" and hypothetical:
        raise _wrong("only ordered-set aggregates can be hypothetical")
    arguments = []
    for parameter in statement.arguments.parameters:
        if parameter.returns_set:
            raise _wrong("aggregates cannot accept set arguments")
        if parameter.mode in "ob":
            position = parameter.location + 1
            raise SqlError("0A000", "aggregates cannot have output arguments", position=position)
        type_ = resolve_type(parameter.type, context.environment)
        if parameter.mode == "v" and not (
            element_of(type_.oid) or type_.oid in (oids.ANY, oids.ANYARRAY, oids.ANYCOMPATIBLEARRAY)
        ):
            raise _wrong("VARIADIC parameter must be an array")
        arguments.append(RoutineArgument(parameter.name, TypeRef(type_.oid, -1, type_.domain), parameter.mode))
    return kind, max(statement.arguments.direct, 0), arguments


class _Maker:
    """Finds and checks the functions of an aggregate with arguments of these types."""

    def __init__(
        self, context: DdlContext, definition: DefinitionItems, kind: str, direct: int, arguments: Sequence[int]
    ) -> None:
        self._context = context
        self._definition = definition
        self._kind = kind
        self._direct = direct
        self._arguments = list(arguments)
        self.variadic_any = False

    @property
    def _step_types(self) -> list[int]:
        """The types of the arguments of the transition function after the state."""
        if self._kind == "n":
            return self._arguments
        return self._arguments[self._direct :] or self._arguments[-1:]

    def make(self) -> tuple[AggregateParts, int]:
        """The parts of the aggregate, and its result type."""
        given = self._definition
        state = self._state_type("stype")
        moving = self._state_type("mstype") if "mstype" in given.items else None
        for name, type_ in (("initcond", state), ("minitcond", moving)):
            text = given.text(name)
            if type_ is not None and text is not None and type_.oid not in oids.POLYMORPHIC | {oids.INTERNAL}:
                types.lookup(type_.oid).text_decoder()(text)
        self._check_polymorphic(state.oid, "cannot determine transition data type")
        transition = self._transition("sfunc", "transition", state, given.text("initcond"))
        final, result = self._final("finalfunc", state, given.boolean("finalfunc_extra"))
        parts = AggregateParts(
            transition.oid, state, self._kind, self._direct, given.text("initcond"), given.integer("sspace"),
            0 if final is None else final.oid, given.boolean("finalfunc_extra"),
            _modify(given, "finalfunc_modify", self._kind), self._combine(state), *self._serial(state),
        )  # fmt: skip
        self._check_polymorphic(result, "cannot determine result data type")
        if moving is not None:
            parts = self._with_moving(parts, moving, result)
        return replace(parts, sort_operator=self._sort_operator()), result

    def _state_type(self, name: str) -> TypeRef:
        found = self._definition.type(self._context, name)
        assert found is not None
        row = types.type_row(found.oid)
        allowed = oids.POLYMORPHIC | ({oids.INTERNAL} if self._context.is_superuser else set())
        if row is not None and row.kind == "p" and found.oid not in allowed:
            raise _wrong(f"aggregate transition data type cannot be {types.format_type(found.oid)}")
        return TypeRef(found.oid, -1, found.domain)

    def _check_polymorphic(self, oid: int, message: str) -> None:
        """check_valid_polymorphic_signature."""
        if oid not in oids.POLYMORPHIC or set(self._arguments) & oids.POLYMORPHIC:
            return
        shown = types.format_type(oid)
        raise _wrong(
            message,
            f"A result of type {shown} requires at least one input of type anyelement, anyarray, anynonarray, anyenum, "
            "anyrange, or anymultirange.",
        )

    # ---- functions --------------------------------------------------------------------------------------------------

    def _find(self, names: tuple[str, ...], inputs: Sequence[int]) -> tuple[Function, int]:
        """lookup_agg_function: the function for arguments of these types, and its result type."""
        context = self._context
        schema = names[-2] if len(names) > 1 else None
        found = find_function(names[-1], tuple(inputs), expand_variadic=False, schema=schema)
        shown = signature(".".join(names), inputs)
        candidate = found.candidate
        if found.status != "function" or candidate is None or candidate.function.kind != "f":
            raise SqlError("42883", f"function {shown} does not exist")
        function = candidate.function
        if function.returns_set:
            raise SqlError("42804", f"function {shown} returns a set")
        if self.variadic_any and function.variadic != oids.ANY:
            raise SqlError("42804", f"function {shown} must accept VARIADIC ANY to be used in this aggregate")
        declared = list(candidate.types)
        if any(oid in oids.POLYMORPHIC for oid in inputs):
            result = self._polymorphic_result(inputs, declared, function.result_type)
        else:
            result = resolve_polymorphic(list(inputs), declared, function.result_type, False)
        for given, wanted in zip(inputs, declared, strict=True):
            if not _is_binary(given, wanted):
                shown = signature(".".join(names), declared)
                raise SqlError("42804", f"function {shown} requires run-time type coercion")
        if function.language == LANGUAGE:
            routine = context.catalog.get(function.oid)
            assert isinstance(routine, Routine)
            check_execute(routine, context.catalog, user_role(context))
        return function, result

    @staticmethod
    def _polymorphic_result(inputs: Sequence[int], declared: list[int], result: int) -> int:
        """enforce_generic_type_consistency for polymorphic types of arguments, which stay as they are."""
        for position, (given, wanted) in enumerate(zip(inputs, declared, strict=True)):
            if wanted in oids.POLYMORPHIC:
                declared[position] = given
        return result

    def _transition(self, name: str, word: str, state: TypeRef, initial: str | None) -> Function:
        names = self._definition.names(name)
        function, result = self._find(names, [state.oid, *self._step_types])
        if result != state.oid:
            shown = types.format_type(state.oid)
            raise SqlError("42804", f"return type of {word} function {'.'.join(names)} is not {shown}")
        if function.strict and initial is None and word == "transition":
            given = self._step_types
            if not given or not _is_binary(given[0], state.oid):
                raise _wrong(
                    "must not omit initial value when transition function is strict and transition type is not "
                    "compatible with input type"
                )
        return function

    def _final(self, name: str, state: TypeRef, extra: bool) -> tuple[Function | None, int]:
        names = self._definition.names(name)
        if not names:
            return None, state.oid
        arguments = self._arguments if extra else self._arguments[: self._direct]
        function, result = self._find(names, [state.oid, *arguments])
        if extra and function.strict:
            raise _wrong("final function with extra arguments must not be declared STRICT")
        return function, result

    def _combine(self, state: TypeRef) -> int:
        names = self._definition.names("combinefunc")
        if not names:
            return 0
        function, result = self._find(names, [state.oid, state.oid])
        shown = types.format_type(state.oid)
        if result != state.oid:
            raise SqlError("42804", f"return type of combine function {'.'.join(names)} is not {shown}")
        if state.oid == oids.INTERNAL and function.strict:
            raise _wrong(f"combine function with transition type {shown} must not be declared STRICT")
        return function.oid

    def _serial(self, state: TypeRef) -> tuple[int, int]:
        names = [self._definition.names(name) for name in ("serialfunc", "deserialfunc")]
        if not any(names):
            return 0, 0
        if state.oid != oids.INTERNAL:
            raise _wrong(
                "serialization functions may be specified only when the aggregate transition data type is internal"
            )
        if not all(names):
            raise _wrong("must specify both or neither of serialization and deserialization functions")
        serial, result = self._find(names[0], [oids.INTERNAL])
        if result != oids.BYTEA:
            raise SqlError("42804", f"return type of serialization function {'.'.join(names[0])} is not bytea")
        deserial, result = self._find(names[1], [oids.BYTEA, oids.INTERNAL])
        if result != oids.INTERNAL:
            raise SqlError("42804", f"return type of deserialization function {'.'.join(names[1])} is not internal")
        return serial.oid, deserial.oid

    def _with_moving(self, parts: AggregateParts, state: TypeRef, result: int) -> AggregateParts:
        given = self._definition
        transition = self._transition("msfunc", "transition", state, given.text("minitcond"))
        inverse = self._transition("minvfunc", "inverse transition", state, None)
        if transition.strict != inverse.strict:
            raise _wrong("strictness of aggregate's forward and inverse transition functions must match")
        extra = given.boolean("mfinalfunc_extra")
        final, found = self._final("mfinalfunc", state, extra)
        if found != result:
            raise _wrong(
                f"moving-aggregate implementation returns type {types.format_type(found)}, but plain implementation "
                f"returns type {types.format_type(result)}"
            )
        return replace(
            parts, moving_transition=transition.oid, moving_inverse=inverse.oid, moving_state=state,
            moving_initial=given.text("minitcond"), moving_space=given.integer("msspace"),
            moving_final=0 if final is None else final.oid, moving_final_extra=extra,
            moving_modify=_modify(given, "mfinalfunc_modify", self._kind),
        )  # fmt: skip

    def _sort_operator(self) -> int:
        names = self._definition.names("sortop")
        if not names:
            return 0
        if len(self._arguments) != 1:
            raise _wrong("sort operator can only be specified for single-argument aggregates")
        oid = self._arguments[0]
        return operator_for(self._context.environment, names, oid, oid, -1).oid


def _is_binary(given: int, wanted: int) -> bool:
    """IsBinaryCoercible."""
    if given == wanted or wanted == oids.ANY or wanted in oids.POLYMORPHIC:
        return True
    return can_coerce([given], [wanted], "i") and find_pathway(wanted, given, "i")[0] == "relabel"


def _dependencies(context: DdlContext, parts: AggregateParts) -> tuple[int, ...]:
    """The functions and operators of users that it uses."""
    return tuple(oid for oid in (*parts.functions, parts.sort_operator) if context.catalog.get(oid) is not None)


def _check_replaced(context: DdlContext, old: Routine, new: Routine, statement: ast.CreateAggregateStmt) -> None:
    if not statement.replace:
        raise SqlError("42723", f'function "{new.name}" already exists with same argument types')
    must_own(context, old)
    if old.aggregate is None or new.aggregate is None:
        word = "a procedure" if old.kind == "p" else "a function"
        raise SqlError("42809", "cannot change routine kind", detail=f'"{old.name}" is {word}.')
    if old.aggregate.kind != new.aggregate.kind:
        detail = f'"{old.name}" is {_KINDS[old.aggregate.kind]} aggregate function.'
        raise SqlError("42809", "cannot change routine kind", detail=detail)
    if old.aggregate.direct != new.aggregate.direct:
        detail = f'"{old.name}" is {_KINDS[old.aggregate.kind]} aggregate function.'
        message = "cannot change number of direct arguments of an aggregate function"
        raise SqlError("42P13", message, detail=detail)
    if old.result.declared != new.result.declared:
        hint = f"Use DROP AGGREGATE {shown_signature(old)} first."
        raise SqlError("42P13", "cannot change return type of existing function", hint=hint)
