"""A text within a statement is analysed in an environment of its own, and leaves nothing of it behind."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from catalog.catalog import Catalog
from catalog.functions import added
from catalog.types import user
from engine.sql.analyze import inner_environment
from engine.sql.analyze.environment import Environment

ROOT = Path(__file__).parents[4]
OUTER = {  # the environments of statements, and where the one of before is made current again
    "engine/session/parameters.py",
    "engine/session/session.py",
    "engine/sql/analyze/domains.py",
    "engine/sql/analyze/environment.py",
    "engine/sql/analyze/rules.py",
    "engine/sql/analyze/views.py",
}


@pytest.mark.parametrize("fails", [False, True])
def test_what_was_current_is_so_again(fails: bool) -> None:
    entries = {16500: user.UserEntry(None, None, "s", "s.t", None)}  # type: ignore[arg-type]
    user.use(entries, ("s", "pg_catalog"))
    Environment(Catalog(), ("s",))
    before = user.visible(), added.current()
    with (
        pytest.raises(ZeroDivisionError) if fails else nullcontext(),
        inner_environment(Catalog(), ("other",)) as inside,
    ):
        assert user.visible().path == inside.path == ("pg_catalog", "other")
        if fails:
            raise ZeroDivisionError
    assert (user.visible(), added.current()) == before


def test_environments_are_made_where_they_are_left_again() -> None:
    made = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "engine").rglob("*.py")
        if re.search(r"(?<!class )\bEnvironment\(", path.read_text())
    }
    assert made == OUTER, "use inner_environment"
