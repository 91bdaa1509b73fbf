"""The settings of the test process that commands change. Tests run commands of Shoal in their own process, and such a
command may refuse imports, quieten loggers, and change the mask of new files: the next test begins without that."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass

LOGGERS = ("shoal", "kazoo", "aiohttp.access")
REFUSAL = "engine.pandas_import"  # the module of the finder that refuses pandas


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The settings at one moment."""

    levels: tuple[int, ...]
    mask: int
    switch_interval: float  # seconds

    @staticmethod
    def now() -> ProcessState:
        """The present settings."""
        mask = os.umask(0o077)
        os.umask(mask)
        return ProcessState(tuple(logging.getLogger(name).level for name in LOGGERS), mask, sys.getswitchinterval())

    def restore(self) -> None:
        """Sets the process back to these settings."""
        for name, level in zip(LOGGERS, self.levels, strict=True):
            logging.getLogger(name).setLevel(level)
        os.umask(self.mask)
        sys.setswitchinterval(self.switch_interval)
        sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "__module__", "") != REFUSAL]
