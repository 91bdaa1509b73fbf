"""Measures names and sizes in the product's source: modules, functions, classes, lines.

A *source* is a mapping from paths to texts, so that tests can measure planted texts as well as the product.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.tidy.sources import ROOT, nodes, parsed

PACKAGES = ("catalog", "engine", "replication", "shoal", "shoal_spark", "shoal_sqlglot", "wire")
IRREGULAR = frozenset(
    """
    begun bent bought bound bred broken brought built burnt caught chosen dealt done drawn driven eaten fallen felt
    forgotten fought found frozen given gone grown had heard held hidden hung kept known laid learnt led left lent lit
    lost made meant met overridden paid redone ridden risen said seen sent shaken shown slept sold sought spent spoken
    stolen stood struck stuck swept sworn swung taken taught thought thrown told torn undone understood unknown unread
    unseen unset untold unwritten wept withdrawn woken won worn wound written
    """.split()  # noqa: SIM905 - a list of single words would take a page
)
NOT_VERBS = frozenset(("string", "ring", "king", "thing"))
NOT_PARTICIPLES = frozenset(("need", "feed", "speed", "seed", "exceed", "proceed", "embed", "shed"))

Source = Mapping[str, str]


def product() -> dict[str, str]:
    """The texts of the product's modules by their paths."""
    return {
        str(path.relative_to(ROOT)): path.read_text()
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


def package_of(path: str) -> str:
    """The top-level package of a path."""
    return path.partition("/")[0]


def ing_modules(source: Source) -> set[str]:
    """The modules that are named by a verb in -ing."""
    words = {path: path.rpartition("/")[2].removesuffix(".py").rpartition("_")[2] for path in source}
    return {path for path, word in words.items() if word.endswith("ing") and word not in NOT_VERBS}


def is_participle(name: str) -> bool:
    """Whether a function's name is a past participle and nothing else: `told`, `_opened`; not `opened_at`."""
    word = name.strip("_")
    if "_" in word:
        return False
    return word in IRREGULAR or (word.endswith("ed") and len(word) > 4 and word not in NOT_PARTICIPLES)


def _functions(source: Source) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path, text in source.items():
        for node in nodes(parsed(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


def participles(source: Source) -> dict[str, list[str]]:
    """The functions that are named by a bare participle, by package."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, node in _functions(source):
        if is_participle(node.name):
            found[package_of(path)].append(f"{path}:{node.lineno} {node.name}")
    return found


def repeated_classes(source: Source) -> dict[str, dict[str, list[str]]]:
    """By package, the public class names that several classes have, with the paths of these."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path, text in source.items():
        for node in nodes(parsed(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[package_of(path)][node.name].append(path)
    return {
        package: {name: paths for name, paths in classes.items() if len(paths) > 1}
        for package, classes in found.items()
    }


def long_functions(source: Source, most: int) -> dict[str, int]:
    """The functions of more than so many lines, as `path name`, with their lines."""
    return {
        f"{path} {node.name}": lines
        for path, node in _functions(source)
        if (lines := (node.end_lineno or 0) - node.lineno + 1) > most
    }


def long_files(source: Source, most: int) -> dict[str, int]:
    """The modules of more than so many lines, with their lines."""
    return {path: lines for path, text in source.items() if (lines := text.count("\n")) > most}
