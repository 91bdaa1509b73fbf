"""Sequelize: an ORM for Node, with sequelize-cli."""

from tests.applications.base import NodeApplication

APPLICATION = NodeApplication("sequelize", "6.37.8", ("sequelize-cli@6.6.5", "pg@8.23.1", "pg-hstore@2.3.4"))
