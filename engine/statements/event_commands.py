"""The parts of a command that pg_event_trigger_ddl_commands() lists, found by what a statement has written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from catalog.catalog import Catalog
from catalog.schema import (
    USER_TYPES,
    Collation,
    Composite,
    Domain,
    Extension,
    ForeignServer,
    ForeignWrapper,
    Index,
    Routine,
    Schema,
    SchemaObject,
    StatisticsObject,
    Table,
    UserCast,
    UserMapping,
    UserOperator,
    UserRange,
    View,
)
from catalog.schema import Sequence as SequenceObject
from catalog.system import derived_oids
from catalog.text_search.objects import TEXT_SEARCH, TextSearchConfiguration, TextSearchDictionary
from engine.session.ddl_events import Command
from engine.sql import ast
from engine.sql.analyze import Environment

T = TypeVar("T")

RELATIONS = (Table, View, Index, SequenceObject)
_CATALOGS: dict[type[SchemaObject], int] = {
    Routine: derived_oids.PG_PROC, UserOperator: derived_oids.PG_OPERATOR, UserCast: derived_oids.PG_CAST,
    Collation: derived_oids.PG_COLLATION, Extension: derived_oids.PG_EXTENSION, Schema: derived_oids.PG_NAMESPACE,
    StatisticsObject: derived_oids.PG_STATISTIC_EXT, ForeignServer: derived_oids.PG_FOREIGN_SERVER,
    TextSearchConfiguration: derived_oids.PG_TS_CONFIG, TextSearchDictionary: derived_oids.PG_TS_DICT,
    ForeignWrapper: derived_oids.PG_FOREIGN_DATA_WRAPPER, UserMapping: derived_oids.PG_USER_MAPPING,
    **dict.fromkeys(RELATIONS, derived_oids.PG_CLASS), **dict.fromkeys(USER_TYPES, derived_oids.PG_TYPE),
}  # fmt: skip
_PARTS = {
    "trigger": (derived_oids.PG_TRIGGER, "triggers"),
    "rule": (derived_oids.PG_REWRITE, "rules"),
    "policy": (derived_oids.PG_POLICY, "policies"),
    "constraint": (derived_oids.PG_CONSTRAINT, "constraints"),
    "domain constraint": (derived_oids.PG_CONSTRAINT, "checks"),
}
"""The parts of relations and domains that have addresses of their own: the catalog, and the attribute with them."""
_COMMENTED: dict[str, tuple[type[SchemaObject], ...]] = {
    **dict.fromkeys(("table", "view", "matview", "index", "sequence", "column"), RELATIONS),
    **dict.fromkeys(("trigger", "policy", "rule", "constraint"), (Table, View)),
    "schema": (Schema,), "extension": (Extension,), "collation": (Collation,), "type": USER_TYPES, "domain": USER_TYPES,
    "domain constraint": (Domain,), "statistics": (StatisticsObject,), "foreign table": RELATIONS,
    "server": (ForeignServer,), "foreign data wrapper": (ForeignWrapper,), "materialized view": RELATIONS,
    **dict.fromkeys(("text search configuration", "text search dictionary"), TEXT_SEARCH),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """What a statement has done: the catalogs before and after it (that of `environment`), and the OIDs of the objects
    that it has written."""

    before: Catalog
    environment: Environment
    touched: Sequence[int]

    @property
    def after(self) -> Catalog:
        return self.environment.catalog

    def relation(self, named: ast.RangeVar) -> Any:
        found = self.environment.find_relation(named.schema, named.name)
        return found if isinstance(found, RELATIONS) else None

    def of(self, *kinds: type[Any]) -> list[Any]:
        """The written objects of these classes that exist, in the order of their OIDs."""
        found = (self.after.objects.get(oid) for oid in sorted(self.touched))
        return [item for item in found if isinstance(item, kinds)]

    def new(self, *kinds: type[Any]) -> list[Any]:
        return [item for item in self.of(*kinds) if item.oid not in self.before.objects]

    def one(self, name: str | None, *kinds: type[Any]) -> Any:
        """The object that the statement is about: with this name if several were written. None if there is none."""
        found = self.of(*kinds)
        return next((item for item in found if item.name == name), found[0] if found else None)


def _about(tag: str, item: SchemaObject | None, number: int = 0) -> Iterator[Command]:
    if item is not None:
        yield Command(tag, _CATALOGS[type(item)], item.oid, number)


def _part(tag: str, word: str, item: Any, name: str) -> Iterator[Command]:
    """A trigger, policy or constraint."""
    kind, attribute = _PARTS[word]
    for part in getattr(item, attribute, ()) if item is not None else ():
        if part.name == name:
            yield Command(tag, kind, part.oid)


def _column(tag: str, item: Any, name: str) -> Iterator[Command]:
    for column in item.columns if item is not None else ():
        if column.name == name:
            yield from _about(tag, item, column.number)


def _with_sequences(change: Change, commands: Iterator[Command]) -> Iterator[Command]:
    """A table's command between those of the sequences of its new serial and identity columns."""
    sequences = [item for item in change.new(SequenceObject) if item.owned_by is not None]
    for item in sequences:
        yield from _about("CREATE SEQUENCE", item)
    yield from commands
    for item in sequences:
        yield from _about("ALTER SEQUENCE", item)


def _copies_rules(change: Change, item: ast.Node) -> bool:
    """Whether a part of CREATE TABLE is LIKE with defaults or checks, which another command adds."""
    source = change.relation(item.relation) if isinstance(item, ast.LikeClause) else None
    if not isinstance(source, Table) or not isinstance(item, ast.LikeClause):
        return False
    columns, copied = source.columns, set(item.including)
    return (
        (not copied.isdisjoint(("all", "defaults")) and any(column.default is not None for column in columns))
        or (not copied.isdisjoint(("all", "generated")) and any(column.generated is not None for column in columns))
        or (not copied.isdisjoint(("all", "constraints")) and any(each.kind == "c" for each in source.constraints))
    )


def _new_table(change: Change, node: ast.CreateStmt, tag: str) -> Iterator[Command]:
    def commands() -> Iterator[Command]:
        for table in change.new(Table):
            yield from _about(tag, table)
            if any(_copies_rules(change, item) for item in node.elements):
                yield from _about("ALTER TABLE", table)
            for index in change.new(Index):
                if index.parent is None:
                    yield from _about("CREATE INDEX", index)
            if any(item.kind == "f" and item.parent is None for item in table.constraints):
                yield from _about("ALTER TABLE", table)

    return _with_sequences(change, commands())


def _new_view(change: Change, node: ast.ViewStmt, tag: str) -> Iterator[Command]:
    for view in change.of(View)[:1]:
        if view.oid in change.before.objects:  # its columns and options are replaced, which is a command too
            yield from _about(tag, view)
        yield from _about(tag, view)


def _altered_relation(change: Change, node: ast.AlterTableStmt, tag: str) -> Iterator[Command]:
    return _with_sequences(change, _about(tag, change.relation(node.relation)))


def _renamed_object(change: Change, node: ast.RenameStmt, tag: str) -> Iterator[Command]:
    relation = None if node.relation is None else change.relation(node.relation)
    if node.kind in _PARTS:
        return _part(tag, node.kind, relation, node.new_name)
    if node.kind == "column":
        return _column(tag, relation, node.new_name)
    return _about(tag, change.one(node.new_name, *((Schema,) if node.kind == "schema" else RELATIONS)))


def _commented_object(change: Change, node: ast.CommentStmt, tag: str) -> Iterator[Command]:
    names = node.on or node.names
    if node.kind == "column":
        return _column(tag, change.one(node.names[-2], *RELATIONS), node.names[-1])
    item = change.one(names[-1], *_COMMENTED.get(node.kind, ()))
    return _part(tag, node.kind, item, node.names[-1]) if node.kind in _PARTS else _about(tag, item)


def _domain(change: Change, node: ast.AlterDomainStmt, tag: str) -> Iterator[Command]:
    item = change.one(node.name[-1], Domain)
    if node.action == "rename_constraint":
        return _part(tag, "domain constraint", item, node.new_name)
    return _about(tag, item)


def _composite(change: Change, node: ast.AlterCompositeStmt, tag: str) -> Iterator[Command]:
    item = change.one(node.name[-1], Composite)
    if item is not None:
        yield Command(tag, derived_oids.PG_CLASS, item.relation)


def _type(change: Change, node: ast.AlterTypeStmt, tag: str) -> Iterator[Command]:
    name = node.value if node.action == "rename" else node.name[-1]
    kinds = (Collation,) if node.kind == "collation" else USER_TYPES
    return _about(tag, change.one(name, *kinds))


def _grant(change: Change, node: ast.GrantStmt, tag: str) -> Iterator[Command]:
    kind = node.object_kind.removeprefix("all_")
    yield Command(tag, granted=(kind.removesuffix("s") if kind != node.object_kind else kind).upper())


def _defaults(change: Change, node: ast.DefaultPrivilegesStmt, tag: str) -> Iterator[Command]:
    yield Command(tag, granted=node.grant.object_kind.upper())


def _function(change: Change, node: ast.AlterFunctionStmt, tag: str) -> Iterator[Command]:
    return _about(tag, change.one(node.value if node.action == "rename" else node.signature.name[-1], Routine))


def _table_of_query(change: Change, node: ast.Node, tag: str) -> Iterator[Command]:
    return _about(tag, next(iter(change.new(Table)), None))


def _operator(change: Change, node: ast.CreateOperatorStmt, tag: str) -> Iterator[Command]:
    return _about(tag, next((item for item in change.of(UserOperator) if item.name == node.name[-1]), None))


def _of_name(*kinds: type[SchemaObject]) -> Callable[[Change, Any, str], Iterator[Command]]:
    """For statements with the name of the object."""

    def commands(change: Change, node: Any, tag: str) -> Iterator[Command]:
        name = node.name if hasattr(node, "name") else getattr(node, "relation", None)
        shown = name.name if isinstance(name, ast.RangeVar) else name[-1] if isinstance(name, tuple) else name
        return _about(tag, change.one(shown, *kinds))

    return commands


def _part_of(word: str) -> Callable[[Change, Any, str], Iterator[Command]]:
    return lambda change, node, tag: _part(tag, word, change.one(node.relation.name, Table, View), node.name)


_COMMANDS: dict[type[ast.Node], Callable[[Change, Any, str], Iterator[Command]]] = {
    ast.CreateStmt: _new_table,
    ast.ViewStmt: _new_view,
    ast.IndexStmt: lambda change, node, tag: _about(
        tag, next((item for item in change.new(Index) if item.parent is None), None)
    ),
    ast.AlterTableStmt: _altered_relation,
    ast.SequenceStmt: _of_name(SequenceObject),
    ast.RenameStmt: _renamed_object,
    ast.AlterObjectSchemaStmt: _of_name(*RELATIONS),
    ast.AlterOwnerStmt: _of_name(Schema),
    ast.CreateSchemaStmt: _of_name(Schema),
    ast.CommentStmt: _commented_object,
    ast.GrantStmt: _grant,
    ast.DefaultPrivilegesStmt: _defaults,
    ast.CreateEnumStmt: _of_name(*USER_TYPES),
    ast.CreateRangeStmt: _of_name(UserRange),
    ast.CreateStatisticsStmt: _of_name(StatisticsObject),
    ast.AlterStatisticsStmt: _of_name(StatisticsObject),
    ast.ForeignWrapperStmt: _of_name(ForeignWrapper),
    ast.ForeignServerStmt: _of_name(ForeignServer),
    ast.UserMappingStmt: _of_name(UserMapping),
    ast.CreateTextSearchStmt: _of_name(*TEXT_SEARCH),
    ast.AlterTextSearchStmt: _of_name(*TEXT_SEARCH),
    ast.AlterEnumStmt: _of_name(*USER_TYPES),
    ast.CreateDomainStmt: _of_name(*USER_TYPES),
    ast.CompositeTypeStmt: _of_name(*USER_TYPES),
    ast.AlterDomainStmt: _domain,
    ast.AlterCompositeStmt: _composite,
    ast.AlterTypeStmt: _type,
    ast.CollationStmt: _of_name(Collation),
    ast.ExtensionStmt: _of_name(Extension),
    ast.CreateFunctionStmt: _of_name(Routine),
    ast.CreateAggregateStmt: _of_name(Routine),
    ast.AlterFunctionStmt: _function,
    ast.CreateCastStmt: _of_name(UserCast),
    ast.CommentOnCastStmt: _of_name(UserCast),
    ast.CreateOperatorStmt: _operator,
    ast.AlterOperatorStmt: _of_name(UserOperator),
    ast.CreateTriggerStmt: _part_of("trigger"),
    ast.CreatePolicyStmt: _part_of("policy"),
    ast.CreateRuleStmt: _part_of("rule"),
    ast.AlterPolicyStmt: _part_of("policy"),
    ast.CreateTableAsStmt: _table_of_query,
    ast.SelectStmt: _table_of_query,
    ast.RefreshMatViewStmt: _of_name(Table),
}
"""By statement: its parts. Those that drop have none."""


def commands_of(change: Change, node: ast.Node, tag: str) -> list[Command]:
    """The parts of a statement that has run, whose tag this is."""
    made = _COMMANDS.get(type(node))
    return [] if made is None else list(made(change, node, tag))
