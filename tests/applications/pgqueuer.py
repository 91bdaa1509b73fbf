"""pgqueuer: a queue of jobs for Python."""

from tests.applications.base import PythonApplication

APPLICATION = PythonApplication("pgqueuer", "1.6.0", extra="[asyncpg]")
