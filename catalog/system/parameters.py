"""PostgreSQL's configuration parameters, from its pg_settings (catalog/data/pg_settings.tsv).

Shoal describes the parameters that it has itself. The others are shown with PostgreSQL's defaults and cannot be
changed, except for those of PostgreSQL's planner: they affect only plans, never results, so SET accepts them without
effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from catalog.system.relations import read_fields

_OF_THE_PLANNER = "Query Tuning / "
# Clients that find this parameter rely on it: pg_dump uses it to refuse views while it reads tables.
_LEFT_OUT = frozenset({"restrict_nonsystem_relation_kind"})
_MEMORY = {"B": 1, "kB": 1 << 10, "8kB": 8 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_TIME = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One row of pg_settings. `default` is in `unit`."""

    name: str
    unit: str | None
    category: str
    description: str
    more: str | None
    kind: str
    least: str | None
    most: str | None
    choices: tuple[str, ...] | None
    default: str | None

    @property
    def shown_value(self) -> str:
        """The default in SHOW's form: in the largest unit of which it is a multiple."""
        if self.default is None:
            return ""
        if self.unit is None or not self.default.lstrip("-").isdigit() or int(self.default) <= 0:
            return self.default
        units = _MEMORY if self.unit in _MEMORY else _TIME
        amount = int(self.default) * units[self.unit]
        name = max((name for name in units if not amount % units[name] and name != "8kB"), key=units.__getitem__)
        return f"{amount // units[name]}{name}"

    @property
    def without_effect(self) -> bool:
        """Whether SET accepts the parameter without effect."""
        return self.category.startswith(_OF_THE_PLANNER)


@cache
def postgres_parameters() -> Mapping[str, Parameter]:
    """Returns PostgreSQL's parameters by name in lower case."""
    found = {}
    for name, unit, category, description, more, kind, least, most, choices, default in read_fields("pg_settings"):
        assert name is not None and category is not None and description is not None and kind is not None
        if name in _LEFT_OUT:
            continue
        each = None if choices is None else tuple(choices.split(","))
        found[name.lower()] = Parameter(name, unit, category, description, more, kind, least, most, each, default)
    return found
