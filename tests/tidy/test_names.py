"""Names that a stranger understands, and sizes that fit a head.

The lists below hold what is not so yet. They may only become shorter: what is no longer needed in them is reported too.
"""

from __future__ import annotations

import functools

import pytest

from tests.tidy import measures

# Nouns of the field that end in -ing.
FIELD_TERMS = frozenset((
    "catalog/text_search/ranking.py",
    "engine/sql/folding.py",
    "engine/statements/planning.py",
    "engine/statements/routing.py",
    "engine/storage/merging.py",
    "wire/leader_forwarding.py",
))  # fmt: skip

# Functions that are named by a bare participle, at most, by package.
PARTICIPLES = {
    "catalog": 2,
    "engine": 60,
    "replication": 1,
    "shoal": 1,
    "shoal_spark": 0,
    "shoal_sqlglot": 0,
    "wire": 2,
}

# Public names that several classes of a package have.
REPEATED_CLASSES: dict[str, frozenset[str]] = {
    "catalog": frozenset((
        "Layout",
        "Moment",
        "Options",
        "Parameter",
        "Part",
        "Sequence",
    )),
    "engine": frozenset((
        "Answer",
        "ArrayExpr",
        "BatchStream",
        "Body",
        "BoolExpr",
        "BooleanTest",
        "Call",
        "Capture",
        "CaseExpr",
        "ChangeStreams",
        "Changes",
        "Checks",
        "CoalesceExpr",
        "Cursor",
        "CycleClause",
        "Found",
        "Generation",
        "GroupingFunc",
        "History",
        "Level",
        "MinMaxExpr",
        "Moment",
        "Node",
        "NullTest",
        "OnConflict",
        "Piece",
        "Query",
        "RangeFunction",
        "RowExpr",
        "SearchClause",
        "SetToDefault",
        "Sink",
        "Source",
        "SqlValueFunction",
        "SubLink",
        "Tables",
        "Target",
        "TemporaryTables",
        "Transaction",
        "Watch",
    )),
}  # fmt: skip

MOST_LINES_OF_A_FUNCTION = 70
MOST_LINES_OF_A_FILE = 800

SOURCE = measures.product()


@functools.cache
def participles() -> dict[str, list[str]]:
    return measures.participles(SOURCE)


@functools.cache
def repeated_classes() -> dict[str, dict[str, list[str]]]:
    return measures.repeated_classes(SOURCE)


def test_modules_are_named_by_what_they_hold() -> None:
    assert len(FIELD_TERMS) <= 6
    assert measures.ing_modules(SOURCE) == FIELD_TERMS, "name the module by a noun for what it holds"


@pytest.mark.parametrize("package", measures.PACKAGES)
def test_functions_are_named_by_a_verb_with_its_object_or_by_a_noun(package: str) -> None:
    found = participles().get(package, [])
    assert len(found) <= PARTICIPLES[package], f"a participle says neither who nor what: {found}"


@pytest.mark.parametrize("package", measures.PACKAGES)
def test_public_classes_have_names_of_their_own(package: str) -> None:
    found = repeated_classes()[package]
    listed = REPEATED_CLASSES.get(package, frozenset())
    assert {name: paths for name, paths in found.items() if name not in listed} == {}
    assert sorted(listed - found.keys()) == [], "take it off the list"


def test_functions_fit_on_a_page() -> None:
    assert measures.long_functions(SOURCE, MOST_LINES_OF_A_FUNCTION) == {}


def test_files_are_not_too_long() -> None:
    assert measures.long_files(SOURCE, MOST_LINES_OF_A_FILE) == {}, "split it"


# --- planted faults: each measure finds what it is for, and nothing else ----------------------------------------------


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("told", True), ("_shown", True), ("settled", True), ("_unseen", True), ("opened", True),
        ("opened_at", False), ("need", False), ("feed", False), ("proceed", False), ("red", False), ("tell", False),
        ("shown_rows", False), ("seed", False),
    ],
)  # fmt: skip
def test_a_participle_is_noticed(name: str, wrong: bool) -> None:
    planted = {"one/planted.py": f"class Planted:\n    async def {name}(self) -> None: ...\n"}
    assert measures.is_participle(name) == wrong
    assert measures.participles(planted) == ({"one": [f"one/planted.py:2 {name}"]} if wrong else {})


def test_a_module_in_ing_is_noticed() -> None:
    planted = {
        "one/carrying.py": "",
        "one/string.py": "",
        "one/ing/core.py": "",
        "one/copy_making.py": "",
        "one/ringed.py": "",
    }
    assert measures.ing_modules(planted) == {"one/carrying.py", "one/copy_making.py"}


def test_a_second_class_of_a_name_is_noticed() -> None:
    planted = {
        "one/a.py": "class Found: ...\nclass _Found: ...\nclass Only: ...\n",
        "one/below/b.py": "def make():\n    class Found: ...\nclass _Found: ...\n",
        "two/c.py": "class Found: ...\nclass Only: ...\n",
    }
    assert measures.repeated_classes(planted) == {"one": {"Found": ["one/a.py", "one/below/b.py"]}, "two": {}}


def test_a_long_function_and_a_long_file_are_noticed() -> None:
    body = "".join(f"    a{n} = {n}\n" for n in range(9))
    planted = {"one/a.py": f"def short():\n{body}\n\ndef long():\n{body}    return\n"}
    assert measures.long_functions(planted, 10) == {"one/a.py long": 11}
    assert measures.long_files(planted, 22) == {"one/a.py": 23} and measures.long_files(planted, 23) == {}
