"""The conditions of row security policies, bound to their table and cached with the catalog, like rules.py has other
parts of a table's definition."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.catalog import Catalog
from catalog.errors import SqlError
from catalog.schema import Policy, Table
from engine.sql import ast, tree
from engine.sql.analyze.environment import Environment, inner_environment
from engine.sql.analyze.rules import bind_expression
from engine.sql.analyze.state import Shared
from engine.sql.analyze.typeinfo import BOOL_REF
from engine.sql.parser import parse_expression

POLICY_KIND = "policy expressions"


@dataclass(frozen=True, slots=True)
class BoundPolicy:
    """A policy with its conditions over the table as range entry 0. `relations`: the relations that they read."""

    policy: Policy
    using: tree.Expr | None
    check: tree.Expr | None
    relations: tuple[int, ...]


def bind_condition(node: ast.Node, table: Table, environment: Environment) -> tuple[tree.Expr, tuple[int, ...]]:
    """A condition over the table's columns, and the relations in its sub-queries. Raises 42804, 42803, 42P20, 0A000."""
    shared = Shared(environment, ())
    try:
        found = bind_expression(node, environment, table, BOOL_REF, POLICY_KIND, shared)
    except SqlError as error:
        error.position = None  # CreatePolicy's parse state has no source text
        raise
    return found, tuple(shared.relations)


def bind_policy(policy: Policy, table: Table, environment: Environment) -> BoundPolicy:
    """A stored policy; its text does not depend on the search path."""
    relations: dict[int, None] = {}
    found: list[tree.Expr | None] = []
    known = environment.catalog, ("public",), environment.user_name, environment.database_name
    with inner_environment(*known) as inside:
        for text in (policy.using, policy.check):
            if text is None:
                found.append(None)
                continue
            condition, read = bind_condition(parse_expression(text), table, inside)
            found.append(condition)
            relations.update(dict.fromkeys(read))
    return BoundPolicy(policy, found[0], found[1], tuple(relations))


class _Cache:
    """The bound policies of the most recent catalog. It is replaced as a whole, because long statements are planned in
    threads."""

    def __init__(self) -> None:
        self.held: tuple[Catalog | None, dict[int, tuple[BoundPolicy, ...]]] = None, {}


_cache = _Cache()


def table_policies(table: Table, environment: Environment) -> tuple[BoundPolicy, ...]:
    """The bound policies of a table of the environment's catalog, in the order of their names."""
    catalog, known = _cache.held
    if catalog is not environment.catalog:
        known = {}
        _cache.held = environment.catalog, known
    found = known.get(table.oid)
    if found is None:
        policies = sorted(table.policies, key=lambda policy: policy.name)
        found = known[table.oid] = tuple(bind_policy(policy, table, environment) for policy in policies)
    return found
