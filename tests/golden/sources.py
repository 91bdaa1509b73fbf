"""Lists of statements over schemas that they make themselves."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

from sqllogictest.script import parse
from tests.differential.generate import Scenario
from tests.engine.sql.parser.corpus import statements_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEEDS = range(1, 13)
_DOCUMENTED = re.compile(r"```sql\n(.*?)```", re.S)
PAGES = ("change-streams",)  # others read a past that lasts for seconds here


def sources() -> Iterator[tuple[str, list[str]]]:
    """(name, statements) of each, in the order in which they run."""
    for path in sorted((ROOT / "sqllogictest" / "scripts").glob("*.slt")):
        records = parse(path.read_text())
        yield f"slt-{path.stem}", [each.sql for each in records if each.sql and each.runs_on("shoal")]
    for path in sorted((ROOT / "tests" / "engine" / "scripts").glob("*.sql")):
        yield f"types-{path.stem}", statements_of(path.read_text())
    found = (ROOT / "tests" / "differential" / "found.sql").read_text()
    yield "differential-found", [each.strip() for each in re.split(r"\n\s*\n", found) if each.strip()]
    for seed in SEEDS:
        scenario = Scenario(seed)
        yield f"differential-{seed:02}", [*scenario.setup(), *(each.sql for each in scenario.statements())]
    system = ROOT / "tests" / "engine" / "system"
    schema, queries = ((system / name).read_text() for name in ("schema.sql", "queries.sql"))
    yield "system-views", [*statements_of(schema), *statements_of(queries)]
    for page in PAGES:
        text = "\n".join(_DOCUMENTED.findall((ROOT / "docs" / f"{page}.md").read_text()))
        yield f"docs-{page}", statements_of(text)
