"""The rows of rules in pg_rewrite and other catalogs, and pg_get_ruledef. The rules of views for SELECT are in
objects.py; their texts are made here too."""

from __future__ import annotations

from catalog.rewrite_rules import RewriteRule
from catalog.schema import Table, View
from catalog.system import derived_oids
from catalog.system import relations as internal
from catalog.system.content import (
    Columns,
    Dependency,
    Item,
    Items,
    Surroundings,
    comment_columns,
    content,
    dependency_columns,
    objects_of,
)

Owner = Table | View
_EVENTS = {"w": "2", "a": "3", "d": "4"}

owners = Items((Table, View), lambda _, item: (item,) if item.rules else None)


def _rules(items: list[Item]) -> list[tuple[Owner, RewriteRule]]:
    return [(relation, rule) for (relation,) in items for rule in relation.rules]


@content("pg_rewrite", "catalog", owners)
def _rows(items: list[Item], _: Surroundings) -> Columns:
    found = _rules(items)
    return {
        "oid": [rule.oid for _, rule in found],
        "rulename": [rule.name for _, rule in found],
        "ev_class": [relation.oid for relation, _ in found],
        "ev_type": [_EVENTS[rule.event] for _, rule in found],
        "ev_enabled": [rule.enabled for _, rule in found],
        "is_instead": [rule.instead for _, rule in found],
        "ev_qual": [rule.condition or "<>" for _, rule in found],
        "ev_action": ["; ".join(rule.actions) for _, rule in found],
    }


@content("pg_description", "catalog", owners)
def _comments(items: list[Item], _: Surroundings) -> Columns:
    return comment_columns(derived_oids.PG_REWRITE, (rule for _, rule in _rules(items)))


@content("pg_depend", "catalog", owners)
def _dependencies(items: list[Item], surroundings: Surroundings) -> Columns:
    found: list[Dependency] = []
    for relation, rule in _rules(items):
        own = (derived_oids.PG_REWRITE, rule.oid, 0)
        found.append((*own, derived_oids.PG_CLASS, relation.oid, 0, "a"))
        for oid in rule.depends_on:
            used = surroundings.catalog.get(oid)
            kind = derived_oids.PG_CLASS if isinstance(used, Table | View) else derived_oids.PG_PROC
            if used is not None and oid != relation.oid:
                found.append((*own, kind, oid, 0, "n"))
    return dependency_columns(found)


@content(internal.RULE_TEXTS, "session", objects_of(Table, View))
def _texts(items: list[Item], surroundings: Surroundings) -> Columns:
    found: list[tuple[int, str, str]] = []
    for (relation,) in items:
        if isinstance(relation, View) or relation.query is not None:
            shown = [surroundings.rule_of_view(relation, pretty) for pretty in (False, True)]
            found.append((derived_oids.rule(relation.oid), shown[0], shown[1]))
        for rule in relation.rules:
            shown = [surroundings.rule(relation, rule, pretty) for pretty in (False, True)]
            found.append((rule.oid, shown[0], shown[1]))
    return {name: [row[place] for row in found] for place, name in enumerate(("oid", "plain", "pretty"))}
