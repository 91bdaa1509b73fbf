"""The rows of pg_proc of user-defined functions, and the texts of their definitions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from catalog import types
from catalog.catalog import Catalog
from catalog.functions import registry
from catalog.identifiers import quote_identifier, quote_literal, split_identifiers
from catalog.routines import function_in
from catalog.schema import PG_CATALOG_OID, AggregateParts, Routine, RoutineArgument
from catalog.system import derived_oids
from catalog.system import relations as internal
from catalog.system.builtin import LANGUAGES
from catalog.system.content import Columns, Item, Items, Surroundings, comment_columns, content, dependency_columns
from catalog.system.parameters import LISTS
from catalog.types.array import vector_of
from catalog.types.base import Array
from catalog.types.user import FIRST_ADDED_OID

_MODES = {"i": "", "o": "OUT ", "b": "INOUT ", "v": "VARIADIC "}
_VOLATILITY = {"i": "IMMUTABLE", "s": "STABLE", "v": ""}
_PARALLEL = {"s": "PARALLEL SAFE", "r": "PARALLEL RESTRICTED", "u": ""}


def _with_schema(catalog: Catalog, item: Routine) -> Item:
    """Returns (routine, its schema's name, its relation), on which its rows depend."""
    return item, catalog.schema_name(item.schema), catalog.get(item.relation) if item.relation else None


routines = Items((Routine,), _with_schema)


def _oids_of(arguments: tuple[RoutineArgument, ...]) -> tuple[int, ...]:
    return tuple(item.type.declared for item in arguments)


def _result_oid(item: Routine) -> int:
    return derived_oids.row_type(item.relation) if item.relation else item.result.declared


@content("pg_proc", "catalog", routines)
def _functions(items: list[Item], surroundings: Surroundings) -> Columns:
    found: list[Routine] = [item for item, *_ in items]
    functions = [function_in(surroundings.catalog, item) for item in found]
    moded = [any(argument.mode != "i" for argument in item.arguments) for item in found]
    labelled = [any(argument.name for argument in item.arguments) for item in found]
    return {
        "oid": [item.oid for item in found],
        "proname": [item.name for item in found],
        "pronamespace": [item.schema for item in found],
        "proowner": [item.owner for item in found],
        "prolang": [LANGUAGES[item.language] for item in found],
        "procost": [item.cost for item in found],
        "prorows": [item.rows for item in found],
        "provariadic": [function.variadic for function in functions],
        "prokind": [item.kind for item in found],
        "proconfig": [_config(item) for item in found],
        "prosecdef": [item.security_definer for item in found],
        "proleakproof": [item.leakproof for item in found],
        "proisstrict": [item.strict for item in found],
        "proretset": [item.returns_set for item in found],
        "provolatile": [item.volatility for item in found],
        "proparallel": [item.parallel for item in found],
        "pronargs": [len(item.inputs) for item in found],
        "pronargdefaults": [function.default_count for function in functions],
        "prorettype": [_result_oid(item) for item in found],
        "proargtypes": [vector_of(_oids_of(item.inputs)) for item in found],
        "proallargtypes": [
            Array.of(_oids_of(item.arguments)) if every else None for item, every in zip(found, moded, strict=True)
        ],
        "proargmodes": [
            Array.of(tuple(argument.mode for argument in item.arguments)) if every else None
            for item, every in zip(found, moded, strict=True)
        ],
        "proargnames": [
            Array.of(tuple(argument.name for argument in item.arguments)) if some else None
            for item, some in zip(found, labelled, strict=True)
        ],
        "proargdefaults": [_defaults(item) for item in found],
        "prosrc": [item.body for item in found],
        "proacl": [None if item.acl is None else Array.of(item.acl) for item in found],
        "prosqlbody": [None if item.statements is None else sql_body(item, item.statements) for item in found],
    }


def _defaults(item: Routine) -> str | None:
    text = ", ".join(argument.default for argument in item.inputs if argument.default is not None)
    return f"{text}\x1f{text}" if text else None


@content("pg_description", "catalog", routines)
def _comments(items: list[Item], _: Surroundings) -> Columns:
    return comment_columns(derived_oids.PG_PROC, (item for item, *_ in items))


@content("pg_depend", "catalog", routines)
def _dependencies(items: list[Item], surroundings: Surroundings) -> Columns:
    found = [(item.oid, derived_oids.PG_NAMESPACE, item.schema, 0) for item, *_ in items]
    for item, *_ in items:
        used = {_result_oid(item), *_oids_of(item.arguments)}
        found += [(item.oid, derived_oids.PG_TYPE, oid, 0) for oid in sorted(used) if oid >= FIRST_ADDED_OID]
        if item.statements is not None:
            found += [(item.oid, *reference) for reference in surroundings.references(item)]
        if item.aggregate is not None:
            found += [(item.oid, *reference) for reference in _of_aggregate(item.aggregate)]
    made = [(item.oid, item.result.oid) for item, *_ in items if item.is_constructor]
    return dependency_columns(
        [
            *((derived_oids.PG_PROC, oid, 0, derived_oids.PG_TYPE, type_, 0, "i") for oid, type_ in made),
            *((derived_oids.PG_PROC, oid, 0, catalog, other, column, "n") for oid, catalog, other, column in found),
        ]
    )


def _of_aggregate(parts: AggregateParts) -> list[tuple[int, int, int]]:
    """What an aggregate depends on besides its arguments and its result: (catalog, OID, 0)."""
    states = {parts.state.declared, *([] if parts.moving_state is None else [parts.moving_state.declared])}
    found = [(derived_oids.PG_TYPE, oid, 0) for oid in sorted(states) if oid >= FIRST_ADDED_OID]
    found += [(derived_oids.PG_PROC, oid, 0) for oid in parts.functions if oid >= FIRST_ADDED_OID]
    if parts.sort_operator >= FIRST_ADDED_OID:
        found.append((derived_oids.PG_OPERATOR, parts.sort_operator, 0))
    return found


@content("pg_aggregate", "catalog", routines)
def _aggregates(items: list[Item], _: Surroundings) -> Columns:
    found = [(item, item.aggregate) for item, *_ in items if item.aggregate is not None]
    parts = [part for _, part in found]
    return {
        "aggfnoid": [item.oid for item, _ in found],
        "aggkind": [part.kind for part in parts],
        "aggnumdirectargs": [part.direct for part in parts],
        "aggtransfn": [part.transition for part in parts],
        "aggfinalfn": [part.final for part in parts],
        "aggcombinefn": [part.combine for part in parts],
        "aggserialfn": [part.serial for part in parts],
        "aggdeserialfn": [part.deserial for part in parts],
        "aggmtransfn": [part.moving_transition for part in parts],
        "aggminvtransfn": [part.moving_inverse for part in parts],
        "aggmfinalfn": [part.moving_final for part in parts],
        "aggfinalextra": [part.final_extra for part in parts],
        "aggmfinalextra": [part.moving_final_extra for part in parts],
        "aggfinalmodify": [part.modify for part in parts],
        "aggmfinalmodify": [part.moving_modify for part in parts],
        "aggsortop": [part.sort_operator for part in parts],
        "aggtranstype": [part.state.declared for part in parts],
        "aggtransspace": [part.space for part in parts],
        "aggmtranstype": [0 if part.moving_state is None else part.moving_state.declared for part in parts],
        "aggmtransspace": [part.moving_space for part in parts],
        "agginitval": [part.initial for part in parts],
        "aggminitval": [part.moving_initial for part in parts],
    }


# ---- texts ----------------------------------------------------------------------------------------------------------


def _search_by_name(surroundings: Surroundings, name: str) -> dict[tuple[int, ...], int]:
    """Returns the functions of this name by argument types, without functions that an earlier schema of the search path
    hides."""
    found: dict[tuple[int, ...], int] = {}
    catalog = surroundings.catalog
    for place in surroundings.path:
        if place == PG_CATALOG_OID:
            for function in registry.functions_named(name):
                found.setdefault(function.argument_types, function.oid)
        elif not catalog.schema_name(place).startswith("pg_temp_"):
            for item in catalog.routines.get(name, ()):
                if item.schema == place:
                    found.setdefault(item.signature, item.oid)
    return found


@content(internal.FUNCTION_NAMES, "session", routines)
def _names(items: list[Item], surroundings: Surroundings) -> Columns:
    shown, signatures, seen = [], [], []
    for item, schema, _ in items:
        found = _search_by_name(surroundings, item.name)
        visible, alone = found.get(item.signature) == item.oid, len(found) == 1
        name, full = quote_identifier(item.name), f"{quote_identifier(schema)}.{quote_identifier(item.name)}"
        inputs = ",".join(types.format_type(oid) for oid in _oids_of(item.inputs))
        shown.append(name if visible and alone else full)
        signatures.append(f"{name if visible else full}({inputs})")
        seen.append(visible)
    bodies = [None if item.statements is None else sql_body(item, surroundings.body(item)) for item, *_ in items]
    return {
        "oid": [item.oid for item, *_ in items],
        "shown": shown,
        "signature": signatures,
        "arguments": [arguments_text(item, True) for item, *_ in items],
        "identity": [arguments_text(item, False) for item, *_ in items],
        "result": [result_text(item) for item, *_ in items],
        "definition": [
            None if item.kind == "a" else definition(surroundings.catalog, item, body)
            for (item, *_), body in zip(items, bodies, strict=True)
        ],
        "visible": seen,
        "body": bodies,
    }


@content(internal.ARGUMENT_DEFAULTS, "catalog", routines)
def _argument_defaults(items: list[Item], _: Surroundings) -> Columns:
    found = [
        (item.oid, number, argument.default)
        for item, *_ in items
        for number, argument in enumerate(item.arguments, 1)
        if argument.default is not None
    ]
    return {name: [row[place] for row in found] for place, name in enumerate(("oid", "number", "text"))}


def arguments_text(item: Routine, with_defaults: bool) -> str:
    """pg_get_function_arguments."""
    parts = []
    for argument in item.arguments:
        if argument.mode == "t":
            continue
        mode = "IN " if item.kind == "p" and argument.mode == "i" else _MODES[argument.mode]
        name = f"{quote_identifier(argument.name)} " if argument.name else ""
        text = f"{mode}{name}{types.format_type(argument.type.declared)}"
        if with_defaults and argument.default is not None:
            text += f" DEFAULT {argument.default}"
        parts.append(text)
    if item.aggregate is not None and item.aggregate.kind != "n":
        direct = item.aggregate.direct
        return f"{', '.join(parts[:direct])} ORDER BY {', '.join(parts[direct:] or parts[-1:])}".strip()
    return ", ".join(parts)


def result_text(item: Routine) -> str | None:
    """pg_get_function_result; None for a procedure."""
    if item.kind == "p":
        return None
    if any(argument.mode == "t" for argument in item.arguments):
        columns = [
            f"{quote_identifier(argument.name)} {types.format_type(argument.type.declared)}"
            for argument in item.arguments
            if argument.mode == "t"
        ]
        return f"TABLE({', '.join(columns)})"
    return ("SETOF " if item.returns_set else "") + types.format_type(_result_oid(item))


_PARTS_OF_BODIES = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\d+)|\n""")
_READS = re.compile(r"^ +FROM ", re.MULTILINE)


def sql_body(item: Routine, statements: Sequence[str]) -> str:
    """pg_get_function_sqlbody: RETURN expression, or BEGIN ATOMIC ... END. Names of arguments have the function's name
    as prefix if the query also has other names."""
    labels = [quote_identifier(argument.name) for argument in item.inputs]

    def show_text(text: str) -> str:
        prefix = f"{quote_identifier(item.name)}." if _READS.search(text) else ""

        def part(found: re.Match[str]) -> str:
            if found[0] == "\n":
                return "\n" if item.is_expression else "\n "
            label = labels[int(found[1]) - 1] if found[1] else ""
            return prefix + label if label else found[0]

        return _PARTS_OF_BODIES.sub(part, text.replace(' AS "?column?"', ""))

    texts = [show_text(text) for text in statements]
    if item.is_expression:
        return f"RETURN {texts[0].strip().removeprefix('SELECT').strip()}"
    return "BEGIN ATOMIC\n" + "".join(f" {text.lstrip()};\n" for text in texts) + "END"


def _config(item: Routine) -> Array | None:
    """The SET clauses."""
    return Array.of(tuple(f"{name}={value}" for name, value in item.settings)) if item.settings else None


def _setting_value(name: str, value: str) -> str:
    """The value of a setting in a SET clause."""
    items = split_identifiers(value) if name in LISTS else [value]
    return ", ".join(map(quote_literal, items))


def definition(catalog: Catalog, item: Routine, body: str | None) -> str:
    """pg_get_functiondef. `body`: the text of a SQL body, or None."""
    word = "FUNCTION" if item.kind == "f" else "PROCEDURE"
    name = f"{quote_identifier(catalog.schema_name(item.schema))}.{quote_identifier(item.name)}"
    lines = [f"CREATE OR REPLACE {word} {name}({arguments_text(item, True)})"]
    result = result_text(item)
    if result is not None:
        lines.append(f" RETURNS {result}")
    lines.append(f" LANGUAGE {item.language}")
    options = [
        _VOLATILITY[item.volatility],
        _PARALLEL[item.parallel],
        "STRICT" if item.strict else "",
        "SECURITY DEFINER" if item.security_definer else "",
        "LEAKPROOF" if item.leakproof else "",
        f"COST {item.cost:g}" if item.cost != (1 if item.language == "internal" else 100) else "",
        f"ROWS {item.rows:g}" if item.rows not in (0, 1000) else "",
    ]
    shown = " ".join(option for option in options if option)
    if shown:
        lines.append(f" {shown}")
    lines += [f" SET {quote_identifier(name)} TO {_setting_value(name, value)}" for name, value in item.settings]
    if body is not None:
        lines.append(body)
    else:
        tag = "function" if item.kind == "f" else "procedure"
        while f"${tag}$" in item.body:
            tag += "x"
        lines.append(f"AS ${tag}${item.body}${tag}$")
    return "\n".join(lines) + "\n"
