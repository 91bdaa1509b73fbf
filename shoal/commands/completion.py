"""`shoal completion SHELL`: prints a script that completes commands, options, files and directories. shtab generates it
from the parser of the command line."""

from __future__ import annotations

import argparse

import shtab

_COMPLETED = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY}


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script for a shell."""
    _mark(parser)
    text: str = shtab.complete(parser, shell)
    return text


def _mark(parser: argparse.ArgumentParser) -> None:
    """Makes shtab complete files or directories for the arguments whose metavar names one."""
    for action in parser._actions:  # argparse has no public list of the actions
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _mark(command)
        elif action.metavar in _COMPLETED:
            action.complete = _COMPLETED[str(action.metavar)]  # type: ignore[attr-defined]
