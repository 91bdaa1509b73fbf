"""Splits a text into statements by psql's rules (PostgreSQL 16, psqlscan.l). A statement ends at a semicolon outside of
quotes, comments, parentheses and the body of a function in standard SQL (BEGIN ATOMIC ... END). Strings are read with
standard_conforming_strings = on. In another dialect, its rules for strings and comments apply.
"""

from __future__ import annotations

import re

from catalog.errors import SqlError
from engine.sql.dialects.names import SHOAL, TRAITS

_TOKEN = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*)
  | (?P<quoted>(?<![\w$])[eE]'(?:[^'\\]|''|\\.)*(?P<end_e>')?|'[^']*(?P<end_s>')?|"[^"]*(?P<end_i>")?)
  | (?P<dollar>(?<![\w$])\$(?:[^\W\d]\w*)?\$)
  | (?P<word>[^\W\d][\w$]*)
  | (?P<sign>[();])
    """,
    re.X | re.S,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")
_WITH_BODY = {"FUNCTION", "PROCEDURE"}


def statements_of(text: str, dialect: str) -> tuple[list[str], str]:
    """The statements of a text in a dialect. A text that cannot be split is returned whole, so that the server reports
    the error."""
    if dialect == SHOAL:
        return statements(text)
    from engine.sql.dialects.reader import pieces  # an import of sqlglot takes a third of a second

    try:
        found = list(pieces(text, TRAITS[dialect]))
    except SqlError:
        return [], text.strip()
    ends = [text.find(";", piece.end) for piece in found]
    ended = [piece.text(text) for piece, end in zip(found, ends, strict=True) if end >= 0]
    return ended, "" if len(ended) == len(found) else text[found[-1].start :].strip()


def statements(text: str) -> tuple[list[str], str]:
    """The complete statements, without their semicolons, and the rest, which is '' if it has only space and
    comments."""
    found: list[str] = []
    start = position = 0
    depth = body = 0
    words: list[str] = []
    anything = False
    while (token := _TOKEN.search(text, position)) is not None:
        anything = anything or bool(text[position : token.start()].strip())
        position = token.end()
        if token["comment"]:
            if token["comment"] == "/*":
                position = _after_comment(text, position)
            continue
        if token["dollar"]:
            end = text.find(token["dollar"], position)
            position = len(text) if end < 0 else end + len(token["dollar"])
        elif token["word"]:
            word = token["word"].upper()
            words = [*words, word][:4]
            body = _in_body(words, word, body)
        elif token["sign"] == ";" and depth <= 0 and not body:
            if anything:
                found.append(text[start : token.start()].strip())
            start, depth, words, anything = position, 0, [], False
            continue
        elif token["sign"]:
            depth += {"(": 1, ")": -1}.get(token["sign"], 0)
        anything = True
    rest = text[start:].strip()
    return found, rest if anything or text[position:].strip() else ""


def _in_body(words: list[str], word: str, body: int) -> int:
    """The number of open BEGINs and CASEs in a CREATE FUNCTION or PROCEDURE."""
    if words[0] != "CREATE" or not _WITH_BODY & set(words):
        return 0
    if word == "BEGIN" or (word == "CASE" and body):
        return body + 1
    return body - 1 if word == "END" and body else body


def _after_comment(text: str, position: int) -> int:
    """The position after a comment. Comments nest."""
    depth = 1
    while depth and (mark := _COMMENT_MARK.search(text, position)) is not None:
        depth += 1 if mark[0] == "/*" else -1
        position = mark.end()
    return position if depth == 0 else len(text)
