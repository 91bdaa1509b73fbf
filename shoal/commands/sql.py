"""`shoal sql`: runs a statement, a file, standard input or a prompt, on a server or a directory.

The statements of a file run one after the other. Each commits on its own unless the file has BEGIN. The first statement
that fails ends the command. The output is:

    text     a table for each result, then the number of rows; the command tag of a statement without a result
    --json   one JSON object a row, a line each; values as POST /sql formats them (wire/http.py)
    --csv    a header and the rows, as COPY (FORMAT csv, HEADER): NULL is empty, an empty string is ""
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

import orjson

from catalog.errors import SqlError
from engine.sql.dialects.names import SHOAL
from shoal.commands.cluster_access import plural, table
from shoal.commands.sql_channels import ChannelResult, Row, ServerChannel, SqlChannel
from shoal.commands.sql_errors import format_error
from shoal.commands.sql_text import statements_of
from shoal.config import ConfigError
from wire.json_values import encoder_of


def run(options: argparse.Namespace) -> int:
    """The exit status. Raises ConfigError, SqlError."""
    texts = _texts(options)
    channel = _open(options)
    text = ""
    try:
        if options.dialect != SHOAL:
            list(channel.run(f"SET sql_dialect = '{options.dialect}'"))
        if texts is None:
            from shoal.commands.sql_prompt import prompt

            return prompt(channel, lambda result: show(result, options), options.dialect)
        for text in texts:
            for result in channel.run(text):
                show(result, options)
        sys.stdout.flush()
        return 0
    except BrokenPipeError:  # `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        raise ConfigError("interrupted") from None
    except SqlError as error:
        raise ConfigError(format_error(error, text)) from error
    finally:
        channel.close()


def _open(options: argparse.Namespace) -> SqlChannel:
    def notice(text: str) -> None:
        print(text, file=sys.stderr)

    if options.data is not None:
        from shoal.commands.sql_directory import DirectoryChannel  # only a directory needs this import

        return DirectoryChannel(options.data, options.user, options.database, notice)
    return ServerChannel(options.dsn, notice)


def _texts(options: argparse.Namespace) -> list[str] | None:
    """The statements to run, or None for a prompt."""
    if options.statement is not None:
        text = options.statement
    elif options.file is not None:
        try:
            text = Path(options.file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read {options.file}: {getattr(error, 'strerror', None) or error}") from error
    elif sys.stdin.isatty():
        return None
    else:
        text = sys.stdin.read()
    ended, rest = statements_of(text, options.dialect)
    return [*ended, rest] if rest else ended


def show(result: ChannelResult, options: argparse.Namespace) -> None:
    """Prints a result. Raises ConfigError for duplicate column names, which JSON cannot represent."""
    if options.json:
        if result.columns:
            sys.stdout.write(_json(result))
    elif options.csv:
        if result.columns:
            names: Row = [name.encode() for name, _ in result.columns]
            sys.stdout.write("".join(_csv(row) for row in [names, *result.rows]))
    elif result.columns:
        rows = [[None if value is None else _one_line(value) for value in row] for row in result.rows]
        print(table([name for name, _ in result.columns], rows))
        print(f"({plural(len(rows), 'row')})")
    elif result.tag:
        print(result.tag)


def _one_line(value: bytes) -> str:
    return value.decode().replace("\n", "\\n")


def _json(result: ChannelResult) -> str:
    twice = [name for name, count in Counter(name for name, _ in result.columns).items() if count > 1]
    if twice:
        raise ConfigError(f'several columns are called "{twice[0]}": name them apart with AS, for JSON')
    fields = [(orjson.dumps(name), encoder_of(oid)) for name, oid in result.columns]
    lines = []
    for row in result.rows:
        members = (
            key + b":" + (b"null" if value is None else encode(value))
            for (key, encode), value in zip(fields, row, strict=True)
        )
        lines.append((b"{" + b",".join(members) + b"}").decode())
    return "".join(f"{line}\n" for line in lines)


def _csv(row: Row) -> str:
    return ",".join("" if value is None else _csv_value(value.decode()) for value in row) + "\n"


def _csv_value(text: str) -> str:
    plain = text and text != "\\." and not any(sign in text for sign in ',"\r\n')
    return text if plain else '"' + text.replace('"', '""') + '"'
