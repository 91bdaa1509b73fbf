"""Two connections, as for statements (tests/engine/session), each in a schema of its own."""

from tests.engine.session.conftest import pair

__all__ = ["pair"]
