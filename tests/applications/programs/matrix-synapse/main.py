"""Synapse: a homeserver that makes its schema, users, rooms, messages, searches, and the administrator's interface."""

import hashlib
import hmac
import json
import os
import pathlib
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import psycopg2
from background import check_log, free_port, serve

PORT = free_port()
SECRET = "secret of registrations"
CONFIG = {
    "server_name": "example.org",
    "report_stats": False,
    "listeners": [
        {"port": PORT, "type": "http", "bind_addresses": ["127.0.0.1"], "resources": [{"names": ["client"]}]}
    ],
    "database": {
        "name": "psycopg2",
        "args": {
            "dbname": "synapse",
            "host": os.environ["PGHOST"],
            "port": int(os.environ["PGPORT"]),
            "user": "postgres",
        },
    },
    "registration_shared_secret": SECRET,
    "enable_registration": False,
    "trusted_key_servers": [],
    "suppress_key_server_warning": True,
    "media_store_path": "media",
    "signing_key_path": "signing.key",
    "macaroon_secret_key": "m" * 40,
    "form_secret": "f" * 40,
    "log_config": "log.yaml",
    "rc_message": {"per_second": 1000, "burst_count": 1000},
    "rc_login": {"address": {"per_second": 1000, "burst_count": 1000}},
    "user_directory": {"enabled": True, "search_all_users": True},
}
LOGGING = {
    "version": 1,
    "formatters": {"f": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"h": {"class": "logging.StreamHandler", "formatter": "f"}},
    "root": {"level": "WARNING", "handlers": ["h"]},
}
BASE = f"http://127.0.0.1:{PORT}"


def request(method: str, path: str, body: object = None, token: str = "", status: int = 200):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    asked = urllib.request.Request(BASE + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            found, text = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        found, text = error.code, error.read()
    assert found == status, (method, path, found, text[:1000])
    return json.loads(text)


def register(name: str, admin: bool) -> str:
    nonce = request("GET", "/_synapse/admin/v1/register")["nonce"]
    parts = [nonce, name, "password", "admin" if admin else "notadmin"]
    mac = hmac.new(SECRET.encode(), "\0".join(parts).encode(), hashlib.sha1).hexdigest()
    body = {"nonce": nonce, "username": name, "password": "password", "admin": admin, "mac": mac}
    return request("POST", "/_synapse/admin/v1/register", body)["access_token"]


def use() -> None:
    ada, bob = register("ada", True), register("bob", False)
    body = {"type": "m.login.password", "identifier": {"type": "m.id.user", "user": "bob"}, "password": "password"}
    bob = request("POST", "/_matrix/client/v3/login", body)["access_token"]
    made = {
        "name": "the room",
        "topic": "talk",
        "preset": "public_chat",
        "room_alias_name": "room",
        "visibility": "public",
    }
    room = request("POST", "/_matrix/client/v3/createRoom", made, ada)["room_id"]
    at = f"/_matrix/client/v3/rooms/{urllib.parse.quote(room)}"
    request("POST", f"{at}/invite", {"user_id": "@bob:example.org"}, ada)
    request("POST", f"{at}/join", {}, bob)
    events = []
    for number in range(20):
        body = {"msgtype": "m.text", "body": f"message {number} of many foxes"}
        events.append(request("PUT", f"{at}/send/m.room.message/{number}", body, ada)["event_id"])
    again = request("PUT", f"{at}/send/m.room.message/19", body, ada)["event_id"]
    assert again == events[-1]
    related = {"m.relates_to": {"rel_type": "m.annotation", "event_id": events[0], "key": "+1"}}
    request("PUT", f"{at}/send/m.reaction/r", related, bob)
    threaded = {"msgtype": "m.text", "body": "t", "m.relates_to": {"rel_type": "m.thread", "event_id": events[1]}}
    request("PUT", f"{at}/send/m.room.message/t", threaded, bob)
    request("PUT", f"{at}/redact/{urllib.parse.quote(events[2])}/x", {"reason": "r"}, ada)
    request("POST", f"{at}/receipt/m.read/{urllib.parse.quote(events[5])}", {}, bob)
    request("PUT", f"{at}/typing/@bob:example.org", {"typing": True, "timeout": 1000}, bob)
    page = request("GET", f"{at}/messages?dir=b&limit=10", token=bob)
    assert len(page["chunk"]) == 10
    first = request("GET", "/_matrix/client/v3/sync?timeout=0", token=bob)
    assert room in first["rooms"]["join"]
    request("PUT", f"{at}/send/m.room.message/more", {"msgtype": "m.text", "body": "more"}, ada)
    then = request("GET", f"/_matrix/client/v3/sync?timeout=1000&since={first['next_batch']}", token=bob)
    assert then["rooms"]["join"][room]["timeline"]["events"]
    search = {"search_categories": {"room_events": {"search_term": "fox", "order_by": "rank"}}}
    assert request("POST", "/_matrix/client/v3/search", search, bob)["search_categories"]["room_events"]["count"] > 0
    request("PUT", "/_matrix/client/v3/profile/@bob:example.org/displayname", {"displayname": "Bob"}, bob)
    request("GET", "/_matrix/client/v3/publicRooms", token=bob)
    assert request("GET", f"{at}/joined_members", token=ada)["joined"]
    request("POST", "/_matrix/client/v3/user_directory/search", {"search_term": "bob"}, ada)
    request("PUT", "/_matrix/client/v3/user/@bob:example.org/account_data/x.y", {"a": 1}, bob)
    keys = {"device_keys": None, "one_time_keys": {"signed_curve25519:A": {"key": "k", "signatures": {}}}}
    request("POST", "/_matrix/client/v3/keys/upload", {"one_time_keys": keys["one_time_keys"]}, bob)
    request("PUT", "/_matrix/client/v3/sendToDevice/m.x/1", {"messages": {"@bob:example.org": {"*": {"a": 1}}}}, ada)
    request("POST", f"{at}/leave", {}, bob)
    assert len(request("GET", "/_synapse/admin/v2/users?order_by=creation_ts", token=ada)["users"]) == 2
    assert request("GET", "/_synapse/admin/v1/rooms?order_by=joined_members&search_term=room", token=ada)["rooms"]
    request("GET", "/_synapse/admin/v1/statistics/users/media", token=ada)
    request("POST", "/_synapse/admin/v1/deactivate/@bob:example.org", {"erase": True}, ada)
    request("DELETE", f"/_synapse/admin/v1/rooms/{urllib.parse.quote(room)}", {"block": False, "purge": True}, ada)


def main() -> None:
    connection = psycopg2.connect("")
    connection.autocommit = True
    connection.cursor().execute(
        "CREATE DATABASE synapse ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    )
    connection.close()
    pathlib.Path("log.yaml").write_text(json.dumps(LOGGING))
    pathlib.Path("homeserver.yaml").write_text(json.dumps(CONFIG))
    command = [sys.executable, "-m", "synapse.app.homeserver", "--config-path", "homeserver.yaml"]
    subprocess.run([*command, "--generate-keys"], check=True)
    for start in range(2):  # the second finds its schema
        with serve(command, f"{BASE}/_matrix/client/versions"):
            if start == 0:
                use()
        check_log()


if __name__ == "__main__":
    main()
