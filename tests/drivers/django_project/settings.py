"""The project's settings. SHOAL_TEST_PORT, SHOAL_TEST_SCHEMA: the server, and the schema that everything is in."""

from __future__ import annotations

import os

SECRET_KEY = "for tests"
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.postgres",
    "tests.drivers.django_project.shop",
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": "127.0.0.1",
        "PORT": os.environ.get("SHOAL_TEST_PORT", "5432"),
        "USER": "postgres",
        "NAME": "postgres",
        "OPTIONS": {"options": f"-c search_path={os.environ.get('SHOAL_TEST_SCHEMA', 'public')}"},
    }
}
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
