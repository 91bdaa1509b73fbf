"""What users read is plain English: the pages, the help of every command, the console's texts and the messages.

Phrases that a translation from German brings along, each with what to write in its place. They are looked for in every
text that a user can meet, so that none comes back; PostgreSQL's own messages are PostgreSQL's.
"""

from __future__ import annotations

import argparse
import ast
import pathlib
import re
from collections.abc import Iterator

import pytest

from shoal.cli import parser
from tests.docs.running import ROOT

PHRASES = {
    r"\bfor ever\b": "until it is stopped",
    r"\b(is|are|was|were) gone on\b": "continues",
    r"\b(go|goes|going|went) on\b(?! (disk|the disk|a |an |the |strike))": "continue, keep",
    r"\bbroken? off\b": "interrupted",
    r"\banew\b": "again, re-",
    r"\bwhoever\b": "anyone who, the role that",
    r"\bneeds? that not\b": "does not need this",
    r"\bnobody serves\b": "of a stopped server",
    r"\b(begin|begins|start|starts|read|reads|reading|everything|every one|one|LSN) behind\b": "after",
    r"\bbehind (this|that|which|its|the last|the stream's) (LSN|position|one|of|name)": "after",
    r"\b(member|node|replica) (less|more)\b": "remove a, add a",
    r"(?<!there )(?<!There )\b(is|are) no (?!longer|more\b|other\b|further|need\b|\d|less\b|such)": "is not a",
    r"\b(let|lets|is let|are let) go\b": "release, delete",
    r"\bread once more\b": "refresh",
    r"\bas it stands\b": "unchanged",
    r"\bso is it\b|\bSo it is\b": "the same holds for",
    r"\b(of|as of|from) then\b(?! on)": "of that time",
    r"\b(the|an|another) moment that [^.]{0,30} is of\b": "of a snapshot",
    r"\bWho (?!may\b|can\b|is\b.*\?)[a-z]+ [^?]*$": "a role that, clients that",
    r"[.;:] [Ww]ho (wants|needs|has|only|fits|is|asks|reads|writes)\b": "a role that, clients that",
    r"\bwere given\b": "got N",
    r"\b(a|an|the) [a-z]+ that it may be\b": "if it is",
}
# PostgreSQL's own words.
NOT_OURS = ("more bind parameters were given", "must be quoted")


def phrases(text: str) -> list[str]:
    """What is to be said otherwise in a text."""
    flat = " ".join(text.split())
    return [
        f"{found[0]!r} in {flat[max(0, found.start() - 40) : found.end() + 40]!r}: {instead}"
        for pattern, instead in PHRASES.items()
        for found in re.finditer(pattern, flat)
    ]


def help_texts(command: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Every text of a command and of those below it."""
    for text in (command.description, command.epilog):
        if text:
            yield command.prog, text
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                yield f"{command.prog} {choice.dest}", choice.help or ""
            for below in action.choices.values():
                yield from help_texts(below)
        elif action.help:
            yield f"{command.prog} {'/'.join(action.option_strings) or action.dest}", action.help


def strings(source: str) -> Iterator[str]:
    """The texts in a Python source that are no docstrings; of an f-string, what stands between its values."""
    tree = ast.parse(source)
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    silent = {id(node.value) for node in statements if isinstance(node.value, ast.Constant)}
    inside = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            yield "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent | inside:
            yield node.value


PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page: pathlib.Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [found for paragraph in text.split("\n\n") for found in phrases(paragraph)] == []


def test_help_of_every_command() -> None:
    told = [f"{where}: {found}" for where, text in help_texts(parser()) for found in phrases(text)]
    assert told == []


@pytest.mark.parametrize("package", ["shoal", "shoal_spark", "wire", "engine", "replication", "catalog"])
def test_messages(package: str) -> None:
    told = []
    for path in sorted((ROOT / package).rglob("*.py")):
        for text in strings(path.read_text(encoding="utf-8")):
            if " " in text and not any(words in text for words in NOT_OURS):
                told += [f"{path.relative_to(ROOT)}: {found}" for found in phrases(text)]
    assert told == []


def test_texts_of_the_console() -> None:
    told = []
    for path in sorted((ROOT / "shoal" / "console" / "web" / "src").glob("*.ts*")):
        text = re.sub(r"/\*.*?\*/|^\s*//.*$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        told += [f"{path.name}: {found}" for found in phrases(text)]
    assert told == []


@pytest.mark.parametrize(
    "text",
    [
        "a backup that was broken off is gone on from", "wait for more, for ever", "a temporary view needs that not",
        "begin behind this LSN", "one member less, of more than E", "x is no directory of a Shoal server",
        "The worker makes it anew", "a directory that nobody serves", "Who only uses Shoal needs no Node.js.",
        "the first decides; who fits none is refused", "what was printed is let go",
    ],
)  # fmt: skip
def test_such_phrases_are_found(text: str) -> None:
    assert phrases(text)


@pytest.mark.parametrize(
    "text",
    [
        "there is no table x", "the member is no longer needed", "entries behind the head of tablespace x",
        "who may connect from where", "the file goes on disk", "a follower is 5 s behind",
    ],
)  # fmt: skip
def test_plain_words_are_not(text: str) -> None:
    assert not phrases(text)
