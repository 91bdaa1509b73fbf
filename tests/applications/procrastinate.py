"""procrastinate: a queue of jobs for Python in PL/pgSQL."""

from tests.applications.base import PythonApplication

APPLICATION = PythonApplication("procrastinate", "3.10.0", ("psycopg[binary]",))
