"""Hibernate ORM."""

from tests.applications.base import MavenApplication

APPLICATION = MavenApplication("hibernate", "7.1.0")
