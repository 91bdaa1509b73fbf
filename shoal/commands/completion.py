"""`shoal completion SHELL`: a script that completes commands, options, files and directories, written by shtab from the
command line's own parser."""

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
    """Has shtab complete what names a file or a directory, by its metavar."""
    for action in parser._actions:  # argparse has no public list of them
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _mark(command)
        elif action.metavar in _COMPLETED:
            action.complete = _COMPLETED[str(action.metavar)]  # type: ignore[attr-defined]
