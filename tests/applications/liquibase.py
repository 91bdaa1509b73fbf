"""Liquibase."""

from tests.applications.base import MavenApplication

APPLICATION = MavenApplication("liquibase", "4.33.0")
