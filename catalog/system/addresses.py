"""pg_get_object_address, the inverse of pg_identify_object_as_address: finds an object by its kind and names
(objectaddress.c: pg_get_object_address, get_object_address).

Names are resolved by the search path, as in statements; then the object is found by the identity that these names form
(catalog/system/identities.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, Protocol, cast

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.functions.base import CallContext
from catalog.functions.registry import implements
from catalog.functions.system_lookups import find
from catalog.identifiers import quote_identifier
from catalog.schema import Composite, Index, Relation, Table, View, VirtualTable
from catalog.schema import Sequence as SequenceObject
from catalog.system import derived_oids
from catalog.system import relations as internal
from catalog.system.content import system_table
from catalog.system.identities import LARGE_OBJECTS, built_in_identities, type_identity
from catalog.types import format_type, type_row
from catalog.types.base import Array, TypeRef
from catalog.types.user import FIRST_ADDED_OID

Address = tuple[int, int, int]
Names = list[str]

_UNSUPPORTED = frozenset((
    "toast table", "index column", "sequence column", "toast table column", "view column", "materialized view column",
    "composite type", "composite type column",
))  # fmt: skip
_RELATIONS = {
    "table": "a table", "index": "an index", "sequence": "a sequence", "view": "a view",
    "materialized view": "a materialized view", "foreign table": "a foreign table",
}  # fmt: skip
_BY_ONE_NAME = {
    "access method": (2601, "42704"), "database": (1262, "3D000"), "extension": (3079, "42704"),
    "tablespace": (1213, "42704"), "role": (1260, "42704"), "schema": (2615, "3F000"), "language": (2612, "42704"),
    "parameter ACL": (6243, "42704"), "foreign-data wrapper": (2328, "42704"), "server": (1417, "42704"),
    "event trigger": (3466, "42704"), "publication": (6104, "42704"), "subscription": (6100, "42704"),
}  # fmt: skip
_BY_NAME = {  # kinds of objects within schemas: catalog, and the error message for a missing object
    "collation": (3456, 'collation "{0}" for encoding "UTF8" does not exist'),
    "conversion": (2607, 'conversion "{0}" does not exist'),
    "text search parser": (3601, 'text search parser "{0}" does not exist'),
    "text search dictionary": (3600, 'text search dictionary "{0}" does not exist'),
    "text search template": (3764, 'text search template "{0}" does not exist'),
    "text search configuration": (3602, 'text search configuration "{0}" does not exist'),
    "statistics object": (3381, 'statistics object "{0}" does not exist'),
}  # fmt: skip
_CODE = {
    "function": ("function", "aggregate"), "aggregate": ("aggregate",), "procedure": ("procedure",),
}  # fmt: skip
_ANY_CODE = ("function", "aggregate", "procedure")
_ON_RELATIONS = {"table constraint": (2606, "constraint", "table"), "rule": (2618, "rule", "relation"),
                 "trigger": (2620, "trigger", "table"), "policy": (3256, "policy", "table")}  # fmt: skip
_WITHIN_METHODS = {"operator class": 2616, "operator family": 2753}
_OF_FAMILIES = {"operator of access method": (2602, "operator"), "function of access method": (2603, "function")}
_TAKE_TYPES = {*_CODE, "operator", "cast", *_OF_FAMILIES}
_NAMED_BY_TYPE = {"type", "cast", "transform", "domain constraint"}
_NOWHERE = {"publication relation", "publication namespace", "user mapping", "transform"}


class _Environment(Protocol):
    catalog: Catalog

    @property
    def path_oids(self) -> Sequence[int]: ...
    def schema_oid(self, name: str) -> int: ...
    def find_relation(self, schema: str | None, name: str) -> Relation | VirtualTable | None: ...


class _Session(Protocol):
    database_name: str

    @property
    def environment(self) -> _Environment: ...
    def type_named(self, text: str) -> TypeRef:
        """Returns the type that a text names. Raises 42704, 42601."""


def _fail(code: str, message: str) -> NoReturn:
    raise SqlError(code, message)


class _Finder:
    """One call."""

    def __init__(self, call: CallContext, kind: str) -> None:
        self.call = call
        self.kind = kind
        self.session = cast(_Session, call.session)
        self.environment = self.session.environment
        self.catalog = self.environment.catalog

    # ---- objects found so far ----

    def find_identified(self, kind: int, words: Sequence[str], identity: str) -> Address | None:
        """Returns the object of a catalog with this identity and one of these types (`words`), or None."""
        built_in = built_in_identities(kind)
        for word in words:
            if (oid := built_in.get((word, identity))) is not None:
                return kind, oid, 0
        for row in find(self.call, internal.IDENTITIES, "identity", identity):
            if row[0] == kind and row[3] in words:
                return kind, row[1], row[2]
        return None

    def schemas(self, names: Names) -> Iterator[tuple[str, str]]:
        """Yields (schema, name) for each schema that may have the name. Raises 3F000, 42601, 0A000."""
        if len(names) > 3:
            _fail("42601", f"improper qualified name (too many dotted names): {'.'.join(names)}")
        if len(names) == 3 and names[0] != self.session.database_name:
            _fail("0A000", f"cross-database references are not implemented: {'.'.join(names)}")
        if len(names) > 1:
            if not self.environment.schema_oid(names[-2]):
                _fail("3F000", f'schema "{names[-2]}" does not exist')
            yield names[-2], names[-1]
            return
        for oid in self.environment.path_oids:
            yield self.catalog.schema_name(oid), names[-1]

    def within(self, kind: int, words: Sequence[str], names: Names, rest: str = "") -> Address | None:
        """Returns the first object in the search path whose identity is its name and `rest`; None if there is none."""
        for schema, name in self.schemas(names):
            shown = name if kind == derived_oids.PG_OPERATOR else quote_identifier(name)
            found = self.find_identified(kind, words, f"{quote_identifier(schema)}.{shown}{rest}")
            if found is not None:
                return found
        return None

    def type_identity(self, text: str) -> tuple[int, str]:
        """Returns OID and identity of a type. Raises 42704."""
        try:
            oid = self.session.type_named(text).declared
        except SqlError as error:  # row types of tables have no codecs here, but an identity
            found = self.find_identified(derived_oids.PG_TYPE, ("type",), text) if error.sqlstate == "0A000" else None
            if found is None:
                raise
            oid = found[1]
        return oid, type_identity(self.catalog, oid)

    # ---- relations and their parts ----

    def relation(self, names: Names) -> Relation | VirtualTable:
        if len(names) > 3:
            _fail("42601", f"improper relation name (too many dotted names): {'.'.join(names)}")
        if len(names) == 3 and names[0] != self.session.database_name:
            _fail("0A000", f'cross-database references are not implemented: "{".".join(names)}"')
        schema = names[-2] if len(names) > 1 else None
        if schema is not None and not self.environment.schema_oid(schema):
            _fail("3F000", f'schema "{schema}" does not exist')
        found = self.environment.find_relation(schema, names[-1])
        if found is None:
            _fail("42P01", f'relation "{".".join(names)}" does not exist')
        return found

    def of_kind(self, names: Names) -> Address:
        found = self.relation(names)
        if _kind_of(found) != self.kind:
            _fail("42809", f'"{found.name}" is not {_RELATIONS[self.kind]}')
        return derived_oids.PG_CLASS, found.oid, 0

    def column(self, names: Names) -> tuple[Relation | VirtualTable, int]:
        if len(names) < 2:
            _fail("42601", "column name must be qualified")
        relation = self.relation(names[:-1])
        columns = getattr(relation, "columns", ()) if not isinstance(relation, Index) else ()
        for column in columns:
            if column.name == names[-1]:
                return relation, column.number
        _fail("42703", f'column "{names[-1]}" of relation "{".".join(names[:-1])}" does not exist')

    def default(self, names: Names) -> Address:
        relation, number = self.column(names)
        if isinstance(relation, Table | View):
            column = next(item for item in relation.columns if item.number == number)
            if column.default is not None or column.generated is not None:
                return derived_oids.PG_ATTRDEF, derived_oids.default_number(relation.oid, number), 0
        shown = f'default value for column "{names[-1]}" of relation "{".".join(names[:-1])}"'
        _fail("42703", f"{shown} does not exist")

    def on_relation(self, names: Names) -> Address:
        kind, word, owner = _ON_RELATIONS[self.kind]
        if len(names) < 2:
            _fail("42601", "must specify relation and object name")
        relation = self.relation(names[:-1])
        schema = self.catalog.schema_name(relation.schema)
        place = f"{quote_identifier(schema)}.{quote_identifier(relation.name)}"
        found = self.find_identified(kind, (self.kind,), f"{quote_identifier(names[-1])} on {place}")
        return found or _fail("42704", f'{word} "{names[-1]}" for {owner} "{relation.name}" does not exist')

    # ---- types, code, operators ----

    def type(self, names: Names) -> Address:
        return derived_oids.PG_TYPE, self.type_identity(names[0])[0], 0

    def domain_constraint(self, names: Names, arguments: Names) -> Address:
        oid, shown = self.type_identity(names[0])
        found = self.find_identified(2606, (self.kind,), f"{quote_identifier(arguments[0])} on {shown}")
        if found is None:
            _fail("42704", f'constraint "{arguments[0]}" for domain {format_type(oid)} does not exist')
        return found

    def code(self, names: Names, types: list[tuple[int, str]]) -> Address:
        rest = f"({','.join(shown for _, shown in types)})"
        found = self.within(derived_oids.PG_PROC, _CODE[self.kind], names, rest)
        if found is not None:
            return found
        shown = f"{'.'.join(names)}({', '.join(format_type(oid) for oid, _ in types)})"
        other = self.within(derived_oids.PG_PROC, _ANY_CODE, names, rest)
        if other is None:
            word = self.kind if self.kind in ("aggregate", "procedure") else "function"
            _fail("42883", f"{word} {shown} does not exist")
        if self.kind == "aggregate":
            _fail("42809", f"function {shown} is not an aggregate")
        _fail("42809", f"{shown} is not a {self.kind}")

    def operator(self, names: Names, types: list[tuple[int, str]]) -> Address:
        rest = f"({','.join(shown for _, shown in types)})"
        found = self.within(derived_oids.PG_OPERATOR, ("operator",), names, rest)
        left, right = (format_type(oid) for oid, _ in types)
        return found or _fail("42883", f"operator does not exist: {left} {'.'.join(names)} {right}")

    def cast(self, names: Names, types: list[tuple[int, str]]) -> Address:
        source, shown = self.type_identity(names[0])
        found = self.find_identified(derived_oids.PG_CAST, ("cast",), f"({shown} AS {types[0][1]})")
        message = f"cast from type {format_type(source)} to type {format_type(types[0][0])} does not exist"
        return found or _fail("42704", message)

    # ---- access methods ----

    def method(self, name: str) -> None:
        if self.find_identified(2601, ("access method",), quote_identifier(name)) is None:
            _fail("42704", f'access method "{name}" does not exist')

    def in_method(self, names: Names) -> Address:
        self.method(names[0])
        rest = f" USING {quote_identifier(names[0])}"
        found = self.within(_WITHIN_METHODS[self.kind], (self.kind,), names[1:], rest)
        shown = f'{self.kind} "{".".join(names[1:])}" does not exist for access method "{names[0]}"'
        return found or _fail("42704", shown)

    def in_family(self, names: Names, types: list[tuple[int, str]], texts: Names) -> Address:
        kind, word = _OF_FAMILIES[self.kind]
        self.method(names[0])
        sides = ", ".join(shown for _, shown in types)
        number = int(names[-1])
        for schema, name in self.schemas(names[1:-1]):
            place = f"{quote_identifier(schema)}.{quote_identifier(name)} USING {quote_identifier(names[0])}"
            if (found := self.find_identified(kind, (self.kind,), f"{word} {number} ({sides}) of {place}")) is not None:
                return found
            if self.find_identified(2753, ("operator family",), place) is not None:
                family = f"operator family {name} for access method {names[0]}"
                written = ", ".join(_as_written(text, oid) for text, (oid, _) in zip(texts, types, strict=True))
                _fail("42704", f"{word} {number} ({written}) of {family} does not exist")
        message = f'operator family "{".".join(names[1:-1])}" does not exist for access method "{names[0]}"'
        _fail("42704", message)

    # ---- the rest ----

    def by_one_name(self, names: Names) -> Address:
        if len(names) != 1:
            _fail("22023", "name list length must be exactly 1")
        kind, code = _BY_ONE_NAME[self.kind]
        found = self.find_identified(kind, (self.kind,), quote_identifier(names[0]))
        return found or _fail(code, f'{self.kind} "{names[0]}" does not exist')

    def default_acl(self, names: Names, arguments: Names) -> Address:
        words = {"r": "tables", "S": "sequences", "f": "functions", "T": "types", "n": "schemas"}
        letter = arguments[0][:1]
        if letter not in words:
            hint = 'Valid object types are "r", "S", "f", "T", "n".'
            raise SqlError("22023", f'unrecognized default ACL object type "{letter}"', hint=hint)
        place = f" in schema {quote_identifier(names[1])}" if len(names) > 1 else ""
        shown = f"for role {quote_identifier(names[0])}{place} on {words[letter]}"
        found = self.find_identified(826, ("default acl",), shown)
        if found is not None:
            return found
        if len(names) > 1:
            message = f'default ACL for user "{names[0]}" in schema "{names[1]}" on {words[letter]} does not exist'
        else:
            message = f'default ACL for user "{names[0]}" on {words[letter]} does not exist'
        _fail("42704", message)

    def large_object(self, names: Names) -> Address:
        oid = int(names[0])
        if not list(find(self.call, system_table("pg_largeobject_metadata"), "oid", oid)):
            _fail("42704", f"large object {oid} does not exist")
        return LARGE_OBJECTS, oid, 0


def _as_written(text: str, oid: int) -> str:
    """Returns a type's name as PostgreSQL's parser does, which converts SQL's words for a type to a name in
    pg_catalog."""
    row = type_row(oid)
    return text if row is None or row.name == text or oid >= FIRST_ADDED_OID else f"pg_catalog.{row.name}"


def _kind_of(found: object) -> str:
    if isinstance(found, VirtualTable):
        return "view" if found.kind == "v" else "table"
    if isinstance(found, Table):
        return "materialized view" if found.query is not None else "table"
    kinds: dict[type, str] = {View: "view", Index: "index", SequenceObject: "sequence", Composite: "composite type"}
    return next((word for kind, word in kinds.items() if isinstance(found, kind)), "")


def _texts(values: Array) -> Names:
    if None in values.elements:
        _fail("22023", "name or argument lists may not contain nulls")
    return [str(item) for item in values.elements]


def _check_lengths(kind: str, names: Names, arguments: Names) -> None:
    """Raises 22023 for too few or too many names or arguments."""
    if kind in ("domain constraint", "cast", "publication relation", "default acl", "transform", "user mapping"):
        if len(arguments) != 1:
            _fail("22023", "argument list length must be exactly 1")
    elif kind in _WITHIN_METHODS:
        if len(names) < 2:
            _fail("22023", "name list length must be at least 2")
    elif kind in _OF_FAMILIES and len(names) < 3:
        _fail("22023", "name list length must be at least 3")
    if (kind in _OF_FAMILIES or kind == "operator") and len(arguments) != 2:
        _fail("22023", "argument list length must be exactly 2")


def _handlers(finder: _Finder) -> Iterable[tuple[Iterable[str], Callable[..., Address]]]:
    return (
        (_RELATIONS, finder.of_kind),
        (_ON_RELATIONS, finder.on_relation),
        (("default value",), finder.default),
        (("type",), finder.type),
        (_WITHIN_METHODS, finder.in_method),
        (_BY_ONE_NAME, finder.by_one_name),
        (("large object",), finder.large_object),
    )


def _address(finder: _Finder, names: Names, arguments: Names) -> Address:
    kind = finder.kind
    for kinds, find_it in _handlers(finder):
        if kind in kinds:
            return find_it(names)
    if kind == "table column" or kind == "foreign table column":
        relation, number = finder.column(names)
        return derived_oids.PG_CLASS, relation.oid, number
    if kind == "domain constraint":
        return finder.domain_constraint(names, arguments)
    if kind == "default acl":
        return finder.default_acl(names, arguments)
    if kind in _BY_NAME:
        number, message = _BY_NAME[kind]
        return finder.within(number, (kind,), names) or _fail("42704", message.format(".".join(names)))
    types = [finder.type_identity(text) for text in arguments]
    if kind in _CODE:
        return finder.code(names, types)
    if kind == "operator":
        return finder.operator(names, types)
    return finder.cast(names, types) if kind == "cast" else finder.in_family(names, types, arguments)


_KINDS = {
    *_RELATIONS, *_ON_RELATIONS, *_WITHIN_METHODS, *_BY_ONE_NAME, *_BY_NAME, *_CODE, *_OF_FAMILIES, *_NAMED_BY_TYPE,
    "default value", "large object", "table column", "foreign table column", "default acl", "operator",
} - _NOWHERE  # fmt: skip


@implements("pg_get_object_address", needs_session=True)
def _get_address(call: CallContext, kind: str | None, names: Array | None, arguments: Array | None) -> list[Any]:
    if kind is None or names is None or arguments is None:
        return [(None,) * 3]
    if kind in _UNSUPPORTED:
        _fail("22023", f'unsupported object type "{kind}"')
    if kind in _NOWHERE:
        raise SqlError("0A000", f"pg_get_object_address of a {kind} is not supported")
    if kind not in _KINDS:
        _fail("22023", f'unrecognized object type "{kind}"')
    if kind in _NAMED_BY_TYPE or kind == "large object":
        if len(names.elements) != 1:
            _fail("22023", "name list length must be exactly 1")
        if None in names.elements and kind == "large object":
            _fail("22023", "large object OID may not be null")
    given = _texts(names)
    if not given:
        _fail("22023", "name list length must be at least 1")
    wanted = _texts(arguments)
    finder = _Finder(call, kind)
    if kind in _TAKE_TYPES:  # missing types are reported before other errors
        for text in wanted:
            finder.type_identity(text)
    _check_lengths(kind, given, wanted)
    return [_address(finder, given, wanted)]
