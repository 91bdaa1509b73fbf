"""Every page of the console in Chromium: what it shows, its keys, its forms on narrow windows and in both colours."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import psycopg
import pytest
from playwright.sync_api import Browser, expect

from tests.shoal.console.browser import DESKTOP, PHONE, Watched, chromium
from tests.shoal.console.server import ConsoleServer

PAGES = ["cluster", "statements", "statements/slowest", "locks", "tables", "changelog", "sql"]
MARKUP = "<img src=x onerror=window.broken=1>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def window(browser: Browser, console: ConsoleServer) -> Iterator[Watched]:
    """Nobody is logged in yet."""
    watched = Watched(browser, console.admin_port)
    yield watched
    watched.close()
    assert not watched.troubles


@pytest.fixture
def inside(window: Watched) -> Watched:
    """The superuser is logged in and sees the cluster."""
    window.log_in()
    return window


# ---- log-in and first view ------------------------------------------------------------------------------------------


def test_a_wrong_password_is_a_one_line_error_and_the_right_one_logs_in(window: Watched) -> None:
    window.open()
    window.page.fill("input[name=user]", "ann")
    window.page.fill("input[name=password]", "wrong")
    window.page.keyboard.press("Enter")
    expect(window.page.get_by_role("alert")).to_have_text('password authentication failed for user "ann" 28P01')
    assert not window.obstacles()
    window.page.fill("input[name=password]", "right")
    window.page.keyboard.press("Enter")
    expect(window.page.get_by_role("heading", name="Cluster")).to_be_visible()


def test_the_first_view_is_there_within_a_second(inside: Watched) -> None:
    times = []
    for _ in range(5):
        inside.page.reload()
        inside.page.wait_for_selector(".map")
        times.append(inside.page.evaluate("performance.now()"))
    print("first view, ms:", *(round(time) for time in times))
    assert min(times) < 1000


def test_a_login_that_has_ended_asks_for_another(inside: Watched) -> None:
    inside.page.context.clear_cookies()
    expect(inside.page.get_by_role("form", name="Log in")).to_be_visible()


def test_logging_out_leaves_nothing_in_the_window(inside: Watched) -> None:
    inside.open("sql")
    inside.run("SELECT 'private'")
    inside.page.get_by_role("button", name="Log out").click()
    expect(inside.page.get_by_role("form", name="Log in")).to_be_visible()
    assert inside.page.evaluate("sessionStorage.length") == 0
    inside.log_in("ann", "right")
    inside.open("sql")
    expect(inside.page.locator(".cm-content")).not_to_contain_text("private")


# ---- all pages ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"])
def test_pages_are_free_of_obstacles_and_fit(
    browser: Browser, console: ConsoleServer, size: tuple[int, int], scheme: str
) -> None:
    window = Watched(browser, console.admin_port, size, scheme)
    window.open()
    window.page.wait_for_selector("form")
    assert window.obstacles() == []
    window.log_in()
    for page in PAGES:
        window.open(page)
        window.page.wait_for_selector(".cm-content" if page == "sql" else "h1")
        expect(window.page.locator(".loading")).to_have_count(0)
        assert window.obstacles() == [], page
        assert window.overflow() <= 0, page
    window.run("SELECT a, repeat('word ', 100) AS b FROM generate_series(1, 500) a")
    window.page.wait_for_selector(".grid")
    assert window.obstacles() == []
    assert window.overflow() <= 0
    window.close()
    assert not window.troubles


def test_scripts_of_others_do_not_run(inside: Watched) -> None:
    inside.page.evaluate("""() => {
        const own = document.createElement("script");
        own.textContent = "window.broken = 1";
        document.body.append(own);
        document.body.insertAdjacentHTML("beforeend", '<img src=x onerror="window.broken=1">');
    }""")
    inside.page.wait_for_timeout(200)
    assert inside.page.evaluate("window.broken") is None
    assert any("Content Security Policy" in trouble for trouble in inside.troubles)
    inside.troubles.clear()


def test_what_the_database_holds_is_never_markup(console: ConsoleServer, inside: Watched) -> None:
    with psycopg.connect(console.dsn, autocommit=True) as connection:
        connection.execute(f'CREATE TABLE "{MARKUP}" ("{MARKUP}" text)')
        inside.open("tables")
        expect(inside.page.locator("tbody")).to_contain_text(MARKUP)
        inside.open("sql")
        inside.run(f"SELECT '{MARKUP}' AS \"{MARKUP}\"")
        expect(inside.page.locator(".grid")).to_contain_text(MARKUP)
        connection.execute(f'DROP TABLE "{MARKUP}"')
    assert inside.page.evaluate("window.broken") is None


def test_keys_go_everywhere(inside: Watched) -> None:
    page = inside.page
    for key, title in (("s", "Statements"), ("l", "Locks"), ("t", "Tables"), ("o", "Changelog"), ("c", "Cluster")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.get_by_role("heading", name=title, exact=True, level=1)).to_be_focused()
    page.keyboard.press("p")
    expect(page.get_by_role("button", name="paused")).to_be_visible()
    page.keyboard.press("p")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Shortcuts")).to_be_visible()
    assert inside.obstacles() == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("d")
    expect(page.locator("html[data-theme=dark]")).to_have_count(1)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox")).to_be_focused()
    page.keyboard.insert_text("secrets")
    expect(page.get_by_role("option", name="Open public.secrets")).to_be_visible()
    assert inside.obstacles() == []
    page.keyboard.press("Enter")
    expect(page.locator(".cm-content")).to_contain_text("SELECT * FROM public.secrets LIMIT 100")


# ---- what they show -------------------------------------------------------------------------------------------------


def test_a_running_statement_is_seen_and_cancelled(console: ConsoleServer, inside: Watched) -> None:
    caught: list[BaseException] = []

    def sleep() -> None:
        try:
            with psycopg.connect(console.dsn) as connection:
                connection.execute("SELECT pg_sleep(63)")
        except psycopg.Error as error:
            caught.append(error)

    thread = threading.Thread(target=sleep)
    thread.start()
    inside.open("statements")
    row = inside.page.get_by_role("row").filter(has_text="pg_sleep(63)")
    expect(row).to_contain_text("active")
    row.get_by_role("button", name="Details").click()
    expect(inside.page.locator(".opened")).to_contain_text("Connected for")
    assert inside.obstacles() == []
    row.get_by_role("button", name="Cancel").click()
    thread.join(30)
    assert isinstance(caught[0], psycopg.errors.QueryCanceled)
    expect(row).to_have_count(0)


def test_the_slowest_statements_are_shown_once_they_are_counted(console: ConsoleServer, inside: Watched) -> None:
    page = inside.page
    inside.open("statements/slowest")
    page.get_by_role("button", name="CREATE EXTENSION pg_stat_statements").click()
    expect(page.locator(".cm-content")).to_contain_text("CREATE EXTENSION pg_stat_statements")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".results")).to_contain_text("CREATE EXTENSION")
    with psycopg.connect(console.dsn, autocommit=True) as connection:
        connection.execute("SELECT word, 'counted' FROM secrets WHERE id = 1")
        inside.open("statements/slowest")
        row = page.get_by_role("row").filter(has_text="SELECT word,")
        expect(row).to_contain_text("FROM secrets WHERE id = $2")
        expect(row).to_contain_text("postgres")
        assert inside.obstacles() == []
        connection.execute("DROP EXTENSION pg_stat_statements")


def test_who_waits_is_under_whom_he_waits_for_and_is_freed(console: ConsoleServer, inside: Watched) -> None:
    holder, waiter = psycopg.connect(console.dsn), psycopg.connect(console.dsn)
    holder.execute("UPDATE secrets SET word = 'a' WHERE id = 1")
    thread = threading.Thread(target=lambda: waiter.execute("UPDATE secrets SET word = 'b' WHERE id = 1"))
    thread.start()
    inside.open("locks")
    page = inside.page
    root = page.locator(".chain > li").filter(has_text=str(holder.info.backend_pid))
    expect(root.locator("ul")).to_contain_text(str(waiter.info.backend_pid))
    expect(page.locator("tbody")).to_contain_text("secrets")
    assert inside.obstacles() == []
    root.get_by_role("button", name="Terminate").first.click()
    page.get_by_role("button", name="End session").click()
    thread.join(30)
    expect(page.get_by_text("No session is waiting.")).to_be_visible()
    waiter.rollback()
    waiter.close()
    holder.close()


def test_tables_are_searched_and_opened(inside: Watched) -> None:
    inside.open("tables")
    inside.page.get_by_role("searchbox").fill("secr post")
    expect(inside.page.locator("tbody tr")).to_have_count(1)
    inside.page.get_by_role("button", name="secrets").click()
    expect(inside.page.locator(".cm-content")).to_contain_text("SELECT * FROM public.secrets LIMIT 100")


def test_the_columns_of_tables_are_shown(inside: Watched, console: ConsoleServer) -> None:
    with psycopg.connect(console.dsn, autocommit=True) as connection:
        connection.execute("SET shoal.path = columnar")
        connection.execute("SELECT count(*) FROM secrets")
    inside.open("tables")
    row = inside.page.locator("tbody tr").filter(has_text="secrets")
    expect(row).to_contain_text("ready")
    assert inside.obstacles() == []


# ---- the editor -----------------------------------------------------------------------------------------------------


def test_a_result_is_a_table_that_scrolls_to_its_end(inside: Watched) -> None:
    inside.open("sql")
    inside.run("SELECT a, NULL AS n, repeat('x', 100) AS long FROM generate_series(1, 5000) a")
    page = inside.page
    expect(page.locator(".notice")).to_contain_text("These are the first 1,000 rows: there are more.")
    assert page.locator(".grid tbody tr").count() < 200
    page.locator(".grid").evaluate("element => element.scrollTo(0, element.scrollHeight)")
    expect(page.locator(".grid tbody")).to_contain_text("1000")
    page.locator(".grid .cell").last.click()
    expect(page.get_by_role("dialog").locator("pre")).to_have_text("x" * 100)


def test_statements_run_one_by_one_with_their_semicolons_in_place(inside: Watched) -> None:
    inside.open("sql")
    inside.run(
        "SELECT ';' AS a, E'\\';' AS b; -- a comment; it ends here\n"
        "/* one /* in */ another; */ SELECT $x$ ; $x$ AS c;\n"
        'SELECT 1 AS ";";\n;\n'
        "CREATE FUNCTION pg_temp.f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END;\nSELECT 4",
        "Control+Shift+Enter",
    )
    shown = inside.page.get_by_role("group", name="Statements that ran").get_by_role("button")
    texts = [re.sub(r" failed$", " CREATE FUNCTION", text) for text in shown.all_inner_texts()]
    assert texts[:4] == ["1 SELECT 1", "2 SELECT 1", "3 SELECT 1", "4 CREATE FUNCTION"]
    shown.nth(0).click()
    expect(inside.page.locator(".grid tbody")).to_contain_text("';")


def test_the_statement_at_the_cursor_or_the_selection_runs(inside: Watched) -> None:
    inside.open("sql")
    inside.run("SELECT 'first' AS a;\n\nSELECT 'second' AS b")
    expect(inside.page.locator(".grid")).to_contain_text("second")
    inside.page.click(".cm-content")
    inside.page.keyboard.press("Control+Home")
    inside.page.keyboard.press("Control+Enter")
    expect(inside.page.locator(".grid")).to_contain_text("first")


def test_an_error_is_shown_where_it_is(inside: Watched) -> None:
    inside.open("sql")
    inside.run("SELECT 'ä😀', nothing\nFROM secrets")
    expect(inside.page.get_by_role("alert")).to_contain_text('column "nothing" does not exist')
    expect(inside.page.locator(".cm-wrong")).to_have_text("nothing")


def test_a_transaction_stays_open_over_a_reload_and_is_rolled_back(inside: Watched) -> None:
    inside.open("sql")
    inside.run("BEGIN; CREATE TABLE passing (a int)", "Control+Shift+Enter")
    expect(inside.page.get_by_text("transaction open")).to_be_visible()
    inside.page.reload()
    expect(inside.page.get_by_text("transaction open")).to_be_visible()
    inside.run("SELECT count(*) FROM passing")
    expect(inside.page.locator(".grid tbody")).to_contain_text("0")
    inside.page.get_by_role("button", name="Roll back").click()
    expect(inside.page.get_by_text("transaction open")).to_have_count(0)
    inside.run("SELECT count(*) FROM passing")
    expect(inside.page.get_by_role("alert")).to_contain_text("does not exist")


def test_what_runs_is_cancelled_from_the_page(inside: Watched) -> None:
    inside.open("sql")
    inside.write("SELECT pg_sleep(64)")
    inside.page.keyboard.press("Control+Enter")
    expect(inside.page.get_by_text("Running for")).to_be_visible()
    inside.page.get_by_role("button", name="Cancel").click()
    expect(inside.page.get_by_role("alert")).to_contain_text("canceling statement due to user request")


def test_numbers_become_a_chart(inside: Watched) -> None:
    inside.open("sql")
    inside.run("SELECT 'part ' || a AS part, a AS size, a * 2 AS twice FROM generate_series(1, 6) a")
    inside.page.get_by_role("button", name="Chart").click()
    expect(inside.page.get_by_role("img", name="Chart of size, twice")).to_be_visible()
    drawn = "document.querySelector('.plot canvas').getContext('2d').getImageData(0, 0, 600, 300).data.some(b => b)"
    assert inside.page.evaluate(drawn)
    assert inside.obstacles() == []
    inside.run("SELECT 'only' AS text")
    inside.page.get_by_role("button", name="Chart").click()
    expect(inside.page.get_by_text("There is nothing to draw.")).to_be_visible()


def test_explain_is_a_tree_and_changes_nothing(inside: Watched) -> None:
    inside.open("sql")
    inside.run("SELECT word FROM secrets WHERE id = 1", "Control+Shift+e")
    expect(inside.page.locator(".tree")).to_contain_text("Index Scan using secrets_pkey on secrets")
    expect(inside.page.locator(".plan-facts")).to_contain_text("Execution Time")
    assert inside.obstacles() == []
    inside.run("DELETE FROM secrets", "Control+Shift+e")
    expect(inside.page.locator(".tree")).to_contain_text("Delete on secrets")
    inside.run("SELECT count(*) FROM secrets")
    expect(inside.page.locator(".grid tbody")).to_contain_text("1")


def test_names_are_completed(inside: Watched) -> None:
    inside.open("sql")
    inside.write("SELECT * FROM secrets WHERE ")
    inside.page.keyboard.type("wo", delay=30)
    expect(inside.page.locator(".cm-tooltip-autocomplete li").first).to_contain_text("word")
    inside.page.wait_for_timeout(120)  # the list takes keys only when somebody can have seen it
    inside.page.keyboard.press("Enter")
    expect(inside.page.locator(".cm-content")).to_contain_text("WHERE word")


def test_results_are_saved(inside: Watched) -> None:
    inside.open("sql")
    inside.run("SELECT 1 AS a, 'x,\"y\"' AS b, NULL AS c, '' AS d")
    with inside.page.expect_download() as download:
        inside.page.get_by_role("button", name="CSV").click()
    assert download.value.path().read_bytes() == b'a,b,c,d\r\n1,"x,""y""",,""'


def test_tabs_are_apart_and_passwords_are_not_kept(inside: Watched) -> None:
    inside.open("sql")
    inside.run("SELECT 'one'")
    inside.page.get_by_role("button", name="New tab").click()
    inside.run("ALTER ROLE ann PASSWORD 'right'")
    assert "right" not in inside.page.evaluate("JSON.stringify(sessionStorage)")
    inside.page.get_by_role("button", name=re.compile("^SELECT 'one'")).click()
    expect(inside.page.locator(".grid")).to_contain_text("one")
    inside.page.get_by_role("button", name="History").click()
    expect(inside.page.locator(".history")).to_have_text("SELECT 'one'")


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_the_history_stands_in_its_dialog(browser: Browser, console: ConsoleServer, size: tuple[int, int]) -> None:
    """Whatever the statements' length and number: the title, each statement's begin and Close can be seen."""
    window = Watched(browser, console.admin_port, size)
    window.log_in()
    window.open("sql")
    many = [f"SELECT {number} AS short" for number in range(25)]
    long = [f"SELECT '{'wide ' * 60}' AS a", "SELECT '" + "x" * 2000 + "' AS b", "SELECT\n1,\n2,\n3,\n4,\n5"]
    window.page.evaluate("(past) => sessionStorage.setItem('shoal-history', JSON.stringify(past))", [*many, *long])
    for statement in long:
        window.run(statement)
    window.page.get_by_role("button", name="History").click()
    dialog = window.page.locator("dialog")
    sizes = "(box) => [box.scrollLeft, box.scrollWidth - box.clientWidth, box.scrollTop]"
    assert dialog.evaluate(sizes) == [0, 0, 0]
    assert dialog.locator(".history").evaluate("(box) => box.scrollWidth - box.clientWidth") == 0
    expect(dialog.get_by_role("heading", name="History")).to_be_in_viewport(ratio=1)
    expect(dialog.get_by_role("button", name="Close")).to_be_in_viewport(ratio=1)
    first = dialog.locator(".history .query").first
    expect(first).to_be_in_viewport(ratio=0.9)
    assert first.evaluate("(text) => text.getBoundingClientRect().height") < 80


def test_the_page_shows_that_a_node_is_lost_and_returns(browser: Browser) -> None:
    with ConsoleServer() as server:
        window = Watched(browser, server.admin_port)
        window.log_in()
        server.kill()
        expect(window.page.get_by_role("alert")).to_contain_text("The node cannot be reached.")
        expect(window.page.get_by_role("button", name="not current")).to_be_visible()
        expect(window.page.locator(".map")).to_be_visible()  # what was known last
        assert window.obstacles() == []
        server.start()
        expect(window.page.get_by_role("form", name="Log in")).to_be_visible(timeout=40_000)
        window.close()
        assert not window.troubles
