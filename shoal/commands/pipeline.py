"""`shoal pipeline`: jobs on Spark. Spark is an optional dependency. Without it, the jobs that need it raise an error
that says how to install it."""

from __future__ import annotations

import argparse

from shoal.config import ConfigError


def run(options: argparse.Namespace) -> int:
    """Runs a job, and returns the exit status. Raises ConfigError, SqlError."""
    if options.action == "compact" and options.master is None:
        from shoal.commands import compact

        return compact.run(options)
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise ConfigError("Spark is not installed here: pip install 'shoal[spark]', and Java 17 or newer") from None
    from shoal.commands import pipeline_jobs

    return pipeline_jobs.run(options)
