"""Django with django.contrib.postgres."""

from tests.applications.base import PythonApplication

APPLICATION = PythonApplication("django", "5.2.19", ("psycopg[binary]",))
