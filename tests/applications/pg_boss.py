"""pg-boss: a queue of jobs for Node."""

from tests.applications.base import NodeApplication

APPLICATION = NodeApplication("pg-boss", "10.4.2", ())
