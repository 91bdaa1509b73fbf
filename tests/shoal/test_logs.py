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
    with pytest.raises(ConfigError, match='"xml" is no format of the log; there are text and json'):
        configure("xml", "n1")
