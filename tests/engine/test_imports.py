"""Modules that import each other in a circle cannot be understood one by one, nor changed. So no circle is large, and
an import stands inside a function only where a reason is given: one that hides a circle is none."""

from __future__ import annotations

import pathlib
from collections import Counter

import pytest

from tests.engine.import_graph import Graph, Import, circles, graph_of

LARGEST = 3  # files of a circle, by imports on loading and inside functions
LARGEST_WITH_ANNOTATIONS = 15
# Larger circles that there are, by the package that they lie in, and how large: they shall not grow.
KNOWN = {"catalog": 23, "engine.execute": 5, "engine.sql.analyze": 13}
KNOWN_WITH_ANNOTATIONS = {"catalog": 23, "engine.sql.analyze": 31}

START_UP = "loading it takes time that other commands, or a worker that does not need it, shall not wait for"
OPTIONAL = "what it needs may not be installed"
CIRCLE = "it hides a circle: to be taken apart"
# Imports inside functions: by package, how many at most, and why. What is not here has none.
INSIDE = {
    "shoal.cli": (5, START_UP),
    "shoal.commands": (23, START_UP),
    "shoal.serve": (3, START_UP),
    "replication.stores.open": (2, OPTIONAL),
    "engine.columnar.worker": (1, START_UP),
    "catalog.functions": (16, CIRCLE),
    "catalog.types": (16, CIRCLE),
    "catalog": (10, CIRCLE),
    "engine.columnar.generate": (1, CIRCLE),
    "engine.execute": (12, CIRCLE),
    "engine.partitions": (1, CIRCLE),
    "engine.sql": (44, CIRCLE),
    "engine.sql.dialects": (1, START_UP),
    "engine.storage": (1, CIRCLE),
}


@pytest.fixture(scope="module")
def graph() -> Graph:
    found = graph_of()
    assert len(found) > 700
    return found


def _runs(item: Import) -> bool:
    return item.kind != "annotation"


def _place(names: list[str], known: dict[str, int]) -> str | None:
    """The package of which all of these modules are, if it is known."""
    return next((package for package in known if all(_within(name, package) for name in names)), None)


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def too_large(found: list[list[str]], largest: int, known: dict[str, int]) -> list[str]:
    wrong = []
    for circle in found:
        # A circle of execution may go through packages that it belongs together with.
        place = _place([name for name in circle if not name.startswith(("engine.partitions.", "engine.txn."))], known)
        if len(circle) > max(largest, 0 if place is None else known[place]):
            wrong.append(f"{len(circle)} files import each other: {' '.join(circle)}")
    return wrong


def test_no_circle_is_large(graph: Graph) -> None:
    assert not too_large(circles(graph, _runs), LARGEST, KNOWN)


def test_no_circle_is_large_with_annotations(graph: Graph) -> None:
    assert not too_large(circles(graph, lambda item: True), LARGEST_WITH_ANNOTATIONS, KNOWN_WITH_ANNOTATIONS)


def test_imports_inside_functions_have_a_reason(graph: Graph) -> None:
    counts: Counter[str] = Counter()
    for name, imports in graph.items():
        lines = {item.line for item in imports if item.kind == "function"}
        if lines:
            place = max((package for package in INSIDE if _within(name, package)), key=len, default=name)
            counts[place] += len(lines)
    wrong = {place: count for place, count in counts.items() if count > INSIDE.get(place, (0, ""))[0]}
    assert not wrong, f"imports inside functions: {wrong}"


def test_what_is_known_is_there(graph: Graph) -> None:
    """What is gone is taken out of the lists."""
    found = circles(graph, _runs)
    assert all(any(_within(name, package) for circle in found for name in circle) for package in KNOWN)


def test_circles_and_hidden_imports_are_noticed(tmp_path: pathlib.Path) -> None:
    sources = {
        "a": "from pack import b",
        "b": "def f():\n    from pack.c import d",
        "c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pack.a import x\nd = 1",
        "e": "import pack.a",
    }
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").touch()
    for name, source in sources.items():
        (tmp_path / "pack" / f"{name}.py").write_text(source)
    graph = graph_of(tmp_path, ("pack",))
    assert circles(graph, _runs) == []
    assert circles(graph, lambda item: True) == [["pack.a", "pack.b", "pack.c"]]
    assert [item.kind for item in graph["pack.b"]] == ["function"]
    assert too_large([["x.a", "x.b", "x.c", "x.d"]], 3, {}) and not too_large(
        [["x.a", "x.b", "x.c", "x.d"]], 3, {"x": 4}
    )
