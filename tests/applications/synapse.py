"""Synapse: a homeserver of Matrix."""

from tests.applications.base import PythonApplication

APPLICATION = PythonApplication("matrix-synapse", "1.163.2", ("psycopg2-binary",), extra="[postgres]")
