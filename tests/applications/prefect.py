"""Prefect: flows, and the server that keeps them."""

from tests.applications.base import PythonApplication

APPLICATION = PythonApplication("prefect", "3.9.1")
