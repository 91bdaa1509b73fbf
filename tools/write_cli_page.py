"""Writes docs/cli.md: the commands with their options and examples, from the command line's own parser.

.venv/bin/python -m tools.write_cli_page
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Iterator

from shoal.cli import parser

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "cli.md"
_INTRODUCTION = """\
# The command line

<!-- run -->
```sh
shoal init --data ./shoal-data
shoal sql --data ./shoal-data "SELECT version()"
shoal serve --data ./shoal-data
shoal sql "SELECT 6 * 7"                            # from another terminal
```

- Results go to standard output. An error is one line on standard error; an error of a statement has its detail and hint
  on further lines. `--json` prints JSON for programs.
- Commands that connect to a server use 127.0.0.1:5432 unless `--dsn` or `--cluster` names another one. They use
  `PGPASSWORD`, `~/.pgpass` and `PGSSLMODE`, but not `PGHOST` and `PGPORT`.
- `shoal serve` reads its settings from a file, the environment and the command line: see [settings](settings.md).

`tools/write_cli_page.py` writes this page.

## Exit status
| | |
|---|---|
| 0 | success |
| 1 | failure, or a problem was found (`status`, `check`, `verify`, `doctor`): see the message |
| 2 | the command line is wrong: an unknown command or option, a missing argument |
| 70 | `shoal serve` stopped because commits could not be made durable, or because its memory could not be trusted |

## Completion
| shell | command |
|---|---|
| bash | `shoal completion bash > ~/.local/share/bash-completion/completions/shoal` |
| zsh, with `fpath+=(~/.zfunc)` before `compinit` in `~/.zshrc` | `shoal completion zsh > ~/.zfunc/_shoal` |
| fish | `shoal completion fish > ~/.config/fish/completions/shoal.fish` |

## Commands

"""


def page() -> str:
    """The page as it should be."""
    return _INTRODUCTION + "".join(_command(command) for command in _commands(parser())).rstrip("\n") + "\n"


def _commands(top: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


def _command(command: argparse.ArgumentParser) -> str:
    lines = [f"### {command.prog}", command.description or "", ""]
    actions = list(_commands(command))
    if actions:
        for action in actions:
            lines += [f"**`{action.prog}`**: {action.description}", "", *_options(action), ""]
    else:
        lines += [*_options(command), ""]
    if command.epilog:
        lines += ["```", command.epilog.strip(), "```", ""]
    return "\n".join([*lines, ""])


def _options(command: argparse.ArgumentParser) -> Iterator[str]:
    yield "| | |"
    yield "|---|---|"
    for action in command._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        shown = action.metavar or (f"{{{','.join(action.choices)}}}" if action.choices else action.dest.upper())
        name = ", ".join(action.option_strings) or str(shown)
        if action.option_strings and action.nargs != 0:
            name += f" {shown}"
        meaning = (action.help or "").replace("%(default)s", f"`{action.default}`")
        if action.option_strings and action.required:
            meaning += " (required)"
        yield f"| `{name}` | {meaning} |".replace("DIR|URL", "DIR\\|URL")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
