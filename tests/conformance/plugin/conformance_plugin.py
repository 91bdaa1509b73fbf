"""A pytest plugin, loaded into the suites of others: a line for each test as it ends, so that a run that is cut short
has told what it did. $CONFORMANCE_RESULTS names the file; a line is JSON: [test, outcome, cause]."""

from __future__ import annotations

import json
import os
from typing import Any


def pytest_runtest_logreport(report: Any) -> None:
    """A test has set-up, call and tear-down; it passes if its call does and neither of the others fails."""
    if report.when == "call" or report.outcome != "passed":
        cause = ""
        if report.outcome != "passed":
            crash = getattr(report.longrepr, "reprcrash", None)
            cause = crash.message if crash is not None else str(report.longrepr)
        _tell(report.nodeid, report.outcome, cause)


def pytest_collectreport(report: Any) -> None:
    """A module that cannot be imported."""
    if report.outcome == "failed":
        _tell(report.nodeid, "failed", str(report.longrepr))


def _tell(test: str, outcome: str, cause: str) -> None:
    with open(os.environ["CONFORMANCE_RESULTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps([test, outcome, cause]) + "\n")
