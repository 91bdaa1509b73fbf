"""The content of the internal tables: names, definitions and privileges for this session.

Catalog functions (lookups.py) read these tables. Their content depends on the search path or the user, so the scope is
'session'; relations are in slices, like the rows of pg_class.
"""

from __future__ import annotations

from collections import abc

from catalog import privileges, types
from catalog.catalog import Catalog
from catalog.functions import registry
from catalog.identifiers import canonical_name, quote_identifier
from catalog.privileges import acts_as
from catalog.row_security import is_restricted_user
from catalog.schema import (
    Database,
    ForeignServer,
    ForeignWrapper,
    Index,
    Parameter,
    Role,
    Routine,
    Sequence,
    Table,
    Tablespace,
    View,
)
from catalog.system import derived_oids
from catalog.system import relations as internal
from catalog.system.content import (
    Columns,
    Item,
    Items,
    Surroundings,
    content,
    indexes,
    objects_of,
    sequences,
    shared_objects,
    tables,
    tables_and_views,
    views,
)
from catalog.system.definitions import (
    constraint_definition,
    index_column_definition,
    index_definition,
    is_visible,
    relation_name,
    type_name,
)
from catalog.system.objects import all_constraints, constraint_items, index_columns, qualified_name
from catalog.system.relations import read_fields, system_relations
from catalog.system.shared import roles, schemas
from catalog.types import oids

# ---- relations ------------------------------------------------------------------------------------------------------


def _is_owned(surroundings: Surroundings, owner: int) -> bool:
    """Whether the user has all rights on the objects of this owner."""
    return acts_as(surroundings.catalog, surroundings.user, owner)


def _relation_columns(items: list[Item], surroundings: Surroundings) -> Columns:
    catalog, path = surroundings.catalog, surroundings.path
    found = [item[0] for item in items]
    return {
        "oid": [item.oid for item in found],
        "shown": [relation_name(catalog, path, item) for item in found],
        "visible": [is_visible(catalog, path, item) for item in found],
        "owned": [_is_owned(surroundings, item.owner) if hasattr(item, "owner") else True for item in found],
        "comment": [item.comment for item in found],
    }


@content(internal.RELATION_NAMES, "session", objects_of(Table, View, Index, Sequence))
def _relations(items: list[Item], surroundings: Surroundings) -> Columns:
    return _relation_columns(items, surroundings)


@content(internal.RELATION_NAMES, "session", lambda _: [(item,) for item in system_relations().values()])
def _system_names(items: list[Item], surroundings: Surroundings) -> Columns:
    return _relation_columns(items, surroundings)


def _held_test(letters: frozenset[str], options: frozenset[str]) -> str:
    """Returns the user's privileges as ',a,r,r*,'; a star is the grant option."""
    return "".join(f",{word}" for word in (*sorted(letters), *(f"{letter}*" for letter in sorted(options)))) + ","


@content(internal.HELD, "session", objects_of(Table, View, Sequence))
def _held_on_relations(items: list[Item], surroundings: Surroundings) -> Columns:
    """Rows of HELD for relations. Number 0 is the relation, -1 any column of it, others are columns."""
    catalog, user = surroundings.catalog, surroundings.user
    rows: list[tuple[int, int, str | None, str]] = []
    for (item,) in items if user is not None else ():
        assert user is not None
        letters, options = privileges.get_privileges(catalog, item, user)
        rows.append((item.oid, 0, None, _held_test(letters, options)))
        anywhere, anywhere_on = letters, options
        for column in item.columns if isinstance(item, Table | View) else ():
            mine, mine_on = privileges.held_on_column(catalog, column, user)
            anywhere, anywhere_on = anywhere | mine, anywhere_on | mine_on
            rows.append((item.oid, column.number, column.name, _held_test(letters | mine, options | mine_on)))
        rows.append((item.oid, -1, None, _held_test(anywhere, anywhere_on)))
    return _held_rows(rows)


@content(internal.HELD, "session", lambda _: [(item,) for item in system_relations().values()])
def _held_on_system(items: list[Item], surroundings: Surroundings) -> Columns:
    """Rows of HELD for the system catalogs, which all users may read."""
    everything = surroundings.user is not None and surroundings.user.superuser
    letters = frozenset(privileges.DEFAULTS["table"][0] if everything else "r")
    held = _held_test(letters, letters if everything else frozenset())
    rows: list[tuple[int, int, str | None, str]] = []
    for (item,) in items:
        rows += [(item.oid, 0, None, held), (item.oid, -1, None, held)]
        rows += [(item.oid, column.number, column.name, held) for column in item.columns]
    return _held_rows(rows)


@content(internal.HELD, "session", schemas)
def _held_on_schemas(items: list[Item], surroundings: Surroundings) -> Columns:
    return _held_on_named(items, surroundings, "schema")


@content(internal.HELD, "session", shared_objects(Database))
def _held_on_databases(items: list[Item], surroundings: Surroundings) -> Columns:
    return _held_on_named(items, surroundings, "database")


@content(internal.HELD, "session", shared_objects(Tablespace))
def _held_on_tablespaces(items: list[Item], surroundings: Surroundings) -> Columns:
    return _held_on_named(items, surroundings, "tablespace")


@content(internal.HELD, "session", shared_objects(Parameter))
def _held_on_parameters(items: list[Item], surroundings: Surroundings) -> Columns:
    return _held_on_named(items, surroundings, "parameter")


@content(internal.HELD, "session", lambda _: [(None,)])
def _held_on_other_parameters(_: list[Item], surroundings: Surroundings) -> Columns:
    """A row without a name, for parameters without grants."""
    letters = frozenset(
        privileges.DEFAULTS["parameter"][0] if surroundings.user and surroundings.user.superuser else ""
    )
    return _held_rows([(0, 0, "parameter ", _held_test(letters, letters))])


@content(internal.HELD, "session", objects_of(Routine))
def _held_on_routines(items: list[Item], surroundings: Surroundings) -> Columns:
    catalog, user = surroundings.catalog, surroundings.user
    found: list[Routine] = [item for (item,) in items] if user is not None else []
    assert user is not None or not found
    held = [_held_test(*privileges.get_privileges(catalog, item, user)) for item in found] if user is not None else []
    return _held_rows([(item.oid, 0, None, words) for item, words in zip(found, held, strict=True)])


@content(internal.HELD, "session", objects_of(ForeignServer))
def _held_on_servers(items: list[Item], surroundings: Surroundings) -> Columns:
    return _held_on_named(items, surroundings, "server")


@content(internal.HELD, "session", objects_of(ForeignWrapper))
def _held_on_wrappers(items: list[Item], surroundings: Surroundings) -> Columns:
    return _held_on_named(items, surroundings, "wrapper")


def _held_on_named(items: list[Item], surroundings: Surroundings, kind: str) -> Columns:
    catalog, user = surroundings.catalog, surroundings.user
    rows: list[tuple[int, int, str | None, str]] = []
    for (item,) in items if user is not None else ():
        assert user is not None
        held = _held_test(*privileges.get_privileges(catalog, item, user))
        if item.name in ("pg_catalog", "information_schema"):
            held += "U,"
        rows.append((item.oid, 0, f"{kind} {item.name}", held))
    return _held_rows(rows)


def _held_rows(rows: list[tuple[int, int, str | None, str]]) -> Columns:
    return {name: [row[place] for row in rows] for place, name in enumerate(("oid", "number", "name", "held"))}


def _input_columns(items: list[Item], surroundings: Surroundings) -> Columns:
    catalog, path = surroundings.catalog, surroundings.path
    names: list[tuple[str, int]] = []
    for item, *_ in items:
        names.append((qualified_name(catalog, item), item.oid))
        if is_visible(catalog, path, item):
            names.append((quote_identifier(item.name), item.oid))
    return {"name": [name for name, _ in names], "oid": [oid for _, oid in names]}


@content(internal.RELATION_INPUT, "session", objects_of(Table, View, Index, Sequence))
def _relation_input(items: list[Item], surroundings: Surroundings) -> Columns:
    return _input_columns(items, surroundings)


@content(internal.RELATION_INPUT, "session", lambda _: [(item,) for item in system_relations().values()])
def _system_input(items: list[Item], surroundings: Surroundings) -> Columns:
    return _input_columns(items, surroundings)


@content(internal.OWNED_SEQUENCES, "session", sequences)
def _owned_sequences(items: list[Item], surroundings: Surroundings) -> Columns:
    found = []
    for (sequence,) in items:
        if sequence.owned_by is not None:
            table_oid, number = sequence.owned_by
            table = surroundings.catalog.objects.get(table_oid)
            if isinstance(table, Table):
                name = table.column_by_number(number).name
                found.append((table.oid, name, qualified_name(surroundings.catalog, sequence)))
    return {
        "relation": [row[0] for row in found],
        "name": [row[1] for row in found],
        "shown": [row[2] for row in found],
    }


@content(internal.ROW_SECURITY, "session", tables)
def _row_security(items: list[Item], surroundings: Surroundings) -> Columns:
    """Whether policies restrict the user, for the tables where they can."""
    found: list[Table] = [table for (table,) in items if table.row_security]
    catalog, user = surroundings.catalog, surroundings.user
    return {
        "oid": [table.oid for table in found],
        "active": [is_restricted_user(catalog, table, user) for table in found],
    }


# ---- definitions ----------------------------------------------------------------------------------------------------


@content(internal.CONSTRAINT_TEXTS, "session", constraint_items)
def _constraints(items: list[Item], surroundings: Surroundings) -> Columns:
    found = all_constraints(items)
    return {
        "oid": [constraint.oid for _, constraint in found],
        "plain": [constraint_definition(surroundings, table, constraint, False) for table, constraint in found],
        "pretty": [constraint_definition(surroundings, table, constraint, True) for table, constraint in found],
    }


@content(internal.INDEX_TEXTS, "session", indexes)
def _indexes(items: list[Item], surroundings: Surroundings) -> Columns:
    """Definitions of indexes. Number 0 is the whole definition, others are columns."""
    found: list[tuple[int, int, str | None, str | None]] = []
    for index, table in items:
        plain = index_definition(surroundings, index, table, False)
        found.append((index.oid, 0, plain, index_definition(surroundings, index, table, True)))
        for number in range(1, len(index_columns(surroundings, index, table)) + 1):
            texts = [index_column_definition(surroundings, index, table, number, pretty) for pretty in (False, True)]
            found.append((index.oid, number, *texts))
    return {name: [row[i] for row in found] for i, name in enumerate(("oid", "number", "plain", "pretty"))}


@content(internal.VIEW_TEXTS, "session", views)
def _views(items: list[Item], surroundings: Surroundings) -> Columns:
    return {
        "oid": [view.oid for (view,) in items],
        "plain": [surroundings.view(view, False) for (view,) in items],
        "pretty": [surroundings.view(view, True) for (view,) in items],
    }


@content(internal.VIEW_TEXTS, "session", objects_of(Table))
def _materialized_views(items: list[Item], surroundings: Surroundings) -> Columns:
    return _views([item for item in items if item[0].query is not None], surroundings)


@content(internal.VIEW_TEXTS, "fixed")
def _system_views(_: list[Item], __: Surroundings) -> Columns:
    found = [(int(row[0] or 0), row[1]) for row in read_fields("pg_views")]
    texts = [text for _, text in found]
    return {"oid": [oid for oid, _ in found], "plain": texts, "pretty": texts}


def _over_views(catalog: Catalog, view: View) -> Item:
    """Returns (view, the views on which it depends), because its possible changes depend on them."""
    return view, tuple(item for oid in view.depends_on if isinstance(item := catalog.get(oid), View))


@content(internal.UPDATABLE, "catalog", Items((View,), _over_views))
def _updatable(items: list[Item], surroundings: Surroundings) -> Columns:
    """Possible changes of views. Number 0 is the view, others are its columns."""
    found: list[tuple[int, int, int]] = []
    for view, _ in items:
        events, columns = surroundings.updatable(view)
        found.append((view.oid, 0, events))
        found += [(view.oid, number, of_column) for number, of_column in columns.items()]
    return {name: [row[i] for row in found] for i, name in enumerate(("oid", "number", "events"))}


# ---- types, functions, operators ------------------------------------------------------------------------------------


@content(internal.TYPE_NAMES, "session", tables_and_views)
def _types(items: list[Item], surroundings: Surroundings) -> Columns:
    catalog, path = surroundings.catalog, surroundings.path
    found = [number(item.oid) for (item,) in items for number in (derived_oids.row_type, derived_oids.row_array_type)]
    return {
        "oid": found,
        "shown": [type_name(catalog, path, oid) for oid in found],
        "visible": [is_visible(catalog, path, item) for (item,) in items for _ in range(2)],
    }


@content(internal.TYPE_INPUT, "session", tables_and_views)
def _type_input(items: list[Item], surroundings: Surroundings) -> Columns:
    names = _input_columns(items, surroundings)
    named, found = names["name"], names["oid"]
    assert isinstance(named, list) and isinstance(found, list)
    return {
        "name": named + [f"{name}[]" for name in named],
        "oid": [derived_oids.row_type(oid) for oid in found] + [derived_oids.row_array_type(oid) for oid in found],
    }


@content(internal.TYPE_INPUT, "fixed")
def _builtin_type_input(_: list[Item], __: Surroundings) -> Columns:
    names: dict[str, int] = {}
    for row in types.pg_type_rows:
        for name in (row.name, types.format_type(row.oid)):
            names.setdefault(canonical_name(name), row.oid)
            names.setdefault(canonical_name(f"pg_catalog.{name}"), row.oid)
    others = {"char": oids.BPCHAR, "int": oids.INT4, "decimal": oids.NUMERIC, "float": oids.FLOAT8}
    for name, oid in others.items():
        names[canonical_name(name)] = oid
        names[canonical_name(f"{name}[]")] = types.lookup(oid).array_oid
    return {"name": list(names), "oid": list(names.values())}


@content(internal.FUNCTION_NAMES, "fixed")
def function_names(_: list[Item], __: Surroundings | None) -> Columns:
    """Returns the names of built-in functions as regproc and regprocedure, and the parts of their declarations."""
    return function_name_columns(list(read_fields("pg_proc")), "pg_catalog.")


def function_name_columns(lines: abc.Sequence[list[str | None]], prefix: str) -> Columns:
    """Returns the same for these lines of pg_proc. `prefix`: the schema prefix of names that several functions have."""
    counts: dict[str | None, int] = {}
    for line in lines:
        counts[line[1]] = counts.get(line[1], 0) + 1
    shown = [quote_identifier(line[1] or "") for line in lines]
    inputs = [", ".join(types.format_type(int(oid)) for oid in (line[11] or "").split()) for line in lines]
    return {
        "oid": [int(line[0] or 0) for line in lines],
        "shown": [n if counts[line[1]] == 1 else prefix + n for n, line in zip(shown, lines, strict=True)],
        "signature": [f"{n}({i.replace(', ', ',')})" for n, i in zip(shown, inputs, strict=True)],
        "arguments": [_arguments(line, True) for line in lines],
        "identity": [_arguments(line, False) for line in lines],
        "result": [_result(line) for line in lines],
        "visible": True,
    }


@content(internal.ARGUMENT_DEFAULTS, "fixed")
def _argument_defaults(_: list[Item], __: Surroundings) -> Columns:
    found: list[tuple[int, int, str]] = []
    for line in read_fields("pg_proc"):
        if line[17] is not None:
            defaults = registry.function(int(line[0] or 0)).defaults
            places = [place for place, mode in enumerate(line[13] or "i" * int(line[7] or 0), 1) if mode in "ibv"]
            last = zip(places[len(places) - len(defaults) :], defaults, strict=True)
            found += [(int(line[0] or 0), place, text) for place, text in last]
    return {name: [row[place] for row in found] for place, name in enumerate(("oid", "number", "text"))}


_MODES = {"i": "", "o": "OUT ", "b": "INOUT ", "v": "VARIADIC ", "t": ""}


def _arguments(line: list[str | None], with_defaults: bool) -> str:
    """pg_get_function_arguments: 'a integer, VARIADIC b text[], c text DEFAULT NULL::text'."""
    types_ = [int(oid) for oid in (line[12] or line[11] or "").split()]
    modes = line[13] or "i" * len(types_)
    names = line[14].split(",") if line[14] is not None else [""] * len(types_)
    declared = registry.function(int(line[0] or 0))
    defaults = declared.defaults if with_defaults else ()
    first_default = len(declared.argument_types) - len(defaults)
    parts = []
    inputs = 0
    for oid, mode, name in zip(types_, modes, names, strict=True):
        if mode == "t":
            continue
        text = _MODES[mode] + (f"{quote_identifier(name)} " if name else "") + types.format_type(oid)
        if mode != "o":
            if inputs >= first_default:
                text += f" DEFAULT {defaults[inputs - first_default]}"
            inputs += 1
        parts.append(text)
    if line[3] == "a" and (aggregate := registry.aggregate(declared.oid)).kind != "n":
        direct = aggregate.direct_arguments
        return f"{', '.join(parts[:direct])} ORDER BY {', '.join(parts[direct:] or parts[-1:])}".strip()
    return ", ".join(parts)


def _result(line: list[str | None]) -> str | None:
    """pg_get_function_result: 'SETOF integer', 'TABLE(...)'; NULL for a procedure."""
    if line[3] == "p":
        return None
    modes, names = line[13] or "", (line[14] or "").split(",")
    if "t" in modes:
        every = [int(oid) for oid in (line[12] or "").split()]
        columns = [
            f"{quote_identifier(name)} {types.format_type(oid)}"
            for oid, mode, name in zip(every, modes, names, strict=True)
            if mode == "t"
        ]
        return f"TABLE({', '.join(columns)})"
    return ("SETOF " if line[5] == "t" else "") + types.format_type(int(line[10] or 0))


@content(internal.OPERATOR_NAMES, "fixed")
def operator_names(_: list[Item], __: Surroundings | None) -> Columns:
    """Returns the names of built-in operators as regoper and regoperator."""
    return operator_name_columns(registry.operator_oids(), "pg_catalog.")


def operator_name_columns(operators: abc.Iterable[int], prefix: str) -> Columns:
    """Returns the same for the operators with these OIDs; `prefix` as for functions."""
    found = [registry.operator(oid) for oid in operators]
    counts: dict[str, int] = {}
    for operator in found:
        counts[operator.name] = counts.get(operator.name, 0) + 1
    return {
        "oid": [operator.oid for operator in found],
        "shown": [o.name if counts[o.name] == 1 else prefix + o.name for o in found],
        "signature": [
            f"{o.name}({types.format_type(o.left) if o.left else 'NONE'},{types.format_type(o.right)})" for o in found
        ],
    }


# ---- schemas and roles ----------------------------------------------------------------------------------------------


@content(internal.SCHEMA_NAMES, "session", schemas)
def _schemas(items: list[Item], surroundings: Surroundings) -> Columns:
    found = [schema for (schema,) in items]
    return {
        "oid": [schema.oid for schema in found],
        "name": [schema.name for schema in found],
        "shown": [quote_identifier(schema.name) for schema in found],
        "owned": [_is_owned(surroundings, schema.owner) for schema in found],
        "other_temporary": [
            schema.name.startswith("pg_temp_") and schema.name != surroundings.temporary_schema for schema in found
        ],
    }


@content(internal.ROLE_NAMES, "session", roles)
def _roles(items: list[Item], surroundings: Surroundings) -> Columns:
    catalog, user = surroundings.catalog, surroundings.user
    found: list[Role] = [role for (role,) in items]
    return {
        "oid": [role.oid for role in found],
        "name": [role.name for role in found],
        "shown": [quote_identifier(role.name) for role in found],
        "held": [_is_owned(surroundings, role.oid) for role in found],
        "member": [user is not None and privileges.is_member(catalog, user, role.oid) for role in found],
        "admin": [user is not None and privileges.administers(catalog, user, role.oid) for role in found],
    }


@content(internal.SEQUENCE_VALUES, "live")
def _sequence_values(_: list[Item], surroundings: Surroundings) -> Columns:
    found = surroundings.live.sequence_values()
    catalog, user = surroundings.catalog, surroundings.user

    def denial(oid: int) -> str | None:
        """Returns the name of a sequence that the user may not read; None for others."""
        item = catalog.get(oid)
        if (
            not isinstance(item, Sequence)
            or user is None
            or user.superuser
            or privileges.may(catalog, item, user, "rU")
        ):
            return None
        return item.name

    return {
        "oid": [oid for oid, _ in found],
        "last": [value for _, value in found],
        "denied": [denial(oid) for oid, _ in found],
    }


@content(internal.RELATION_SIZES, "live")
def _relation_sizes(_: list[Item], surroundings: Surroundings) -> Columns:
    found = surroundings.live.relation_sizes()
    return {
        "oid": [oid for oid, _, _ in found],
        "own": [own for _, own, _ in found],
        "indexes": [indexes for _, _, indexes in found],
        "total": [None if own is None else own + indexes for _, own, indexes in found],
    }


def _sizes(found: abc.Sequence[tuple[int, str, int | None]]) -> Columns:
    return {"oid": [row[0] for row in found], "name": [row[1] for row in found], "size": [row[2] for row in found]}


@content(internal.DATABASE_SIZES, "live")
def _database_sizes(_: list[Item], surroundings: Surroundings) -> Columns:
    return _sizes(surroundings.live.database_sizes())


@content(internal.TABLESPACE_SIZES, "live")
def _tablespace_sizes(_: list[Item], surroundings: Surroundings) -> Columns:
    return _sizes(surroundings.live.tablespace_sizes())


@content(internal.TABLE_COUNTS, "live")
def _table_counts(_: list[Item], surroundings: Surroundings) -> Columns:
    found = surroundings.live.table_counts()
    names = ("oid", "inserted", "updated", "deleted", "live")
    return {name: [row[place] for row in found] for place, name in enumerate(names)}


@content(internal.FUNCTION_COUNTS, "live")
def _function_counts(_: list[Item], surroundings: Surroundings) -> Columns:
    found = surroundings.live.function_counts()
    names = ("oid", "calls", "total", "own", "xact_calls", "xact_total", "xact_own")
    return {name: [row[place] for row in found] for place, name in enumerate(names)}
