"""All applications, in the order in which they are driven."""

from __future__ import annotations

from tests.applications import (
    apache_superset,
    django,
    drizzle_kit,
    graphile_worker,
    hibernate,
    liquibase,
    mlflow,
    pg_boss,
    pgqueuer,
    prefect,
    procrastinate,
    river,
    sequelize,
    synapse,
    typeorm,
)
from tests.applications.base import Application

APPLICATIONS: tuple[Application, ...] = (
    django.APPLICATION,
    procrastinate.APPLICATION,
    graphile_worker.APPLICATION,
    sequelize.APPLICATION,
    typeorm.APPLICATION,
    drizzle_kit.APPLICATION,
    hibernate.APPLICATION,
    liquibase.APPLICATION,
    mlflow.APPLICATION,
    apache_superset.APPLICATION,
    synapse.APPLICATION,
    prefect.APPLICATION,
    pg_boss.APPLICATION,
    pgqueuer.APPLICATION,
    river.APPLICATION,
)
