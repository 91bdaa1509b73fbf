"""Superset with its metadata in Shoal."""

from tests.applications.base import PythonApplication

# What the release leaves open, in versions that it runs with.
_BESIDE = ("psycopg2-binary", "rich", "cachetools", "flask-caching<2.4", "marshmallow<4")
APPLICATION = PythonApplication("apache-superset", "6.1.0", _BESIDE, seconds=600.0)
