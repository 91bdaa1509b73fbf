"""Modules that import each other in a circle cannot be understood one by one, nor changed. So no circle is large, and
an import stands inside a function only where a reason is given: one that hides a circle is none."""

from __future__ import annotations

import pathlib
from collections import Counter

import pytest

from tests.engine.import_graph import Graph, Import, circles, graph_of

LARGEST = 2  # files of a circle, by imports on loading and inside functions
LARGEST_WITH_ANNOTATIONS = 15

START_UP = "loading it takes time that other commands, or a worker that does not need it, shall not wait for"
OPTIONAL = "what it needs may not be installed"
CIRCLE = "it hides a circle: to be taken apart"
# Imports inside functions: by package, how many at most, and why. What is not here has none.
INSIDE = {
    "shoal.cli": (5, START_UP),
    "shoal.commands": (15, START_UP),
    "shoal.serve": (3, START_UP),
    "replication.stores.open": (2, OPTIONAL),
    "engine.columnar.worker": (1, START_UP),
    "catalog.types.jsonpath_syntax": (1, START_UP),
    "catalog.types.xml_text": (1, START_UP),
    "engine.columnar.generate": (1, CIRCLE),
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


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def too_large(found: list[list[str]], largest: int) -> list[str]:
    return [f"{len(circle)} files import each other: {' '.join(circle)}" for circle in found if len(circle) > largest]


def test_no_circle_is_large(graph: Graph) -> None:
    assert not too_large(circles(graph, _runs), LARGEST)


def test_no_circle_is_large_with_annotations(graph: Graph) -> None:
    assert not too_large(circles(graph, lambda item: True), LARGEST_WITH_ANNOTATIONS)


def test_imports_inside_functions_have_a_reason(graph: Graph) -> None:
    counts: Counter[str] = Counter()
    for name, imports in graph.items():
        lines = {item.line for item in imports if item.kind == "function"}
        if lines:
            place = max((package for package in INSIDE if _within(name, package)), key=len, default=name)
            counts[place] += len(lines)
    wrong = {place: count for place, count in counts.items() if count > INSIDE.get(place, (0, ""))[0]}
    assert not wrong, f"imports inside functions: {wrong}"
    fewer = {place: counts[place] for place, (most, _) in INSIDE.items() if counts[place] < most}
    assert not fewer, f"take these numbers down: {fewer}"


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
    assert too_large([["x.a", "x.b", "x.c"]], 2) and not too_large([["x.a", "x.b"]], 2)
