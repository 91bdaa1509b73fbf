"""drizzle-kit: the migrations of Drizzle ORM."""

from tests.applications.base import NodeApplication

APPLICATION = NodeApplication("drizzle-kit", "0.31.11", ("drizzle-orm@0.45.4", "pg@8.23.1"), scripts=True)
