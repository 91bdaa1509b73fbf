"""The console's API: who gets in, what a role may see, and what statements give."""

from __future__ import annotations

import http.client
import pathlib
import threading
import time

import psycopg
import pytest

from tests.replication.stores.certificates import make_certificate
from tests.shoal.console.server import ApiClient, ConsoleServer

POSTS = ["/api/sql", "/api/sql/cancel", "/api/sql/close", "/api/sessions/cancel", "/api/sessions/terminate"]

# ---- who gets in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/view/cluster", "/api/view/activity", "/api/view/nothing"])
def test_without_a_login_nothing_is_shown(api: ApiClient, path: str) -> None:
    assert api.get(path) == (401, {"error": {"sqlstate": "28000", "message": "log in first"}})


@pytest.mark.parametrize("path", [*POSTS, "/api/logout"])
def test_without_a_login_nothing_is_done(api: ApiClient, path: str) -> None:
    assert api.post(path, {"tab": "one", "sql": "SELECT 1", "pid": 1})[0] == 401


def test_a_made_up_cookie_is_no_login(api: ApiClient, owner: ApiClient) -> None:
    (name,) = owner.cookies
    api.cookies = {name: "x" * 43}
    assert api.get("/api/view/cluster")[0] == 401
    assert api.get("/api/session") == (200, None)


def test_the_right_password_logs_in_and_the_cookie_is_out_of_reach_of_scripts(api: ApiClient) -> None:
    status, answer = api.log_in("ann", "right")
    assert (status, answer["user"], answer["database"]) == (200, "ann", "postgres")
    flags = {part.strip().lower() for part in api.set_cookie.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= flags
    assert api.rows("SELECT current_user") == [["ann"]]
    assert api.get("/api/session")[1]["token"] == api.token


def test_a_wrong_password_gives_one_clear_line(api: ApiClient) -> None:
    status, answer = api.log_in("ann", "wrong")
    assert status == 403
    assert answer["error"]["message"] == 'password authentication failed for user "ann"'
    assert not api.cookies


def test_a_verifier_is_no_password(console: ConsoleServer, api: ApiClient) -> None:
    with psycopg.connect(console.dsn) as connection:
        row = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'ann'").fetchone()
    assert row is not None
    assert api.log_in("ann", row[0])[0] == 403


def test_an_unknown_role_and_a_wrong_password_get_the_same_answer(api: ApiClient) -> None:
    status, answer = api.log_in("nobody", "wrong")
    assert (status, answer["error"]["message"]) == (403, 'password authentication failed for user "nobody"')


def test_an_unknown_database_is_named(api: ApiClient) -> None:
    status, answer = api.log_in(database="missing")
    assert (status, answer["error"]["message"]) == (404, 'database "missing" does not exist')


def test_a_role_without_login_stays_outside(console: ConsoleServer, api: ApiClient) -> None:
    with psycopg.connect(console.dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE door NOLOGIN PASSWORD 'key'")
    status, answer = api.log_in("door", "key")
    assert (status, answer["error"]["message"]) == (403, 'role "door" is not permitted to log in')


def test_guessing_is_stopped_even_for_the_right_password(console: ConsoleServer, api: ApiClient) -> None:
    with psycopg.connect(console.dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE guessed LOGIN PASSWORD 'right'")
    assert [api.log_in("guessed", f"wrong {n}")[0] for n in range(5)] == [403] * 5
    status, answer = api.log_in("guessed", "right")
    assert status == 429
    assert answer["error"]["message"].startswith('too many wrong passwords for "guessed": try again in ')
    assert 0 < int(api.headers["retry-after"]) <= 61
    assert api.log_in("ann", "right")[0] == 200


def test_a_log_in_needs_a_json_body(api: ApiClient) -> None:
    body = b"user=ann&password=right"
    headers: dict[str, str | None] = {"Content-Type": "application/x-www-form-urlencoded"}
    assert api.ask("POST", "/api/login", body, headers)[0] == 400
    assert api.ask("POST", "/api/login", b"{", {"Content-Type": "application/json"})[0] == 400
    assert api.post("/api/login", [])[0] == 400
    assert api.post("/api/login", {"user": 1})[0] == 400
    assert api.post("/api/login", {"user": "a\0b"})[0] == 400
    assert api.post("/api/login", {"user": "a" * 2000})[0] == 400


def test_logging_out_ends_the_login_and_its_sessions(console: ConsoleServer, owner: ApiClient) -> None:
    ((pid,),) = owner.rows("SELECT pg_backend_pid()")
    cookies = dict(owner.cookies)
    assert owner.post("/api/logout", {})[0] == 200
    owner.cookies = cookies
    assert owner.get("/api/view/cluster")[0] == 401
    with psycopg.connect(console.dsn, autocommit=True) as connection:
        deadline = time.monotonic() + 10
        while connection.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone():
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_new_password_ends_the_logins_of_the_old_one(console: ConsoleServer, api: ApiClient) -> None:
    with psycopg.connect(console.dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE moved LOGIN PASSWORD 'old'")
        assert api.log_in("moved", "old")[0] == 200
        connection.execute("ALTER ROLE moved PASSWORD 'new'")
        assert api.get("/api/view/cluster")[0] == 401


def test_host_rules_hold_for_the_console_too(tmp_path: pathlib.Path) -> None:
    rules = tmp_path / "rules"
    rules.write_text("host all barred 127.0.0.1/32 reject\nhost all all 127.0.0.1/32 scram-sha-256\n")
    with ConsoleServer() as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE ROLE barred LOGIN PASSWORD 'right'")
            connection.execute("CREATE ROLE open LOGIN")
            connection.execute("ALTER ROLE postgres PASSWORD 'secret'")
        server.rules = rules
        server.restart()
        api = ApiClient(server.admin_port)
        status, answer = api.log_in("barred", "right")
        assert (status, answer["error"]["sqlstate"]) == (403, "28000")
        assert api.log_in("open", "")[1]["error"]["message"] == 'password authentication failed for user "open"'
        assert api.log_in("postgres", "")[0] == 403
        assert api.log_in("postgres", "secret")[0] == 200
        assert api.rows("SELECT current_user") == [["postgres"]]
        assert api.get("/api/view/activity")[0] == 200


def test_over_tls_the_rules_for_tls_hold_and_the_cookie_stays_there(tmp_path: pathlib.Path) -> None:
    rules = tmp_path / "rules"
    rules.write_text(
        "hostnossl all postgres 127.0.0.1/32 trust\n"
        "hostssl all postgres 127.0.0.1/32 scram-sha-256\n"
        "hostssl all free 127.0.0.1/32 trust\n"
    )
    with ConsoleServer() as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE ROLE free LOGIN")
        server.rules, server.certificate = rules, make_certificate(tmp_path, "console")
        server.restart()
        api = ApiClient(server.admin_port, server.certificate.cert)
        assert api.log_in("postgres", "")[0] == 403  # trusted without TLS only
        assert api.log_in("free", "")[0] == 200
        assert "secure" in {part.strip().lower() for part in api.set_cookie.split(";")}
        assert api.rows("SELECT current_user") == [["free"]]
        own = {"Origin": f"https://127.0.0.1:{server.admin_port}"}
        other = {"Origin": f"http://127.0.0.1:{server.admin_port}"}
        assert [api.ask("GET", "/api/view/cluster", None, headers)[0] for headers in (own, other)] == [200, 403]


# ---- what other pages cannot do -------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [None, "", "wrong"])
@pytest.mark.parametrize("path", [*POSTS, "/api/logout"])
def test_without_the_token_nothing_is_done(owner: ApiClient, path: str, token: str | None) -> None:
    status, answer = owner.ask("POST", path, {"tab": "one", "sql": "SELECT 1"}, {"X-Shoal-Token": token})
    assert (status, answer["error"]["sqlstate"]) == (403, "28000")


def test_the_cookie_alone_shows_nothing(owner: ApiClient) -> None:
    owner.token = ""
    assert owner.get("/api/view/cluster")[0] == 403
    assert owner.get("/api/session") == (200, None)


def test_the_token_of_another_login_does_not_do(console: ConsoleServer, owner: ApiClient) -> None:
    other = ApiClient(console.admin_port)
    other.log_in("ann", "right")
    owner.token = other.token
    assert owner.run("SELECT 1")[0] == 403


def test_forms_and_other_origins_are_refused(owner: ApiClient) -> None:
    body = b'{"tab":"one","sql":"SELECT 1"}'
    assert owner.ask("POST", "/api/sql", body, {"Content-Type": "text/plain"})[0] == 400
    assert owner.ask("POST", "/api/sql", body, {"Origin": "http://evil.example"})[0] == 403
    assert owner.ask("POST", "/api/sql", body, {"Host": "evil.example"})[0] == 403
    assert owner.ask("GET", "/api/view/cluster", None, {"Origin": "null"})[0] == 403


def test_the_page_may_load_nothing_but_its_own_files(api: ApiClient) -> None:
    assert api.get("/")[0] == 200
    policy = api.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "script-src 'self';" in policy
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
    assert api.headers["x-content-type-options"] == "nosniff"
    first = policy
    assert api.get("/")[0] == 200
    assert api.headers["content-security-policy"] != first  # the nonce is new each time


@pytest.mark.parametrize("name", ["..%2froutes.py", "%2e%2e/routes.py", "..%2f..%2fconfig.py", "index.html", "none.js"])
def test_only_the_page_s_own_files_are_served(api: ApiClient, name: str) -> None:
    assert api.get(f"/console/{name}")[0] == 404


def test_a_file_that_the_browser_has_is_not_sent_again(api: ApiClient) -> None:
    assert api.get("/console/main.js")[0] == 200
    tag = api.headers["etag"]
    assert api.ask("GET", "/console/main.js", None, {"If-None-Match": tag}) == (304, "")


# ---- what a role may do ---------------------------------------------------------------------------------------------


def test_a_role_has_its_own_privileges_and_no_others(api: ApiClient) -> None:
    api.log_in("ann", "right")
    status, answer = api.run("SELECT * FROM secrets")
    assert (status, answer["error"]["message"]) == (403, "permission denied for table secrets")
    assert api.run("ALTER ROLE ann SUPERUSER")[0] == 403
    assert api.run("SET ROLE postgres")[0] == 403


def test_a_role_does_not_see_the_statements_of_others(console: ConsoleServer, api: ApiClient) -> None:
    with psycopg.connect(console.dsn) as other:
        other.execute("SELECT 'hidden word'")
        api.log_in("ann", "right")
        status, answer = api.get("/api/view/activity")
        assert status == 200
        assert "hidden word" not in str(answer)
        assert str(other.info.backend_pid) in str(answer)
        status, answer = api.post("/api/sessions/terminate", {"pid": other.info.backend_pid})
        assert status == 403
        assert other.execute("SELECT 1").fetchone() == (1,)


def test_a_session_is_cancelled_and_terminated(console: ConsoleServer, owner: ApiClient) -> None:
    with psycopg.connect(console.dsn, autocommit=True) as other:
        caught: list[BaseException] = []

        def sleep() -> None:
            try:
                other.execute("SELECT pg_sleep(60)")
            except psycopg.Error as error:
                caught.append(error)

        thread = threading.Thread(target=sleep)
        thread.start()
        pid = other.info.backend_pid
        deadline = time.monotonic() + 30
        while thread.is_alive() and time.monotonic() < deadline:
            assert owner.post("/api/sessions/cancel", {"pid": pid})[1]["rows"] == [[True]]
            thread.join(0.1)
        assert isinstance(caught[0], psycopg.errors.QueryCanceled)
        assert owner.post("/api/sessions/terminate", {"pid": pid})[1]["rows"] == [[True]]
        with pytest.raises(psycopg.OperationalError):
            other.execute("SELECT 1")


@pytest.mark.parametrize("pid", ["1); DROP TABLE secrets; --", 1.5, True, None, [1]])
def test_what_is_no_number_is_no_session(owner: ApiClient, pid: object) -> None:
    assert owner.post("/api/sessions/cancel", {"pid": pid})[0] == 400
    assert owner.rows("SELECT count(*) FROM secrets") == [[1]]


# ---- statements -----------------------------------------------------------------------------------------------------


def test_a_result_has_columns_rows_and_what_was_done(owner: ApiClient) -> None:
    status, answer = owner.run("SELECT 1 AS a, 'x' AS b, NULL AS c, 1.50 AS d")
    assert status == 200
    assert [(column["name"], column["type"]) for column in answer["columns"]] == [
        ("a", "int4"), ("b", "text"), ("c", "text"), ("d", "numeric"),
    ]  # fmt: skip
    assert answer["rows"] == [[1, "x", None, "1.50"]]
    assert (answer["command"], answer["truncated"], answer["transaction"]) == ("SELECT 1", False, "idle")


def test_values_are_given_beside_the_statement(owner: ApiClient) -> None:
    word = "'; DROP TABLE secrets; --"
    assert owner.rows("SELECT $1::text, $2::int + 1", parameters=[word, 1]) == [[word, 2]]
    assert owner.run("SELECT $1::int", parameters=[])[1]["error"]["sqlstate"] == "08P01"
    assert owner.rows("SELECT 1") == [[1]]


def test_rows_beyond_the_limit_are_said_to_be_there(owner: ApiClient) -> None:
    status, answer = owner.run("SELECT generate_series(1, 100)", rows=10)
    assert (len(answer["rows"]), answer["truncated"]) == (10, True)
    status, answer = owner.run("SELECT generate_series(1, 10)", rows=10)
    assert (status, len(answer["rows"]), answer["truncated"]) == (200, 10, False)
    assert owner.run("SELECT 1", rows=10_001)[0] == 400
    assert owner.run("SELECT 1", rows=0)[0] == 400


def test_large_rows_end_at_the_answer_s_limit(owner: ApiClient) -> None:
    status, answer = owner.run("SELECT repeat('x', 1000000) FROM generate_series(1, 20)")
    assert status == 200
    assert answer["truncated"] and 8 <= len(answer["rows"]) < 20
    assert owner.rows("SELECT 1") == [[1]]


def test_a_change_is_whole_though_its_rows_are_cut(owner: ApiClient) -> None:
    owner.rows("CREATE TABLE cut (a int)")
    status, answer = owner.run("INSERT INTO cut SELECT generate_series(1, 50) RETURNING a", rows=5)
    assert (status, len(answer["rows"]), answer["truncated"]) == (200, 5, True)
    assert owner.rows("SELECT count(*) FROM cut") == [[50]]


def test_a_tab_keeps_its_transaction_and_others_do_not_see_it(owner: ApiClient) -> None:
    owner.rows("CREATE TABLE kept (a int)")
    assert owner.run("BEGIN")[1]["transaction"] == "open"
    owner.rows("INSERT INTO kept VALUES (1)")
    assert owner.rows("SELECT count(*) FROM kept", tab="two") == [[0]]
    status, answer = owner.run("SELECT 1 / 0")
    assert (status, answer["transaction"], answer["error"]["sqlstate"]) == (400, "failed", "22012")
    assert owner.run("ROLLBACK")[1]["transaction"] == "idle"
    assert owner.rows("SELECT count(*) FROM kept") == [[0]]


def test_an_error_has_its_place(owner: ApiClient) -> None:
    status, answer = owner.run("SELECT nothing")
    assert (status, answer["error"]["sqlstate"], answer["error"]["position"]) == (400, "42703", 8)


def test_notices_and_notifications_are_shown(owner: ApiClient) -> None:
    _, answer = owner.run("DROP TABLE IF EXISTS missing")
    assert answer["notices"] == ['NOTICE: table "missing" does not exist, skipping']
    owner.rows("LISTEN news")
    assert "NOTIFY news: hello" in owner.run("NOTIFY news, 'hello'")[1]["notices"]


def test_copy_is_refused_and_the_tab_remains_usable(owner: ApiClient) -> None:
    assert owner.run("COPY secrets FROM STDIN")[1]["error"]["message"].endswith("the console has no data to send")
    assert owner.run("COPY secrets TO STDOUT")[1]["error"]["sqlstate"] == "0A000"
    assert owner.run("SELECT 1; SELECT 2")[1]["error"]["sqlstate"] == "42601"
    assert owner.rows("SELECT 1") == [[1]]


def test_a_running_statement_is_cancelled_and_its_tab_takes_one_at_a_time(
    console: ConsoleServer, owner: ApiClient
) -> None:
    answers: list[tuple[int, object]] = []
    thread = threading.Thread(target=lambda: answers.append(owner.run("SELECT pg_sleep(62)")))
    thread.start()
    _wait_for_count(console, "SELECT pg_sleep(62)", 1)
    second = ApiClient(owner.port)
    second.cookies, second.token = dict(owner.cookies), owner.token
    assert second.run("SELECT 1")[1]["error"]["sqlstate"] == "55006"
    assert second.rows("SELECT 1", tab="two") == [[1]]
    second.post("/api/sql/cancel", {"tab": "one"})
    thread.join(30)
    assert answers[0][0] == 504
    assert owner.rows("SELECT 1") == [[1]]


def _wait_for_count(console: ConsoleServer, sql: str, expected: int) -> None:
    """Until so many sessions run the statement."""
    running = "SELECT count(*) FROM pg_stat_activity WHERE query = %s AND state = 'active'"
    deadline = time.monotonic() + 30
    with psycopg.connect(console.dsn, autocommit=True) as watching:
        while watching.execute(running, [sql]).fetchone() != (expected,):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_closing_a_tab_and_logging_out_end_what_runs(console: ConsoleServer, owner: ApiClient) -> None:
    second = ApiClient(owner.port)
    second.cookies, second.token = dict(owner.cookies), owner.token
    for path in ("/api/sql/close", "/api/logout"):
        thread = threading.Thread(target=lambda: owner.run("SELECT pg_sleep(66)"))
        thread.start()
        _wait_for_count(console, "SELECT pg_sleep(66)", 1)
        assert second.post(path, {"tab": "one"})[0] == 200
        _wait_for_count(console, "SELECT pg_sleep(66)", 0)
        thread.join(30)


def test_views_go_on_when_their_connection_is_terminated(console: ConsoleServer, owner: ApiClient) -> None:
    owner.get("/api/view/cluster")
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'shoal console'"
    with psycopg.connect(console.dsn, autocommit=True) as other:
        for path in ("/api/view/cluster", "/api/view/locks"):
            assert other.execute(end).fetchall()
            assert owner.get(path)[0] == 200
    assert owner.post("/api/sessions/cancel", {"pid": 1})[0] == 200


def test_a_request_is_not_too_long(owner: ApiClient) -> None:
    status, answer = owner.run("SELECT 1 --" + "x" * (1 << 20))
    assert (status, answer["error"]["sqlstate"]) == (413, "54000")


def test_a_browser_that_goes_away_cancels_its_statement(console: ConsoleServer, owner: ApiClient) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", owner.port)
    cookie = "; ".join(f"{name}={value}" for name, value in owner.cookies.items())
    headers = {"Content-Type": "application/json", "X-Shoal-Token": owner.token, "Cookie": cookie}
    connection.request("POST", "/api/sql", b'{"tab":"left","sql":"SELECT pg_sleep(61)"}', headers)
    _wait_for_count(console, "SELECT pg_sleep(61)", 1)
    connection.close()
    _wait_for_count(console, "SELECT pg_sleep(61)", 0)


def test_a_tab_that_was_terminated_in_a_transaction_says_so_once(console: ConsoleServer, owner: ApiClient) -> None:
    owner.rows("BEGIN")
    ((pid,),) = owner.rows("SELECT pg_backend_pid()")
    with psycopg.connect(console.dsn, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [pid])
    status, answer = owner.run("SELECT 1")
    assert (status, answer["error"]["sqlstate"]) in ((503, "57P01"), (503, "08007"))
    assert owner.rows("SELECT 1") == [[1]]


def test_tabs_are_bounded_and_the_idle_ones_make_room(owner: ApiClient) -> None:
    for n in range(8):
        owner.rows("BEGIN" if n else "SELECT 1", tab=f"tab {n}")
    owner.rows("BEGIN", tab="tab 8")
    status, answer = owner.run("SELECT 1", tab="tab 9")
    assert (status, answer["error"]["sqlstate"]) == (503, "53300")
    assert owner.post("/api/sql/close", {"tab": "tab 3"})[0] == 200
    assert owner.rows("SELECT 1", tab="tab 9") == [[1]]


# ---- views ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["cluster", "activity", "locks", "tables", "columns", "ledgers", "schema"])
def test_every_view_answers(owner: ApiClient, view: str) -> None:
    status, answer = owner.get(f"/api/view/{view}")
    assert status == 200, answer
    assert all(part["columns"] for part in answer.values())


def test_views_answer_an_ordinary_role(api: ApiClient) -> None:
    api.log_in("ann", "right")
    for view in ("cluster", "activity", "locks", "tables", "columns", "ledgers", "schema"):
        assert api.get(f"/api/view/{view}")[0] == 200, view


def test_sizes_of_the_requested_tables(owner: ApiClient) -> None:
    ((oid,),) = owner.rows("SELECT 'secrets'::regclass::oid")
    status, answer = owner.get(f"/api/view/sizes?oids={oid},1")
    assert status == 200
    found = {row[0]: row[1:] for row in answer["sizes"]["rows"]}
    assert found[oid][0] > 0
    assert set(found) == {oid, 1}


def test_the_state_of_columns_is_told(console: ConsoleServer, owner: ApiClient) -> None:
    with psycopg.connect(console.dsn, autocommit=True) as connection:
        connection.execute("SET shoal.path = columnar")
        connection.execute("SELECT count(*) FROM secrets")
    status, answer = owner.get("/api/view/columns")
    assert status == 200 and answer["work"]["rows"] == []
    assert ["public", "secrets", "auto", "ready"] in [row[:4] for row in answer["states"]["rows"]]


@pytest.mark.parametrize(
    "oids", ["", "1;2", "1,", "x", "-1", "99999999999", "%D9%A1", ",".join(["1"] * 51), "1}'::oid[])--"]
)
def test_what_names_no_objects_is_refused(owner: ApiClient, oids: str) -> None:
    assert owner.get(f"/api/view/sizes?oids={oids}")[1]["error"]["sqlstate"] == "22023"


def test_lock_waits_are_shown_with_their_blockers(console: ConsoleServer, owner: ApiClient) -> None:
    with psycopg.connect(console.dsn) as holder, psycopg.connect(console.dsn) as waiter:
        holder.execute("UPDATE secrets SET word = 'a' WHERE id = 1")
        thread = threading.Thread(target=lambda: waiter.execute("UPDATE secrets SET word = 'b' WHERE id = 1"))
        thread.start()
        deadline = time.monotonic() + 30
        while True:
            answer = owner.get("/api/view/locks")[1]["sessions"]
            names = [column["name"] for column in answer["columns"]]
            sessions = {row[names.index("pid")]: row[names.index("blocked_by")] for row in answer["rows"]}
            if str(holder.info.backend_pid) in str(sessions.get(waiter.info.backend_pid)):
                break
            assert time.monotonic() < deadline
        holder.rollback()
        thread.join(30)
        waiter.rollback()


def test_an_unknown_view_is_named(owner: ApiClient) -> None:
    status, answer = owner.get("/api/view/pg_authid")
    assert (status, answer["error"]["message"]) == (400, 'there is no view "pg_authid"')
