"""A query past its limit of memory ends with 53200, and nobody else notices."""

from __future__ import annotations

import pathlib
import threading
import time

import psycopg

from tests.server import ShoalServer

TOO_MUCH = "SELECT length(string_agg(repeat('x', 1000), '')) FROM generate_series(1, 2000000)"


class SmallServer(ShoalServer):
    """Its analytic worker may use 100 MB."""

    def command(self) -> list[str]:
        config = pathlib.Path(self.data).parent / "small.toml"
        config.write_text(f"columnar_memory = {100 << 20}\n")
        return [*super().command(), "--config", str(config)]


def test_a_query_past_its_limit_ends_alone() -> None:
    with SmallServer() as server, psycopg.connect(server.dsn, autocommit=True) as other:
        other.execute("CREATE TABLE t AS SELECT g AS id, g % 10 AS v FROM generate_series(1, 20000) g")
        other.execute("ALTER TABLE t ADD PRIMARY KEY (id)")
        errors: list[str | None] = []

        def too_much() -> None:
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                try:
                    connection.execute(TOO_MUCH.encode())
                except psycopg.Error as error:
                    errors.append(error.sqlstate)
                    assert error.diag.message_hint is not None and "columnar_memory" in error.diag.message_hint
                assert connection.execute("SELECT v FROM t WHERE id = 17").fetchall() == [(7,)]

        threads = [threading.Thread(target=too_much) for _ in range(3)]
        other.execute("SELECT v, count(*) FROM t GROUP BY v")
        worker = server.workers()
        for thread in threads:
            thread.start()
        points = 0
        end = time.monotonic() + 200
        while any(thread.is_alive() for thread in threads) and time.monotonic() < end:
            assert other.execute("SELECT v FROM t WHERE id = 25").fetchall() == [(5,)]
            points += 1
            if points % 50 == 0:  # a small analytic query beside them
                assert other.execute(b"SELECT v, count(*) FROM t GROUP BY v ORDER BY v").fetchall()[0] == (0, 2000)
        for thread in threads:
            thread.join(1)
        assert errors == ["53200"] * 3
        assert points > 0
        assert other.execute("SELECT v, count(*) FROM t GROUP BY v ORDER BY v LIMIT 1").fetchall() == [(0, 2000)]
        assert server.workers() == worker  # the same process as before
