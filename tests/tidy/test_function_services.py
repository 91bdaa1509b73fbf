"""A session gives functions all that their modules ask of `CallContext.session`, which no type checker follows: the
modules of catalog/functions declare it on their side, in Protocols of their own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from engine.session.functions import FunctionServices
from tests.tidy.sources import modules, nodes

ASKED = re.compile(r"\bcall\.session\)?\.([a-z_]+)")  # in code, and in texts that become code


def asked(tree: ast.Module) -> Iterator[str]:
    """What a module asks of the session."""
    yield from ASKED.findall(ast.unparse(tree))
    for node in nodes(tree):
        if isinstance(node, ast.ClassDef) and node.name in ("_Session", "SessionServices"):
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    yield member.name
                elif isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
                    yield member.target.id


def test_whatever_functions_ask_is_there() -> None:
    found = {(path, name) for path, tree in modules("catalog", "engine/execute") for name in asked(tree)}
    assert len(found) > 40
    assert not {(path, name) for path, name in found if not hasattr(FunctionServices, name)}


@pytest.mark.parametrize(
    "source",
    [
        "found = cast(Any, call.session).nothing.of_it",
        "text = f'{name} = context.call.session.nothing({key})'",
        "class _Session(Protocol):\n    nothing: int",
        "class _Session(Protocol):\n    @property\n    def nothing(self) -> int: ...",
    ],
)
def test_what_is_missing_is_noticed(source: str) -> None:
    assert list(asked(ast.parse(source))) == ["nothing"]
