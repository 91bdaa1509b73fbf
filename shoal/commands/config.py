"""`shoal config`: the settings in force, and the source of each."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import orjson

from shoal.commands.cluster_access import table
from shoal.config import Setting, without_credentials


def run(options: argparse.Namespace, settings: Sequence[Setting]) -> int:
    """Prints the settings, and returns the exit status."""
    if options.json:
        value = {
            setting.name: {"value": without_credentials(setting.value), "from": setting.source} for setting in settings
        }
        print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
    else:
        rows = [(setting.name, _format_setting(setting.value), setting.source) for setting in settings]
        print(table(("SETTING", "VALUE", "FROM"), rows))
    return 0


def _format_setting(value: object) -> str:
    if value == "":
        return "(none)"
    return str(value).lower() if isinstance(value, bool) else str(without_credentials(value))
