"""A planned statement.

The plan cache holds `Prepared`, and all sessions share it: the statement, the dependencies of its plan, and the plan.
"""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.execute.context import Field
from engine.node.plan_cache import PlanKey
from engine.session.parameters import Parameters
from engine.session.plan import NO_COLUMNS, Plan, RunRow
from engine.sql import ast

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from engine.statistics.statements import Tally


@dataclass(slots=True, weakref_slot=True, eq=False)
class Prepared:
    """`catalog` and `key` are those for which it was planned."""

    statement: ast.Statement
    catalog: Catalog
    key: PlanKey
    parameters: Parameters
    plan: Plan
    text_run: RunRow | None = None  # runs it on the row path with results in text, once that has been made
    tally: Tally | None = None  # the counter of its executions, after the first one
    lasting: bool = True  # without constants like 'now', which mean the time at which they were read
    description: tuple[int, str] | None = None  # of a long text: the thread that planned it made this
    # Its new plan after a change of the schema, for the other sessions that have it. A session that runs it keeps it
    # alive.
    successor: weakref.ref[Prepared] | None = None

    @classmethod
    def of(
        cls,
        statement: ast.Statement,
        types: tuple[int, ...],
        catalog: Catalog,
        key: PlanKey,
        plan: Plan,
        declared: tuple[int, ...] = (),
    ) -> Prepared:
        """`types` are those of the parameters; `declared` are the declared types, if they differ."""
        return cls(statement, catalog, key, Parameters(types, declared, catalog, key), plan)

    @property
    def fields(self) -> tuple[Field, ...] | None:
        """The columns of its rows; None: it returns none."""
        columns = self.plan.columns
        return None if columns is None else columns.fields

    @property
    def command(self) -> str:
        return self.plan.command

    @property
    def relations(self) -> tuple[int, ...]:
        return self.plan.relations

    @property
    def text_formats(self) -> tuple[int, ...]:
        """Every result column as text, as simple queries get them."""
        return (self.plan.columns or NO_COLUMNS).text_formats

    def formats(self, requested: tuple[int, ...]) -> tuple[int, ...]:
        """One format code per result column from those of Bind. Raises 08P01."""
        return (self.plan.columns or NO_COLUMNS).formats(requested)


class StalePlan(Exception):  # noqa: N818 - not an error: the statement is planned again
    """The schema has changed since the plan was made: during a wait for a lock, or between Bind and Execute."""


class PastWait(Exception):  # noqa: N818 - not an error: the statement is planned again
    """The statement reads a past state that must be built first: await `ready()`."""

    def __init__(self, ready: Callable[[], Awaitable[None]]) -> None:
        self.ready = ready


class LongPlan(Exception):  # noqa: N818 - not an error: the statement is planned in a thread
    """Planning the text would take milliseconds, during which all sessions wait for this thread."""


async def once_known(plan: Callable[[], Prepared]) -> Prepared:
    """The result of `plan` when all past states that it needs exist: the moment of a time, then the state at it."""
    while True:
        try:
            return plan()
        except PastWait as wait:
            await wait.ready()
