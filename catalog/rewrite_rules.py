"""Rules of tables and views as parts of the schema (pg_rewrite). catalog/schema.py has them in its relations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RewriteRule:
    """CREATE RULE. `event`: a INSERT, w UPDATE, d DELETE. `condition` and `actions` are SQL texts over the relations
    old and new, with all names qualified; `depends_on`: the relations and routines that they use, with the rule's own
    relation. `enabled`: as in ev_enabled."""

    oid: int
    name: str
    event: str
    instead: bool = False
    condition: str | None = None
    actions: tuple[str, ...] = ()
    enabled: str = "O"
    depends_on: tuple[int, ...] = ()
    comment: str | None = None

    @property
    def replaces(self) -> bool:
        """Whether the actions run in place of every statement."""
        return self.instead and self.condition is None
