"""PostgreSQL's configuration parameters, as its pg_settings has them (catalog/data/pg_settings.tsv).

Those that Shoal has too are described by it; the others are shown with PostgreSQL's default, and cannot be changed, but
for those of PostgreSQL's planner: they choose between plans, never between answers, and are kept without an effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from catalog.system.relations import read_fields

_OF_THE_PLANNER = "Query Tuning / "
# A client that finds this one relies on it: pg_dump has views refused with it while it reads tables.
_LEFT_OUT = frozenset({"restrict_nonsystem_relation_kind"})
_MEMORY = {"B": 1, "kB": 1 << 10, "8kB": 8 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_TIME = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One row. `default`: the value it has where nothing is configured, in `unit`."""

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
        """The default as SHOW prints it: in the largest unit that it is a multiple of."""
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
        """Whether SET of it is taken and does nothing."""
        return self.category.startswith(_OF_THE_PLANNER)


@cache
def postgres_parameters() -> Mapping[str, Parameter]:
    """By name in lower case."""
    found = {}
    for name, unit, category, description, more, kind, least, most, choices, default in read_fields("pg_settings"):
        assert name is not None and category is not None and description is not None and kind is not None
        if name in _LEFT_OUT:
            continue
        each = None if choices is None else tuple(choices.split(","))
        found[name.lower()] = Parameter(name, unit, category, description, more, kind, least, most, each, default)
    return found
