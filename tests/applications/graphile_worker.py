"""graphile-worker: a queue of jobs for Node in PL/pgSQL."""

from tests.applications.base import NodeApplication

APPLICATION = NodeApplication("graphile-worker", "0.17.3", ("pg@8.23.1",))
