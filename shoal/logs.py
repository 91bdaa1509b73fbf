"""The server's log: lines on standard error, as text or as JSON. The program that starts the server keeps, sends and
rotates them (systemd's journal, Docker, Promtail).

    text   2026-11-20 18:00:00,123 shoal.statement ERROR division by zero session=4711 sqlstate=22012 ...
    json   {"time":"2026-11-20T18:00:00.123456Z","level":"error","logger":"shoal.statement","node":"n1",
           "message":"division by zero","session":4711,"sqlstate":"22012",...}

Other fields of a line are passed as `extra={"fields": {...}}`. A message is always one line, because names that clients
choose could otherwise forge log lines or move a terminal's cursor.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from shoal.config import ConfigError

FORMATS = ("text", "json")
_LINE = "%(asctime)s %(name)s %(levelname)s %(message)s"


class TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__(_LINE)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the standard library's name
        return one_line(super().formatMessage(record)) + "".join(
            f" {key}={_plain(item)}" for key, item in _fields(record).items()
        )

    def formatException(self, exc_info: Any) -> str:  # noqa: N802
        """Formats an exception with indented lines, so that no text of an error looks like a new line of the log."""
        return "\n".join("    " + one_line(line) for line in super().formatException(exc_info).split("\n"))


class JsonFormatter(logging.Formatter):
    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "node": self._node,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def configure(form: str, node: str) -> None:
    """Sends all log lines to standard error in this format. Raises ConfigError for an unknown format."""
    if form not in FORMATS:
        raise ConfigError(f'"{form}" is not a log format; the formats are {" and ".join(FORMATS)}')
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(node) if form == "json" else TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def one_line(text: str) -> str:
    """The text with whatever is no letter, sign or space of a line (control characters, separators of lines, marks that
    turn the direction of writing) as an escape: \\n, \\x1b, \\u2028."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    fields: Mapping[str, object] = getattr(record, "fields", {})
    return fields


def _plain(item: object) -> str:
    text = str(item)
    return (
        text
        if text and text.isprintable() and " " not in text and '"' not in text
        else one_line(orjson.dumps(text).decode())
    )
