"""CREATE SEQUENCE and ALTER SEQUENCE."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import replace

from catalog.errors import SqlError
from catalog.schema import Sequence, Table
from catalog.types.base import TypeRef
from catalog.types.integer import BITS
from catalog.types.oids import INT2, INT4, INT8
from engine.ddl import names, ownership
from engine.ddl.context import DdlContext
from engine.sql import ast
from engine.sql.analyze import resolve_type

_NAMES = {INT2: "smallint", INT4: "integer", INT8: "bigint"}


def new_sequence(
    context: DdlContext, schema: int, name: str, type_: TypeRef, options: Items[tuple[str, object]]
) -> Sequence:
    """A sequence with these options and PostgreSQL's defaults. Raises 22023."""
    base = Sequence(context.new_oid(), schema, name, context.new_storage_id(), type=type_, owner=context.user_oid)
    return with_options(context, base, options, fresh=True)


def with_options(context: DdlContext, sequence: Sequence, options: Items[tuple[str, object]], fresh: bool) -> Sequence:
    """The sequence with its options changed. Raises 22023 for a contradiction, 42601 for an option given twice."""
    given: dict[str, object] = {}
    for name, value in options:
        if name in given:
            raise SqlError("42601", "conflicting or redundant options")
        given[name] = value
    lowest_kept = highest_kept = True
    if "as" in given:
        type_name = given["as"]
        assert isinstance(type_name, ast.TypeName)
        type_ = resolve_type(type_name, context.environment)
        if type_.oid not in BITS:
            raise SqlError("22023", "sequence type must be smallint, integer, or bigint")
        if not fresh:  # bounds that were the old type's become the new one's
            largest = 2 ** BITS[sequence.type.oid] - 1
            lowest_kept, highest_kept = sequence.minimum != -largest - 1, sequence.maximum != largest
        sequence = replace(sequence, type=type_)
    increment = _number(given.get("increment"), sequence.increment)
    if increment == 0:
        raise SqlError("22023", "INCREMENT must not be zero")
    largest = 2 ** BITS[sequence.type.oid] - 1
    rising = increment > 0
    lowest = 1 if rising and lowest_kept else -largest - 1
    highest = largest if rising or not highest_kept else -1
    low = _read_bound(given, "minvalue", sequence.minimum, lowest, fresh or not lowest_kept)
    high = _read_bound(given, "maxvalue", sequence.maximum, highest, fresh or not highest_kept)
    for value, word in ((high, "MAXVALUE"), (low, "MINVALUE")):
        if not -largest - 1 <= value <= largest:
            name = _NAMES[sequence.type.oid]
            raise SqlError("22023", f"{word} ({value}) is out of range for sequence data type {name}")
    if low >= high:
        raise SqlError("22023", f"MINVALUE ({low}) must be less than MAXVALUE ({high})")
    start = _number(given.get("start"), (low if rising else high) if fresh else sequence.start)
    if start < low:
        raise SqlError("22023", f"START value ({start}) cannot be less than MINVALUE ({low})")
    if start > high:
        raise SqlError("22023", f"START value ({start}) cannot be greater than MAXVALUE ({high})")
    cache = _number(given.get("cache"), sequence.cache)
    if cache <= 0:
        raise SqlError("22023", f"CACHE ({cache}) must be greater than zero")
    changed = replace(
        sequence,
        increment=increment,
        minimum=low,
        maximum=high,
        start=start,
        cache=cache,
        cycle=bool(given.get("cycle", sequence.cycle)),
    )
    return _set_owner(context, changed, given["owned_by"]) if "owned_by" in given else changed


def _number(value: object, default: int) -> int:
    return default if value is None else int(str(value))


def _read_bound(given: dict[str, object], name: str, current: int, default: int, fresh: bool) -> int:
    if name in given:
        return _number(given[name], default)
    return default if fresh else current


def _set_owner(context: DdlContext, sequence: Sequence, owner: object) -> Sequence:
    assert isinstance(owner, tuple)
    if sequence.owned_kind == "i" and sequence.owned_by is not None:
        linked = context.catalog.table(sequence.owned_by[0])
        detail = f'Sequence "{sequence.name}" is linked to table "{linked.name}".'
        raise SqlError("0A000", "cannot change ownership of identity sequence", detail=detail)
    if owner == ("none",):
        return replace(sequence, owned_by=None)
    if len(owner) < 2:
        raise SqlError("42601", "invalid OWNED BY option", hint="Specify OWNED BY table.column or OWNED BY NONE.")
    relation = ast.RangeVar(None, owner[-3] if len(owner) > 2 else None, owner[-2])
    table = names.find(context, relation)
    if not isinstance(table, Table):
        raise SqlError("42P01", f'relation "{names.show_relation(relation)}" does not exist')
    column = table.column(owner[-1])
    if column is None:
        raise SqlError("42703", f'column "{owner[-1]}" of relation "{table.name}" does not exist')
    for same, word in (
        (table.owner == sequence.owner, "have same owner as"),
        (table.schema == sequence.schema, "be in same schema as"),
    ):
        if not same:
            raise SqlError("55000", f"sequence must {word} table it is linked to")
    return replace(sequence, owned_by=(table.oid, column.number))


def define_sequence(context: DdlContext, statement: ast.SequenceStmt) -> str:
    """CREATE SEQUENCE and ALTER SEQUENCE."""
    relation = statement.relation
    if statement.create:
        schema = context.creation_schema(relation, statement.persistence)
        if names.refuse_if_taken(context, schema.oid, relation.name, statement.if_exists):
            return "CREATE SEQUENCE"
        options = [item for item in statement.options if item[0] != "restart"]
        sequence = new_sequence(context, schema.oid, relation.name, TypeRef(INT8), options)
        context.change({sequence.oid: sequence})
        return "CREATE SEQUENCE"
    found = names.find(context, relation)
    if found is None:
        if not statement.if_exists:
            raise SqlError("42P01", f'relation "{names.show_relation(relation)}" does not exist')
        message = f'relation "{names.show_relation(relation)}" does not exist, skipping'
        context.notice(SqlError("42P01", message, severity="NOTICE"))
        return "ALTER SEQUENCE"
    if not isinstance(found, Sequence):
        raise SqlError("42809", f'"{found.name}" is not a sequence')
    ownership.must_own(context, found)
    context.lock_relation(found.oid, "share row exclusive")
    alter_sequence(context, found, statement.options)
    return "ALTER SEQUENCE"


def alter_sequence(context: DdlContext, sequence: Sequence, options: Items[tuple[str, object]]) -> None:
    """Changes the definition. RESTART gives the sequence a new state, so that a rollback restores the old one."""
    plain = [item for item in options if item[0] != "restart"]
    changed = with_options(context, sequence, plain, fresh=False) if plain else sequence
    restart = dict(options).get("restart", False)
    if restart is not False:
        changed = restart_sequence(context, changed, None if restart is None else int(str(restart)))
    elif plain:
        _within_bounds(changed, context.sequence_value(sequence))
    context.change({changed.oid: changed})


def restart_sequence(context: DdlContext, sequence: Sequence, value: int | None) -> Sequence:
    """Restarts the sequence at its start, or at `value`. Raises 22023 outside of its bounds."""
    if value is not None:
        _within_bounds(sequence, value)
    context.drop_storage(sequence.storage_id)
    fresh = replace(sequence, storage_id=context.new_storage_id())
    if value is not None:
        context.set_sequence_start(fresh, value)
    return fresh


def _within_bounds(sequence: Sequence, value: int) -> None:
    """Raises 22023 for a state that the bounds do not allow."""
    if not sequence.minimum <= value <= sequence.maximum:
        side, bound = ("less", "MINVALUE") if value < sequence.minimum else ("greater", "MAXVALUE")
        limit = sequence.minimum if value < sequence.minimum else sequence.maximum
        raise SqlError("22023", f"RESTART value ({value}) cannot be {side} than {bound} ({limit})")
