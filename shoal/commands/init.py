"""`shoal init`: creates an empty database in a new directory. `shoal serve` also does that. This command does it
without starting a server, and can set the superuser's password before any client can connect."""

from __future__ import annotations

import argparse
from pathlib import Path

import orjson

from shoal.config import ConfigError
from shoal.embedded.connection import with_literals
from shoal.embedded.database import Database
from shoal.embedded.errors import Error


def run(options: argparse.Namespace) -> int:
    """The exit status. Raises ConfigError if the directory is not empty or cannot be written."""
    directory = Path(options.data)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigError(f"{directory} exists and is not empty: choose another directory for the database")
    password = ""
    if options.password_file is not None:
        password = Path(options.password_file).read_text(encoding="utf-8").rstrip("\r\n")
        if not password:
            raise ConfigError(f"{options.password_file} has no password in its first line")
    try:
        with Database(directory, "postgres", "postgres", {}) as database:
            if password:
                database.execute(with_literals("ALTER ROLE postgres PASSWORD %s", (password,)))
    except Error as error:
        raise ConfigError(str(error)) from error
    if options.json:
        print(orjson.dumps({"data": str(directory.absolute()), "password": bool(password)}).decode())
    else:
        print(f"created {directory}; start a server with: shoal serve --data {directory}")
    return 0
