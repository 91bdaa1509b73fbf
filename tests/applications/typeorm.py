"""TypeORM: an ORM for TypeScript and JavaScript."""

from tests.applications.base import NodeApplication

APPLICATION = NodeApplication("typeorm", "1.1.1", ("pg@8.23.1", "pg-query-stream", "reflect-metadata"))
