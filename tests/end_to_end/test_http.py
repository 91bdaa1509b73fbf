"""SQL over HTTP through the router."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from shoal.router import serve_http
from tests.end_to_end.router_thread import RouterThread, registered
from tests.server import ShoalServer
from wire.router import Router


class HttpThread(RouterThread):
    """A router with SQL over HTTP on `http_port`."""

    http_port = 0

    async def started(self, router: Router) -> None:
        self._door = contextlib.AsyncExitStack()
        url = await self._door.enter_async_context(serve_http(router, "127.0.0.1:0"))
        self.http_port = int(url.split(":")[2].split("/")[0])

    async def stopping(self) -> None:
        await self._door.aclose()

    def ask(
        self, body: object, headers: dict[str, str] | None = None, path: str = "/sql", method: str = "POST"
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=30)
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, sent, {"Content-Type": "application/json", **(headers or {})})
        with contextlib.closing(connection):
            response = connection.getresponse()
            return response.status, json.loads(response.read())

    def rows(self, sql: str, *parameters: object) -> Any:
        status, answer = self.ask({"sql": sql, "parameters": list(parameters)})
        assert status == 200, answer
        return answer["rows"]


@pytest.fixture(scope="module")
def door(shoal: ShoalServer) -> Iterator[HttpThread]:
    with HttpThread(registered("one", shoal)) as thread:
        yield thread


def test_rows_come_with_their_columns_and_types(door: HttpThread) -> None:
    assert door.ask({"sql": "SELECT 1 AS a, 'x' AS b, NULL AS c, true AS d"}) == (
        200,
        {
            "columns": [
                {"name": "a", "type": "int4"},
                {"name": "b", "type": "text"},
                {"name": "c", "type": "text"},
                {"name": "d", "type": "bool"},
            ],
            "rows": [[1, "x", None, True]],
            "command": "SELECT 1",
            "rowcount": 1,
        },
    )


def test_plain_text_is_a_statement(door: HttpThread) -> None:
    status, answer = door.ask(b"SELECT 1 + 1", {"Content-Type": "text/plain"})
    assert (status, answer["rows"]) == (200, [[2]])


def test_values_that_json_cannot_hold_stay_strings(door: HttpThread) -> None:
    sql = "SELECT 9007199254740991::int8, 9007199254740992::int8, (-9007199254740992)::int8, 1.10, 0.1::float8"
    assert door.rows(sql) == [[9007199254740991, "9007199254740992", "-9007199254740992", "1.10", 0.1]]
    assert door.rows("SELECT 'NaN'::float8, '-Infinity'::float4, 1e300::float8") == [["NaN", "-Infinity", 1e300]]
    assert door.rows("""SELECT '{"a": [1, null]}'::jsonb, '[1]'::json, '2020-01-02'::date, ARRAY[1,2]""") == [
        [{"a": [1, None]}, [1], "2020-01-02", "{1,2}"]
    ]
    assert door.rows("SELECT E'quote \" and \\\\ and \\n', 'ü€'") == [['quote " and \\ and \n', "ü€"]]


def test_parameters_are_read_by_their_types(door: HttpThread) -> None:
    sql = "SELECT $1::int + 1, $2::text, $3::bool, $4::numeric, $5::int[], $6::jsonb, $7::text[]"
    values = [41, "it's", False, "1.50", [1, None, 3], {"a": [1.5]}, ['a"b', "NULL", "c\\d"]]
    assert door.rows(sql, *values) == [
        [42, "it's", False, "1.50", "{1,NULL,3}", {"a": [1.5]}, '{"a\\"b","NULL","c\\\\d"}']
    ]
    assert door.rows("SELECT $1::text", None) == [[None]]


def test_numbers_keep_all_of_their_digits(door: HttpThread) -> None:
    body = (
        b'{"sql": "SELECT $1::numeric, $2::numeric", "parameters": [12345678901234567890123, 0.10000000000000000001]}'
    )
    assert door.ask(body)[1]["rows"] == [["12345678901234567890123", "0.10000000000000000001"]]


def test_changes_are_committed_and_counted(door: HttpThread, shoal: ShoalServer) -> None:
    door.rows("DROP TABLE IF EXISTS over_http")
    assert door.ask({"sql": "CREATE TABLE over_http (a int)"})[1]["command"] == "CREATE TABLE"
    _, answer = door.ask({"sql": "INSERT INTO over_http SELECT generate_series(1, 5)"})
    assert (answer["command"], answer["rowcount"], answer["rows"]) == ("INSERT 0 5", 5, [])
    with psycopg.connect(shoal.dsn) as connection:
        assert connection.execute("SELECT count(*) FROM over_http").fetchone() == (5,)


ERRORS = [
    ({"sql": "SELEC 1"}, 400, "42601"),
    ({"sql": "SELECT 1; SELECT 2"}, 400, "42601"),
    ({"sql": "SELECT 1/0"}, 400, "22012"),
    ({"sql": "SELECT $1::int", "parameters": []}, 400, "08P01"),
    ({"sql": "SELECT $1::int", "parameters": ["x"]}, 400, "22P02"),
    ({"sql": "SELECT 1", "database": "nowhere"}, 404, "3D000"),
    ({"sql": "SELECT 1", "user": "nobody"}, 403, "28000"),
    ({"sql": "COPY (SELECT 1) TO STDOUT"}, 501, "0A000"),
    ({"sql": "SELECT 1", "colour": "blue"}, 400, "22023"),
    ({"sql": 1}, 400, "22023"),
    ([], 400, "22023"),
    (b"{", 400, "22P02"),
    (b"[" * 100_000, 400, "22P02"),
    (b'{"sql": NaN}', 400, "22P02"),
    ({"sql": "SELECT '\0'"}, 400, "22021"),
    ({"sql": "SELECT '\ud800'"}, 400, "22021"),
    ({"sql": "SELECT 1", "database": "a\0b"}, 400, "22021"),
]


@pytest.mark.parametrize(("body", "status", "sqlstate"), ERRORS)
def test_errors_have_their_sqlstate_and_a_status(door: HttpThread, body: object, status: int, sqlstate: str) -> None:
    found, answer = door.ask(body)
    assert (found, answer["error"]["sqlstate"]) == (status, sqlstate)


def test_an_error_tells_its_position_and_hint(door: HttpThread) -> None:
    error = door.ask({"sql": "SELECT nothing FROM pg_class"})[1]["error"]
    assert error["severity"] == "ERROR" and error["position"] == 8 and "nothing" in error["message"]
    assert set(error) == {"severity", "sqlstate", "message", "detail", "hint", "position"}


def test_a_duplicate_key_is_a_conflict(door: HttpThread) -> None:
    door.rows("DROP TABLE IF EXISTS twice")
    door.rows("CREATE TABLE twice (a int PRIMARY KEY)")
    door.rows("INSERT INTO twice VALUES (1)")
    assert door.ask({"sql": "INSERT INTO twice VALUES (1)"})[0] == 409


def test_a_large_result_is_streamed(door: HttpThread) -> None:
    answer = door.rows("SELECT a, repeat('x', 100) FROM generate_series(1, 50000) a")
    assert len(answer) == 50_000 and answer[-1] == [50_000, "x" * 100]


def test_an_error_behind_the_first_rows_stands_at_the_end(door: HttpThread) -> None:
    status, answer = door.ask({"sql": "SELECT 1 / (200000 - a), repeat('x', 50) FROM generate_series(1, 400000) a"})
    assert answer["error"]["sqlstate"] == "22012"
    assert status == 400 or answer["rows"]


def test_a_client_that_goes_away_cancels_its_statement(door: HttpThread, shoal: ShoalServer) -> None:
    sql = "SELECT count(*) FROM generate_series(1, 200000) a, generate_series(1, 200000) b WHERE a.a # b.b = 5"
    connection = http.client.HTTPConnection("127.0.0.1", door.http_port)
    connection.request("POST", "/sql", json.dumps({"sql": sql}), {"Content-Type": "application/json"})
    with psycopg.connect(shoal.dsn, autocommit=True) as other:
        running = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shoal router' AND state = 'active'"
        wait_until(lambda: other.execute(running).fetchone() == (1,))
        connection.close()
        wait_until(lambda: other.execute(running).fetchone() == (0,))


def wait_until(holds: Any, limit: float = 15.0) -> None:
    end = time.monotonic() + limit
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_pages_and_other_hosts_are_refused(door: HttpThread) -> None:
    body = {"sql": "SELECT 1"}
    assert door.ask(body, {"Origin": "http://evil.example"})[0] == 403
    assert door.ask(body, {"Host": "evil.example"})[0] == 403
    assert door.ask(body, {"Host": f"localhost:{door.http_port}"})[0] == 200
    assert door.ask(b"SELECT 1", {"Content-Type": "application/x-www-form-urlencoded"})[0] == 400


def test_health_lists_the_nodes(door: HttpThread) -> None:
    status, answer = door.ask(b"", path="/health", method="GET")
    assert (status, answer["stale"]) == (200, False)
    assert [node["node"] for node in answer["nodes"] if node["answers"]] == ["one"]


def test_without_a_node_it_is_503() -> None:
    with HttpThread(deadline=0.2) as door:
        status, answer = door.ask({"sql": "SELECT 1"})
        assert (status, answer["error"]["sqlstate"]) == (503, "57P03")
        assert door.ask(b"", path="/health", method="GET")[0] == 503
