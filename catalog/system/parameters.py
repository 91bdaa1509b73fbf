"""PostgreSQL's configuration parameters, from its pg_settings (catalog/data/pg_settings.tsv).

Shoal describes the parameters that it has itself. The others are shown with PostgreSQL's defaults. SET accepts those
that affect only plans, memory and housekeeping of PostgreSQL, never results, without effect; of the rest it accepts the
value that they have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from catalog.system.parameter_values import in_largest_unit
from catalog.system.relations import read_fields

# Categories of parameters that SET accepts without effect.
_WITHOUT_EFFECT = (
    "Query Tuning / ", "Resource Usage / ", "Write-Ahead Log / ", "Autovacuum", "Statistics / ",
    "Connections and Authentication / Connection Settings", "Client Connection Defaults / Statement Behavior",
)  # fmt: skip
# Clients that find this parameter rely on it: pg_dump uses it to refuse views while it reads tables.
_LEFT_OUT = frozenset({"restrict_nonsystem_relation_kind"})
LISTS = ("search_path", "temp_tablespaces")
"""Parameters whose values are lists of names, each quoted separately."""
_WITH_EFFECT = frozenset({"xmlbinary", "xmloption", "transaction_isolation", "track_activities", "track_counts"})


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
    context: str

    @property
    def shown_value(self) -> str:
        """The default in SHOW's form: in the largest unit of which it is a multiple."""
        if self.default is None:
            return ""
        if self.kind not in ("integer", "real"):
            return self.default
        return in_largest_unit(self, float(self.default) if self.kind == "real" else int(self.default))

    @property
    def without_effect(self) -> bool:
        """Whether SET accepts the parameter without effect."""
        is_settable = self.context in ("user", "superuser")
        return is_settable and self.category.startswith(_WITHOUT_EFFECT) and self.name not in _WITH_EFFECT


@cache
def postgres_parameters() -> Mapping[str, Parameter]:
    """Returns PostgreSQL's parameters by name in lower case."""
    found = {}
    for fields in read_fields("pg_settings"):
        name, unit, category, description, more, kind, least, most, choices, default, context = fields
        assert name is not None and category is not None and description is not None
        assert kind is not None and context is not None
        if name in _LEFT_OUT:
            continue
        each = None if choices is None else tuple(choices.split(","))
        found[name.lower()] = Parameter(
            name, unit, category, description, more, kind, least, most, each, default, context
        )
    return found
