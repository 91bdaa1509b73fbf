"""A test begins with the settings that its process had at the start, whatever a command has changed."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys

from engine.pandas_import import refuse_pandas
from tests.process_state import ProcessState


def test_settings_are_put_back() -> None:
    before = ProcessState.now()
    refuse_pandas()
    logging.getLogger("shoal").setLevel(logging.CRITICAL)
    os.umask(0o777)
    sys.setswitchinterval(0.5)
    assert ProcessState.now() != before
    before.restore()
    assert ProcessState.now() == before
    assert importlib.util.find_spec("pandas") is not None
