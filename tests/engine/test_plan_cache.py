"""Which plans the cache keeps."""

from __future__ import annotations

from typing import cast

from engine.node import PLANS_PER_KEY, PlanCache
from engine.session.prepared import Prepared
from engine.session.settings import PlanKey

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
