"""Row plans of statements whose parameters decide which partitions have their rows.

    SELECT ... FROM p WHERE a = $1    $1 -> the partition -> the plan of the statement over that partition alone

The operands of conditions on partition keys are evaluated first. For each set of matching partitions there is a plan,
which is made when it is first needed. So a look-up by the key of a partitioned table is a look-up in one partition, and
locks that table only. Statements on many partitions use the columnar path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catalog.schema import Table
from catalog.types.base import FormatSettings
from engine.execute.code import NotOnRowPath
from engine.execute.context import ExecContext, RowPathFull, RowPlan, Together
from engine.execute.expressions import compile_expression
from engine.execute.frame import Encoded, result_fields
from engine.execute.planner import plan_row
from engine.execute.records import level_of
from engine.partitions.expand import expand
from engine.partitions.member_choice import Conditions, conditions_on, members
from engine.sql import tree
from engine.sql.analyze import Environment
from engine.sql.tree_walk import conjuncts, firm_places, walk
from engine.txn.locks import ACCESS_SHARE, ROW_EXCLUSIVE, ROW_SHARE

MOST_MEMBERS = 8  # of all tables of a statement together
MOST_PLANS = 1024

Chosen = tuple[tuple[int, ...], ...]
Evaluate = Callable[[ExecContext, Sequence[object]], object]


class Choice:
    """A partitioned table of a statement, and its conditions on the partition key."""

    def __init__(self, relation: int, table: Table, conditions: Conditions, settings: FormatSettings) -> None:
        self.relation = relation
        self.table = table
        self.conditions = conditions
        self._evaluators: list[tuple[tree.Expr, Evaluate]] = []
        for found in conditions.values():
            for condition in found:
                if condition.operand is not None:
                    self._evaluators.append((condition.operand, compile_expression(condition.operand, settings)))

    def members(self, context: ExecContext, parameters: Sequence[object]) -> list[Table]:
        values = {id(operand): (evaluate(context, parameters),) for operand, evaluate in self._evaluators}
        return members(context.catalog, self.table, self.conditions, lambda operand: values.get(id(operand)))


def plan_by_parameters(
    analyzed: tree.Analyzed, environment: Environment, settings: FormatSettings
) -> PlansByPartition | None:
    """The plan of a statement over partitioned tables, which are not yet expanded. None if its parameters do not choose
    partitions."""
    statement = analyzed.statement
    if isinstance(statement, tree.Query):
        items, changes = statement.from_items, False
    elif isinstance(statement, (tree.Update, tree.Delete)):
        items, changes = (tree.FromRef(0), *statement.from_items), True
    else:
        return None
    tests = conjuncts(statement.where)
    choices = []
    for relation in firm_places(items):
        entry = statement.range_table[relation]
        if not isinstance(entry, tree.RangeTable) or not isinstance(entry.table, Table) or entry.only:
            continue
        if entry.table.partitioning is not None:
            found = conditions_on(environment.catalog, entry.table, relation, tests)
            if _has_parameters(found):
                try:
                    choices.append(Choice(relation, entry.table, found, settings))
                except NotOnRowPath:
                    continue
    if not choices or (changes and choices[0].relation != 0):
        return None
    try:
        return PlansByPartition(analyzed, environment, settings, choices)
    except NotOnRowPath:
        return None


def _has_parameters(conditions: Conditions) -> bool:
    return any(
        isinstance(item, tree.Param)
        for found in conditions.values()
        for condition in found
        if condition.operand is not None
        for item in walk(condition.operand)
    )


class PlansByPartition:
    """A RowPlan (engine/execute/context.py) with one plan for each set of partitions that parameters have matched so
    far."""

    repeats = False
    finds_rows = False  # a row that has moved to another partition is found there
    values = 1
    together: Together | None = None

    def __init__(
        self, analyzed: tree.Analyzed, environment: Environment, settings: FormatSettings, choices: list[Choice]
    ) -> None:
        statement = analyzed.statement
        assert not isinstance(statement, tree.Merge)
        returned = statement.targets if isinstance(statement, tree.Query) else statement.returning
        self.fields = result_fields(returned, (level_of(statement),))
        self.parameter_types = analyzed.parameter_types
        self.relations = analyzed.relations
        self.changes = not isinstance(statement, tree.Query)
        self.writes = self.changes or (isinstance(statement, tree.Query) and bool(statement.row_marks))
        self.command = type(statement).__name__.upper() if self.changes else "SELECT"
        self._mode = ROW_SHARE if self.writes and not self.changes else ACCESS_SHARE
        self._analyzed = analyzed
        self._environment = environment
        self._settings = settings
        self._choices = choices
        self._plans: dict[Chosen, RowPlan | None] = {}

    def explain(self) -> list[str]:
        """See RowPlan."""
        return [f"{self.command.title()} on the partitions of {item.table.name} that match the parameters"
                for item in self._choices]  # fmt: skip

    def rows(self, context: ExecContext, parameters: Sequence[object]) -> tuple[list[tuple[object, ...]], int]:
        """See RowPlan."""
        return self._plan(context, parameters).rows(context, parameters)

    def make_encoder(self, formats: tuple[int, ...]) -> Encoded:
        """See RowPlan."""
        runs: dict[Chosen, Encoded] = {}
        choices, plan = self._choices, self._plan

        def run(context: ExecContext, parameters: Sequence[object]) -> tuple[bytes, int]:
            found = [choice.members(context, parameters) for choice in choices]
            chosen = tuple([tuple([item.oid for item in tables]) for tables in found])
            execute = runs.get(chosen)
            if execute is None:
                execute = runs[chosen] = plan(context, parameters).make_encoder(formats)
            if context.transaction is not None:
                self._lock(context.transaction, chosen)
            return execute(context, parameters)

        return run

    def _lock(self, transaction: Any, chosen: Chosen) -> None:
        for place, tables in enumerate(chosen):
            for oid in tables:
                transaction.lock_table(oid, ROW_EXCLUSIVE if self.changes and not place else self._mode)

    def _plan(self, context: ExecContext, parameters: Sequence[object]) -> RowPlan:
        """The plan for the partitions that match these parameters. Locks them. Raises RowPathFull."""
        found = {choice.relation: choice.members(context, parameters) for choice in self._choices}
        chosen = tuple([tuple([item.oid for item in tables]) for tables in found.values()])
        if context.transaction is not None:
            self._lock(context.transaction, chosen)
        if chosen not in self._plans:
            self._plans[chosen] = self._make(found)
            if len(self._plans) > MOST_PLANS:
                del self._plans[next(iter(self._plans))]
        plan = self._plans[chosen]
        if plan is None:
            raise RowPathFull
        return plan

    def _make(self, found: dict[int, list[Table]]) -> RowPlan | None:
        if sum(map(len, found.values())) > MOST_MEMBERS:
            return None
        return plan_row(expand(self._analyzed, self._environment, found), self._environment.catalog, self._settings)
