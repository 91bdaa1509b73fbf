"""A server whose analytic worker saves columns soon after a change, and soon again where that has failed; a careless
one does so whatever room there is.

python -m tests.end_to_end.quick_saves [careless] (what the worker is given)
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from tests.server import ShoalServer

MODULE, WORKER = "tests.end_to_end.quick_saves", "engine.columnar.worker"
IDLE_SECONDS, AGAIN_SECONDS = 0.2, 0.5
_PRELUDE = "import sys; from {} import use; use({}); from shoal.cli import main; sys.exit(main(sys.argv[1:]))"


class QuickServer(ShoalServer):
    """`settings`: lines of its configuration file."""

    settings = ""
    worker = MODULE.encode()
    careless = False

    def command(self) -> list[str]:
        python, _, _, *arguments = super().command()
        config = self.data.with_name("quick.toml")
        config.write_text(self.settings)
        return [python, "-c", _PRELUDE.format(MODULE, self.careless), *arguments, "--config", str(config)]


def use(careless: bool = False) -> None:
    """Workers that this process starts from now on are such."""
    from engine.columnar import ahead, worker_process

    ahead.AGAIN_SECONDS = worker_process.BROKEN_SECONDS = AGAIN_SECONDS
    instead = [MODULE, "careless"] if careless else [MODULE]
    start = subprocess.Popen

    class Quick(start):  # type: ignore[misc,valid-type]
        def __init__(self, command: Any, **more: Any) -> None:
            if WORKER in command:
                place = command.index(WORKER)
                command = [*command[:place], *instead, *command[place + 1 :]]
            super().__init__(command, **more)

    subprocess.Popen = Quick  # type: ignore[misc]


def main() -> None:
    from engine.columnar.worker import __main__, columns_file

    if sys.argv[1] == "careless":
        del sys.argv[1]
        columns_file.LEAST_FREE = columns_file.LEAST_FREE_TO_BUILD = 0
    columns_file.SAVE_IDLE_SECONDS, columns_file.SAVE_AGAIN_SECONDS = IDLE_SECONDS, AGAIN_SECONDS
    __main__.main()


if __name__ == "__main__":
    main()
