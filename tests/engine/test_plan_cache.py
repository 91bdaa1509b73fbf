"""Which plans the cache keeps."""

from __future__ import annotations

from typing import Any, cast

import pytest

from engine.node.plan_cache import PLANS_PER_KEY, PlanCache, PlanKey
from engine.session.plan import Plan
from engine.session.prepared import Prepared
from engine.session.statement_texts import LONGEST_KEPT
from engine.sql import ast
from engine.statements.planning import cacheable

PLAN = cast(Prepared, object())


def cache() -> PlanCache:
    return PlanCache(cast(PlanKey, None))


def test_a_plan_is_kept_when_its_text_comes_a_second_time() -> None:
    plans = cache()
    plans.put("a", PLAN)
    assert "a" not in plans.plans
    plans.put("a", PLAN)
    assert plans.plans["a"] is PLAN


def test_that_a_text_has_no_plan_is_kept_at_once() -> None:
    plans = cache()
    plans.put("a", None)
    assert plans.plans == {"a": None}


def test_texts_that_come_once_push_nothing_out() -> None:
    plans = cache()
    for _ in range(2):
        plans.put("used", PLAN)
    for number in range(3 * PLANS_PER_KEY):
        plans.put(number, PLAN)
    assert plans.plans == {"used": PLAN}


@pytest.mark.parametrize(("length", "kept"), [(LONGEST_KEPT, True), (LONGEST_KEPT + 1, False)])
def test_plans_of_very_long_texts_are_not_kept(length: int, kept: bool) -> None:
    statement = ast.Statement(ast.Node(), "x" * length)
    assert cacheable(Prepared.of(statement, (), cast(Any, None), cast(Any, None), Plan())) is kept
