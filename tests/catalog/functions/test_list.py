"""docs/functions.md says what is refused: no function may be missing there."""

from __future__ import annotations

import re

from tools.list_functions import PAGE, listed


def test_every_refused_function_is_named_on_the_page() -> None:
    named = re.findall(r"`([^`]+)`", PAGE.read_text(encoding="utf-8").partition("## There")[0])
    exact, prefixes = set(named), tuple(name[:-1] for name in named if name.endswith("*"))
    present, refused = listed()
    missing = [name for name in refused if name not in exact and not name.startswith(prefixes)]
    assert not missing, f"write the page again with tools/list_functions.py: {missing}"
    assert {"now", "to_char", "jsonb_set", "array_position", "extract", "concat", "json_agg"} <= set(present)
