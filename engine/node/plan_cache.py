"""Cached plans: a cache for each combination of the settings that plans depend on, for all sessions of a node."""

from __future__ import annotations

import itertools
from typing import Generic, NamedTuple, TypeVar

from catalog.types.base import FormatSettings
from engine.sql.dialects.names import SHOAL

PLANS_PER_KEY = 1000
PLAN_KEYS = 64

P = TypeVar("P")


class PlanKey(NamedTuple):
    """The settings that a plan depends on: plans are cached per value of this."""

    database: int
    search_path: tuple[str, ...]
    user: str
    format: FormatSettings
    path: str = "auto"
    conforming: bool = True  # standard_conforming_strings
    dialect: str = SHOAL  # sql_dialect
    row_security: bool = True


class PlanCache(Generic[P]):
    """Plans of one PlanKey by statement text, the oldest dropped first.

    A plan is kept when its text comes a second time. Plans of texts that come only once would displace useful plans,
    and the cyclic collector would walk thousands of their objects (a sixth of the time of planning).
    """

    def __init__(self, key: PlanKey) -> None:
        self.key = key
        self.plans: dict[object, P | None] = {}
        self._once: dict[object, None] = {}  # the texts that have come once

    def note_meeting(self, key: object) -> bool:
        """Records a text. Returns whether `put` would keep a plan for it, because it has come before."""
        return key in self._once or key in self.plans

    def put(self, key: object, plan: P | None) -> None:
        """Keeps a plan (None: there is none) if its text has come before."""
        if plan is not None and key not in self.plans and key not in self._once:
            if len(self._once) >= PLANS_PER_KEY:
                self._once.clear()
            self._once[key] = None
            return
        self._once.pop(key, None)
        if len(self.plans) >= PLANS_PER_KEY:
            for old in list(itertools.islice(self.plans, PLANS_PER_KEY // 4)):
                del self.plans[old]
        self.plans[key] = plan
