"""All applications, in the order in which they are driven."""

from __future__ import annotations

from tests.applications import (
    apache_superset,
    drizzle_kit,
    graphile_worker,
    hibernate,
    mlflow,
    prefect,
    procrastinate,
    river,
    sequelize,
    synapse,
    typeorm,
)
from tests.applications.base import Application

APPLICATIONS: tuple[Application, ...] = (
    procrastinate.APPLICATION,
    graphile_worker.APPLICATION,
    sequelize.APPLICATION,
    typeorm.APPLICATION,
    drizzle_kit.APPLICATION,
    hibernate.APPLICATION,
    mlflow.APPLICATION,
    apache_superset.APPLICATION,
    synapse.APPLICATION,
    prefect.APPLICATION,
    river.APPLICATION,
)
