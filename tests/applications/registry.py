"""All applications, in the order in which they are driven."""

from __future__ import annotations

from tests.applications import drizzle_kit, graphile_worker, mlflow, procrastinate, sequelize, typeorm
from tests.applications.base import Application

APPLICATIONS: tuple[Application, ...] = (
    procrastinate.APPLICATION,
    graphile_worker.APPLICATION,
    sequelize.APPLICATION,
    typeorm.APPLICATION,
    drizzle_kit.APPLICATION,
    mlflow.APPLICATION,
)
