"""The walker of trees: every class of nodes, and whole trees, against walks that look at each field and its value."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import count
from typing import Any

import pytest

from catalog.catalog import Catalog
from catalog.schema import Column, Schema, Table
from catalog.types.base import Array, TypeRef
from engine.sql import ast, tree, tree_records, tree_walk
from engine.sql.analyze import Environment, analyze, analyze_expression
from engine.sql.parser import parse, parse_expression
from engine.sql.tree_walk import (
    children,
    contains,
    inner_nodes,
    is_volatile,
    node_fields,
    shift_levels,
    substitute,
    transform,
    variables,
    walk,
    walk_with_depth,
)
from tests.golden.sources import sources

INT4 = TypeRef(23)
ENVIRONMENT = Environment(
    Catalog().with_changes(
        {
            2200: Schema(2200, 5, "public"),
            16400: Table(16400, 2200, "t", (Column(1, "a", INT4, True), Column(2, "b", INT4)), 16400, key_columns=(1,)),
        }
    )
)
SQL = (
    "SELECT a + 1 AS x, CASE b WHEN 1 THEN 2 ELSE a / 0 END, ARRAY[a, 2], (a, b) < (1, 2) FROM t WHERE a IN (1, 2)",
    "WITH w AS (SELECT a FROM t) SELECT DISTINCT ON (w.a) w.a, sum(t.a) FILTER (WHERE t.a > 1) FROM w JOIN t "
    "ON t.a = w.a LEFT JOIN (VALUES (1, 2)) v ON true GROUP BY GROUPING SETS ((w.a), ()) HAVING count(*) > 1 "
    "ORDER BY w.a DESC LIMIT 1 + 1 OFFSET 2",
    "SELECT rank() OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 1 + 1 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT (ARRAY[1, 2])[1:a], EXISTS (SELECT 1 FROM t u WHERE u.a = t.a), a = ANY (SELECT b FROM t) FROM t "
    "TABLESAMPLE bernoulli (50 + 1) REPEATABLE (1)",
    "SELECT a FROM t UNION ALL (SELECT 1 INTERSECT SELECT 2) ORDER BY 1",
    "SELECT * FROM generate_series(1, 2 + 3) WITH ORDINALITY g, LATERAL (SELECT g.g + 1) l",
    "WITH RECURSIVE w AS (SELECT a FROM t UNION ALL SELECT a + 1 FROM w WHERE a < 9) SELECT (SELECT max(w.a) FROM w) "
    "FROM t WHERE b IN (SELECT a FROM w) FOR UPDATE",
    "INSERT INTO t VALUES (1, 2), (3, 2 + 2) ON CONFLICT DO NOTHING RETURNING a + 1",
    "UPDATE t SET a = t.b + 1 FROM t u WHERE u.a = t.a RETURNING t.a",
    "DELETE FROM t USING t u WHERE u.a = t.a + 1",
    "MERGE INTO t USING t u ON t.a = u.a WHEN MATCHED AND t.b > 1 THEN UPDATE SET a = u.a + 1 "
    "WHEN NOT MATCHED THEN INSERT VALUES (u.a, u.b)",
)
LEVELS = (tree.Query, tree.Insert, tree.Update, tree.Delete, tree.Merge)


def analysed(sql: str) -> tree.Statement:
    (statement,) = parse(sql)
    return analyze(statement.tree, ENVIRONMENT).statement


# ---- each class -----------------------------------------------------------------------------------------------------


def classes(module: types.ModuleType, base: type = object) -> list[type]:
    return [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and is_dataclass(kind) and issubclass(kind, base)
    ]


ANALYSED = [kind for kind in classes(tree) if kind.__module__ == tree.__name__]
SYNTAX = classes(ast, ast.Node)


def hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, None, vars(tree) if kind in ANALYSED else vars(ast))


def members(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a union; the hint itself where it is none."""
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def sample(hint: Any, fresh: Callable[[], object], full: bool) -> tuple[object, list[object]]:
    """A value of a field, with the nodes that are in it. `full`: not None, where there is a choice."""
    options = members(hint)
    if type(None) in options and not full:
        return None, []
    hint = next(option for option in options if option is not type(None))
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)
        inner = (inner[0], inner[0]) if inner[-1] is Ellipsis else inner
        made = [sample(each, fresh, full) for each in inner]
        return tuple(value for value, _ in made), [node for _, nodes in made for node in nodes]
    if hint in (tree.Target, tree.SortClause, tree.Assignment):
        wrapped = hint(3, fresh()) if hint is tree.Assignment else hint(fresh(), "x")
        return wrapped, [wrapped]
    if hint in ANALYSED or hint in SYNTAX or hint is Any:
        node = fresh()
        return node, [node]
    return f"some {hint}", []


def instance(kind: type, full: bool) -> tuple[Any, list[object]]:
    """A node of a class in which every field holds something, and the nodes directly under it."""
    numbers = count(100)

    def fresh() -> object:
        return tree.Var(next(numbers), 1, INT4) if kind in ANALYSED else ast.ParamRef(next(numbers))

    values: dict[str, object] = {}
    nodes: list[object] = []
    found = hints(kind)
    for item in fields(kind):
        if item.init:
            values[item.name], inner = sample(found[item.name], fresh, full)
            nodes += inner
    return kind(**values), nodes


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("kind", [*ANALYSED, *SYNTAX], ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_the_parts_of_every_class_of_nodes(kind: type, full: bool) -> None:
    node, nodes = instance(kind, full)
    assert list(map(id, children(node))) == list(map(id, nodes))
    assert transform(node, lambda part, depth: part) is node is substitute(node, lambda part, depth: None)
    assert list(map(id, walk(node))) == [id(node), *(id(item) for part in nodes for item in walk(part))]
    names = {item.name for item in fields(kind) if item.init and sample_holds(hints(kind)[item.name])}
    assert names == set(node_fields[kind])

    def changed(part: Any) -> Any:
        return replace(part, relation=-part.relation) if isinstance(part, tree.Var) and part is not node else part

    new = transform(node, lambda part, depth: changed(part))
    assert new == substitute(node, lambda part, depth: None if changed(part) is part else changed(part))
    relations = [[part.relation for part in walk(each) if isinstance(part, tree.Var)] for each in (new, node)]
    assert kind is tree.Var or relations[0] == [-relation for relation in relations[1]]
    same = [item.name for item in fields(kind) if item.name not in node_fields[kind] and item.init]
    assert all(getattr(new, name) is getattr(node, name) for name in same)


def sample_holds(hint: Any) -> bool:
    return bool(sample(hint, lambda: tree.Var(1, 1, INT4), True)[1])


def test_a_record_is_no_node() -> None:
    for kind in classes(tree_records):
        assert node_fields[kind] is tree_walk.NO_NODE
        assert not any(map(sample_holds, typing.get_type_hints(kind, None, vars(tree_records)).values()))
    with pytest.raises(TypeError, match="RangeColumn is not a node of a tree"):
        children(tree.RangeColumn("a", INT4))


# ---- whole trees ----------------------------------------------------------------------------------------------------


def parts_by_hand(node: object) -> list[object]:
    """The nodes directly under a node, found by looking at each field and its value."""
    found: list[object] = []
    pending = [] if isinstance(node, tree.Const) else [getattr(node, item.name) for item in fields(node)]  # type: ignore[arg-type]
    while pending:
        value = pending.pop(0)
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            pending[:0] = value
        elif isinstance(value, ast.Node) or (is_dataclass(value) and type(value).__module__ == tree.__name__):
            found.append(value)
    return found


def walk_by_hand(node: object, depth: int = 0) -> Iterator[tuple[object, int]]:
    yield node, depth
    for part in parts_by_hand(node):
        yield from walk_by_hand(part, depth + isinstance(node, LEVELS))


@pytest.mark.parametrize("sql", SQL)
def test_walks_reach_every_node(sql: str) -> None:
    root = analysed(sql)
    known = list(walk_by_hand(root))
    assert [(id(node), depth) for node, depth in walk_with_depth(root)] == [(id(node), depth) for node, depth in known]
    assert list(map(id, walk(root))) == [id(node) for node, _ in known]
    for node, _ in known:
        assert list(map(id, children(node))) == list(map(id, parts_by_hand(node))), type(node)
        assert contains(root, lambda item, node=node: item is node)
    assert not contains(root, lambda item: False)
    wrapped = (tree.Target, tree.SortClause, tree.Assignment)
    wanted = {id(node) for node, _ in known if node is root or (children(node) and not isinstance(node, wrapped))}
    found = {id(node) for node in inner_nodes(root)}
    assert wanted <= found <= {id(node) for node, _ in known}


@pytest.mark.parametrize("sql", SQL)
def test_copies_differ_in_what_was_replaced(sql: str) -> None:
    root = analysed(sql)
    assert transform(root, lambda node, depth: node) is root is substitute(root, lambda node, depth: None)
    seen: list[tuple[int, int]] = []

    def note(node: object, depth: int) -> object:
        seen.append((id(node), depth))
        return node

    transform(root, note)
    assert sorted(seen) == sorted((id(node), depth) for node, depth in walk_by_hand(root))
    places = [id(node) for node, _ in walk_by_hand(root) if isinstance(node, (tree.Const, tree.Var))]
    for number, place in enumerate(places):
        put = tree.Param(number, INT4)
        new = transform(root, lambda node, depth, place=place, put=put: put if id(node) == place else node)
        assert new == substitute(root, lambda node, depth, place=place, put=put: put if id(node) == place else None)
        expected = [put if id(node) == place else type(node) for node, _ in walk_by_hand(root)]
        assert [node if node is put else type(node) for node, _ in walk_by_hand(new)] == expected


def test_walks_of_syntax_trees_reach_every_node() -> None:
    """Of every statement that the scripts of the tests have."""
    kinds: set[type] = set()
    for _, statements in sources():
        for sql in statements:
            try:
                parsed = parse(sql)
            except Exception:  # scripts have what is refused
                continue
            for statement in parsed:
                nodes = list(walk(statement.tree))
                assert list(map(id, nodes)) == [id(node) for node, _ in walk_by_hand(statement.tree)], sql
                kinds.update(map(type, nodes))
    assert len(kinds) > 90


class Untouched(tuple[int, ...]):
    """Items that nobody is to look at: there may be 100,000."""

    __slots__ = ()

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("walked")


def test_walks_do_not_visit_the_items_of_a_constant() -> None:
    constant = tree.Const(Array.of(Untouched((1, 2))), TypeRef(1007))
    assert not list(children(constant))
    assert transform(constant, lambda node, _: node) is constant


# ---- questions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "volatile"), [("1 + random()", True), ("coalesce(1.5, random())", True), ("abs(1) + 2", False)]
)
def test_what_is_volatile(sql: str, volatile: bool) -> None:
    """Of a node, of several, and of what only holds nodes."""
    found = analyze_expression(parse_expression(sql), ENVIRONMENT)
    plain = analyze_expression(parse_expression("abs(1)"), ENVIRONMENT)
    assert is_volatile(found) == is_volatile((plain, None, (found,))) == is_volatile((plain, found)) == volatile
    assert not is_volatile(None) and not is_volatile(())


def test_what_reaches_outward_is_shifted() -> None:
    """Columns, aggregates and WITH queries of the queries around."""
    inner = tree.Query(
        (tree.Target(tree.Var(0, 1, INT4, 1), "a"), tree.Target(tree.Var(0, 1, INT4, 0), "b")),
        (tree.RangeCte("w", 1, "w", ()), tree.RangeCte("own", 0, "own", ())),
    )
    shifted = shift_levels(tree.SubLink("expr", inner, INT4), 2)
    assert [item.levels_up for item in walk(shifted) if isinstance(item, (tree.Var, tree.RangeCte))] == [3, 0, 3, 0]
    assert [item.levels_up for item in variables(shifted)] == [2]
    assert shift_levels(inner, 0) is inner
