"""Superset's configuration: its metadata are in the database that is tried."""

import os

SECRET_KEY = "x" * 42
SQLALCHEMY_DATABASE_URI = os.environ["DATABASE_URL"].replace("postgresql:", "postgresql+psycopg2:")
RATELIMIT_ENABLED = False
WTF_CSRF_ENABLED = False
TALISMAN_ENABLED = False
PREVENT_UNSAFE_DB_CONNECTIONS = False
FEATURE_FLAGS = {"TAGGING_SYSTEM": True, "ALERT_REPORTS": True}
