"""The console's routes on the administration port.

    GET  /                             the page; /console/NAME its files
    GET  /api/session                  the role that is logged in; null: none
    POST /api/login                    {"user", "password", "database"}
    POST /api/logout
    GET  /api/view/NAME                the queries of a view (views.py): {"nodes": {answer}, ...}; sizes wants ?oids=1,2
    POST /api/sql                      {"tab", "sql", "parameters", "rows"}: one statement on the tab's connection
    POST /api/sql/cancel, /api/sql/close   {"tab"}
    POST /api/sessions/cancel, /api/sessions/terminate   {"pid"}: pg_cancel_backend, pg_terminate_backend

Answers are those of statements.py; errors are {"error": {"sqlstate", "message", "detail", "hint", "position"}} with the
status that wire/http.py gives them (and the connection's "transaction" where a statement failed), 401 without a login,
429 after too many wrong passwords.

A login is its cookie and its token, in X-Shoal-Token: browsers send the cookie to every port of this machine, so that
it alone must be worth nothing; the token stays with the page's origin. Whatever changes something is a POST of
application/json: a form of another page can send neither that nor the token. The administration port refuses other
origins and other host names before (shoal/admin/server.py).

The page may load nothing but its own files: the Content-Security-Policy says so, with a nonce for the style sheets that
the editor makes while it runs.
"""

from __future__ import annotations

import hashlib
import json
import mimetypes
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from catalog.errors import SqlError
from shoal.admin.server import Admin, as_json
from shoal.console.logins import TABS, Login, Logins, TooManyAttemptsError
from shoal.console.statements import StatementConnection
from shoal.console.views import OBJECTS, VIEWS
from wire.json_values import report_of, status_of
from wire.server import is_loopback

STATIC = Path(__file__).parent / "static"
NONCE = "{{nonce}}"  # the place where the page expects it
ROWS = 1000  # maximum rows of a result, unless the request sets another limit
MOST_ROWS = 10_000
TOKEN = "X-Shoal-Token"
BODY_LIMIT = 1 << 20  # maximum bytes of a request
NAME_LIMIT = 1000  # maximum characters of a role, a password, a database, a tab

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Body = Mapping[str, Any]

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_NAMED = {"application_name": "shoal console", "client_encoding": "UTF8"}
_VIEW_SETTINGS = {**_NAMED, "statement_timeout": "10s", "TimeZone": "UTC"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def routes(admin: Admin) -> Iterable[web.RouteDef]:
    """The group of routes for shoal/admin/groups.py."""
    console = _Console(admin)
    posts: dict[str, Callable[[Login, Body], Awaitable[web.StreamResponse]]] = {
        "/api/sql": console.run,
        "/api/sql/cancel": console.cancel_tab,
        "/api/sql/close": console.close_tab,
        "/api/sessions/cancel": console.cancel_session,
        "/api/sessions/terminate": console.terminate_session,
    }
    return [
        web.get("/", _page),
        web.get("/console/{name}", _file),
        web.get("/api/session", _with_errors(console.session)),
        web.post("/api/login", _with_errors(console.log_in)),
        web.post("/api/logout", _with_errors(console.log_out)),
        web.get("/api/view/{name}", _with_errors(console.view)),
        *(web.post(path, _with_errors(console.logged_in(handler))) for path, handler in posts.items()),
    ]


# --- the page and its files ------------------------------------------------------------------------------------------


@cache
def _files() -> Mapping[str, tuple[bytes, str, str]]:
    """Content, type and tag of the page's files, by name. No other file is served."""
    return {
        path.name: (data, mimetypes.guess_type(path.name)[0] or "text/plain", hashlib.sha256(data).hexdigest()[:32])
        for path in STATIC.iterdir()
        for data in (path.read_bytes(),)
    }


async def _page(_: web.Request) -> web.StreamResponse:
    nonce = secrets.token_urlsafe(16)
    page = _files()["index.html"][0].replace(NONCE.encode(), nonce.encode())
    headers = {**_HEADERS, "Content-Security-Policy": _POLICY.format(nonce=nonce), "Cache-Control": "no-store"}
    return web.Response(body=page, content_type="text/html", charset="utf-8", headers=headers)


async def _file(request: web.Request) -> web.StreamResponse:
    found = _files().get(request.match_info["name"])
    if found is None or request.match_info["name"] == "index.html":
        raise web.HTTPNotFound(text="there is no such file\n")
    data, kind, tag = found
    headers = {**_HEADERS, "ETag": f'"{tag}"', "Cache-Control": "no-cache"}
    if request.headers.get("If-None-Match") == headers["ETag"]:
        return web.Response(status=304, headers=headers)
    return web.Response(body=data, content_type=kind, charset="utf-8", headers=headers)


# --- requests under /api ---------------------------------------------------------------------------------------------


class NotLoggedInError(Exception):
    """The request has no login, or its login has ended."""


def _with_errors(handler: Handler) -> Handler:
    """A handler that also converts errors to responses, and adds the headers of all responses."""

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            response = await handler(request)
        except SqlError as error:
            response = as_json({"error": report_of(error)}, status_of(error))
        except NotLoggedInError:
            response = as_json({"error": {"sqlstate": "28000", "message": "log in first"}}, 401)
        except TooManyAttemptsError as error:
            response = as_json({"error": {"sqlstate": "28P01", "message": str(error)}}, 429)
            response.headers["Retry-After"] = str(int(error.wait) + 1)
        except web.HTTPServiceUnavailable as unavailable:
            response = as_json({"error": {"sqlstate": "57P03", "message": (unavailable.text or "").strip()}}, 503)
        except web.HTTPRequestEntityTooLarge:
            response = as_json({"error": {"sqlstate": "54000", "message": "the request is too large"}}, 413)
        response.headers.update(_HEADERS)
        response.headers["Cache-Control"] = "no-store"
        response.headers["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'"
        return response

    return answer


class _Console:
    """The handlers, and the logins that they check."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._logins = Logins()

    # ---- logins -----------------------------------------------------------------------------------------------------

    async def session(self, request: web.Request) -> web.StreamResponse:
        try:
            return self._login_response(self._login_of(request))
        except (NotLoggedInError, SqlError):
            return as_json(None)

    async def log_in(self, request: web.Request) -> web.StreamResponse:
        body = await _body(request)
        role, password = _text(body, "user"), _text(body, "password")
        database = _text(body, "database") or role
        parts = self._admin.parts
        address = request.remote or "127.0.0.1"
        if not (
            request.secure or is_loopback(address)
        ):  # Admin never listens like this; it is checked again because passwords are sent
            raise SqlError("28000", "a password from another machine is accepted over https only")
        asked = {"user": role, "database": database}
        trusted = parts.server.authentication(asked, address, secure=request.secure) is None
        kept = await self._logins.password_of(parts.node, role, password, trusted=trusted)
        views = await StatementConnection.open(parts.server, role, database, _VIEW_SETTINGS)
        try:
            cookie, login = self._logins.begin(role, database, kept, views)
        except SqlError:
            views.close()
            raise
        response = self._login_response(login)
        name, secure = _cookie_name(request), request.secure
        response.set_cookie(name, cookie, httponly=True, secure=secure, samesite="Strict", path="/")
        return response

    async def log_out(self, request: web.Request) -> web.StreamResponse:
        self._login_of(request)
        self._logins.end(request.cookies.get(_cookie_name(request), ""))
        response = as_json({})
        response.del_cookie(_cookie_name(request), path="/")
        return response

    def _login_response(self, login: Login) -> web.Response:
        view = self._admin.parts.node.cluster_view
        return as_json(
            {
                "user": login.role,
                "database": login.database,
                "token": login.token,
                "node": "" if view is None else view.node,
                "rows": {"usual": ROWS, "most": MOST_ROWS},
            }
        )

    def _login_of(self, request: web.Request) -> Login:
        """The login of a request's cookie and token. Raises NotLoggedInError, and 28000 for a token of another
        login."""
        cookie = request.cookies.get(_cookie_name(request))
        login = self._logins.find(cookie, self._admin.parts.node) if cookie else None
        if login is None:
            raise NotLoggedInError
        if not secrets.compare_digest(request.headers.get(TOKEN, "").encode(), login.token.encode()):
            raise SqlError("28000", f"the request lacks the login's token ({TOKEN})")
        return login

    def logged_in(self, handler: Callable[[Login, Body], Awaitable[web.StreamResponse]]) -> Handler:
        """A handler for requests that change something. It checks the login and the JSON body."""

        async def check_login(request: web.Request) -> web.StreamResponse:
            return await handler(self._login_of(request), await _body(request))

        return check_login

    # ---- views ------------------------------------------------------------------------------------------------------

    async def view(self, request: web.Request) -> web.StreamResponse:
        login = self._login_of(request)
        view = VIEWS.get(request.match_info["name"])
        if view is None:
            raise SqlError("42704", f'there is no view "{request.match_info["name"]}"')
        parts = []
        for name, query in view.items():
            parameters = [_objects(request)] if query.oids else []
            parts.append(orjson.dumps(name) + b":" + await self._query(login, query.sql, parameters, query.limit))
        return _json(b"{" + b",".join(parts) + b"}")

    async def _query(self, login: Login, sql: str, parameters: Sequence[object], limit: int = 0) -> bytes:
        """Runs a query of the console on the login's connection. A lost connection is replaced: it is closed when the
        browser abandons a request, also while another request waits for it."""
        try:
            return await (await self._views(login)).run(sql, parameters, limit)
        except SqlError:
            if not login.views.is_lost:
                raise
        return await (await self._views(login)).run(sql, parameters, limit)

    async def _views(self, login: Login) -> StatementConnection:
        if login.views.is_lost:
            opened = await self._connect(login, _VIEW_SETTINGS)
            if login.views.is_lost:
                login.views = opened
            else:  # another request has replaced it meanwhile
                opened.close()
        return login.views

    async def _connect(self, login: Login, settings: Mapping[str, str]) -> StatementConnection:
        """Opens a connection. Raises NotLoggedInError if the login has ended meanwhile."""
        server = self._admin.parts.server
        connection = await StatementConnection.open(server, login.role, login.database, settings)
        if login.ended:
            connection.close()
            raise NotLoggedInError
        return connection

    async def cancel_session(self, login: Login, body: Body) -> web.StreamResponse:
        return await self._signal_session(login, body, "SELECT pg_cancel_backend($1) AS done")

    async def terminate_session(self, login: Login, body: Body) -> web.StreamResponse:
        return await self._signal_session(login, body, "SELECT pg_terminate_backend($1) AS done")

    async def _signal_session(self, login: Login, body: Body, sql: str) -> web.StreamResponse:
        pid = body.get("pid")
        if type(pid) is not int:
            raise SqlError("22023", '"pid" must be the number of a session')
        return _json(await self._query(login, sql, [pid]))

    # ---- editors ----------------------------------------------------------------------------------------------------

    async def run(self, login: Login, body: Body) -> web.StreamResponse:
        sql, rows, parameters = _text(body, "sql", most=None), body.get("rows", ROWS), body.get("parameters", [])
        if type(rows) is not int or not 0 < rows <= MOST_ROWS:
            raise SqlError("22023", f'"rows" must be a number from 1 to {MOST_ROWS}')
        if not isinstance(parameters, list):
            raise SqlError("22023", '"parameters" must be a list')
        tab = await self._tab(login, _text(body, "tab"))
        if tab.is_busy:
            raise SqlError("55006", "a statement of this tab is still running: wait for it, or cancel it")
        try:
            return _json(await tab.run(sql, parameters, rows))
        except SqlError as error:
            answer = {"error": report_of(error), "transaction": "idle" if tab.is_lost else tab.transaction}
            return as_json(answer, status_of(error))

    async def _tab(self, login: Login, name: str) -> StatementConnection:
        known = login.tabs.get(name)
        if known is not None and not known.is_lost:
            return known
        if known is not None and known.transaction != "idle":
            del login.tabs[name]
            message = "the connection of this tab has been closed, and its transaction is rolled back"
            raise SqlError("57P01", message, hint="The next statement opens a new one.")
        if known is None and len(login.tabs) >= TABS:
            self._free_tab(login)
        opened = await self._connect(login, _NAMED)
        tab = login.tabs.setdefault(name, opened)
        if tab is not opened:
            if not tab.is_lost:  # another request has opened it meanwhile
                opened.close()
                return tab
            login.tabs[name] = opened
        return opened

    @staticmethod
    def _free_tab(login: Login) -> None:
        """Closes the connection that was idle longest. Raises 53300 if all of them have a statement or a
        transaction."""
        idle = [name for name, tab in login.tabs.items() if not tab.is_busy and tab.transaction == "idle"]
        if not idle:
            raise SqlError("53300", f"{TABS} tabs run something already: close one of them")
        login.tabs.pop(min(idle, key=lambda name: login.tabs[name].used)).close()

    async def cancel_tab(self, login: Login, body: Body) -> web.StreamResponse:
        tab = login.tabs.get(_text(body, "tab"))
        if tab is not None:
            await tab.cancel()
        return as_json({})

    async def close_tab(self, login: Login, body: Body) -> web.StreamResponse:
        tab = login.tabs.pop(_text(body, "tab"), None)
        if tab is not None:
            tab.close()
        return as_json({})


def _objects(request: web.Request) -> list[int]:
    """The object numbers of a request: ?oids=1,2,3. Raises 22023."""
    found = request.query.get("oids", "").split(",")
    if len(found) > OBJECTS or not all(item.isascii() and item.isdigit() and len(item) <= 10 for item in found):
        raise SqlError("22023", f'"oids" must be at most {OBJECTS} numbers, separated by commas')
    return [int(item) for item in found]


def _cookie_name(request: web.Request) -> str:
    return f"shoal_console_{request.url.port}"


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


async def _body(request: web.Request) -> Body:
    """The JSON object in the body of a POST. Raises 22023, 22P02, 54000."""
    if request.content_type != "application/json":
        raise SqlError("22023", f"the content type {request.content_type} is not application/json")
    data = await request.read()
    if len(data) > BODY_LIMIT:
        raise SqlError("54000", f"the request has more than {BODY_LIMIT} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SqlError("22P02", f"the request is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise SqlError("22023", "the request is not an object")
    return found


def _text(body: Body, name: str, most: int | None = NAME_LIMIT) -> str:
    """A string of the request, or '' if it is missing. Raises 22023, 22021."""
    value = body.get(name, "")
    if not isinstance(value, str) or (most is not None and len(value) > most):
        raise SqlError("22023", f'"{name}" is a string' + (f" of at most {most} characters" if most else ""))
    if "\0" in value:
        raise SqlError("22021", 'invalid byte sequence for encoding "UTF8": 0x00')
    return value
