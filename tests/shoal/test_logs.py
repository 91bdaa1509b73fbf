"""The two forms of the log."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from shoal.config import ConfigError
from shoal.logs import JsonFormatter, TextFormatter, configure


def _record(message: str, **fields: object) -> logging.LogRecord:
    record = logging.LogRecord("shoal.x", logging.WARNING, "", 0, message, ("a",), None)
    record.fields = fields
    return record


def test_json_is_one_object_a_line() -> None:
    record = _record("two\nlines of %s", session=5, text='say "é"')
    line = JsonFormatter("n1").format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "warning", "logger": "shoal.x", "node": "n1", "message": "two\nlines of a", "session": 5,
        "text": 'say "é"',
    }  # fmt: skip


def test_json_keeps_a_traceback() -> None:
    record = _record("failed in %s")
    try:
        raise ValueError("why")
    except ValueError:
        record.exc_info = sys.exc_info()
    assert "ValueError: why" in json.loads(JsonFormatter("n1").format(record))["exception"]


def test_text_has_the_fields_behind_the_message() -> None:
    line = TextFormatter().format(_record("took %s", session=5, statement="SELECT $1", empty="", split="a\nb"))
    assert line.endswith('shoal.x WARNING took a session=5 statement="SELECT $1" empty="" split="a\\nb"')


def test_an_unknown_format_is_one_clear_line() -> None:
    with pytest.raises(ConfigError, match='"xml" is not a log format; the formats are text and json'):
        configure("xml", "n1")


CONTROLS = [chr(n) for n in (*range(32), *range(127, 160), 0x2028, 0x2029, 0x202E, 0x2066, 0x200B, 0xFEFF)]


@pytest.mark.parametrize("letter", CONTROLS, ids=ascii)
def test_a_line_of_text_stays_one_whatever_is_in_it(letter: str) -> None:
    """Names come from clients that have not said yet who they are."""
    forged = f"no{letter}2026-11-20 18:00:00,123 shoal.statement ERROR forged"
    record = _record(f"role {forged} of %s", name=forged)
    try:
        raise ValueError(forged)
    except ValueError:
        record.exc_info = sys.exc_info()
    text = TextFormatter().format(record)
    assert letter == "\n" or letter not in text
    first, *rest = text.split("\n")
    assert ascii(letter)[1:-1] in first and first.count("forged") == 2
    assert all(line.startswith("    ") for line in rest) and "forged" in rest[-1]
    assert all(line.isprintable() for line in (first, *rest))
    found = json.loads(JsonFormatter("n1").format(record))
    assert found["message"] == f"role {forged} of a"


def test_other_letters_stay_as_they_are() -> None:
    assert "rôle 名前 🐟 \\n of a" in TextFormatter().format(_record("rôle 名前 🐟 \\n of %s"))
