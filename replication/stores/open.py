"""Opens the changelog store of a URL.

A URL never contains credentials, because ZooKeeper stores it and logs show it: they come from the environment.
"""

from __future__ import annotations

import os
import re
from urllib.parse import SplitResult, unquote, urlsplit

from catalog.errors import SqlError
from replication.interface import ChangelogStore
from replication.stores.files import FileStore
from replication.stores.members import LEAVING, parse_quorum
from replication.stores.names import is_name
from replication.stores.quorum import QuorumStore
from replication.stores.tls import check_plaintext, client_context, is_loopback

_EXPECTED = "file:///directory, s3://bucket/prefix, log[s]://host:port/prefix or quorum(E,W,A):url,url,..."
MAX_URL = 4000


def open_store(url: str, *, timeout: float = 10.0) -> ChangelogStore:
    """The store at a URL, without any request to it. `timeout` in seconds, for every call and, of large files, every
    piece. Call it on the thread of the event loop that will use it.

    s3: endpoint and credentials from the environment, AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and so
    on. log, and logs with TLS (replication/stores/tls.py): the secret from SHOAL_STORE_SECRET, or from the file that
    SHOAL_STORE_SECRET_FILE names. A member of a quorum with a '-' before its URL is leaving: it is read, and not
    written.

    Raises SqlError 22023 for anything else, with the expected form.
    """
    if len(url) > MAX_URL or not url.isprintable():
        raise SqlError("22023", "a changelog store's URL is a line of at most 4000 characters")
    if url.startswith("quorum"):
        return _quorum(url, timeout)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _bad_url_error(url, _EXPECTED) from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment or "@" in parts.netloc:
        raise SqlError(
            "22023",
            "a changelog store's URL holds no credentials, no query and no fragment",
            hint="Give credentials in the environment.",
        )
    if parts.scheme == "file":
        return _file(url, parts, timeout)
    if parts.scheme == "s3":
        return _s3(url, parts, timeout)
    if parts.scheme in ("log", "logs"):
        return _log(url, parts, port, timeout)
    raise _bad_url_error(url, _EXPECTED)


def _bad_url_error(url: str, expected: str) -> SqlError:
    shown = re.sub(r"//[^/]*@", "//", url)  # without credentials, whatever their form
    return SqlError("22023", f'"{shown[:200]}" is not the URL of a changelog store', hint=f"Expected {expected}.")


def _file(url: str, parts: SplitResult, timeout: float) -> ChangelogStore:
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path or path.strip("/") == "":
        raise _bad_url_error(url, "file:///directory, with the whole path of a directory")
    return FileStore(path, timeout=timeout)


def _s3(url: str, parts: SplitResult, timeout: float) -> ChangelogStore:
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", parts.netloc):
        raise _bad_url_error(
            url, "s3://bucket/prefix, with a bucket's name of 3 to 63 lower case letters, digits, '.' and '-'"
        )
    from replication.stores.s3 import S3Store

    return S3Store(parts.netloc, _prefix(url, parts), timeout=timeout)


def _log(url: str, parts: SplitResult, port: int | None, timeout: float) -> ChangelogStore:
    if not parts.hostname or not port or not re.fullmatch(r"[a-zA-Z0-9.:_-]+", parts.hostname):
        raise _bad_url_error(url, "log://host:port or log://host:port/prefix, or logs:// with TLS")
    from replication.stores.log_client import LogStore  # its HTTP library takes 0.15 s to load

    secret = store_secret(os.environ.get("SHOAL_STORE_SECRET"), os.environ.get("SHOAL_STORE_SECRET_FILE"))
    tls = client_context(os.environ) if parts.scheme == "logs" else None
    if secret and tls is None and not is_loopback(parts.hostname):
        check_plaintext(f"log://{parts.hostname}:{port}", "Start it with --tls-cert, as logs://", os.environ)
    return LogStore(parts.hostname, port, _prefix(url, parts), timeout=timeout, secret=secret, tls=tls)


def _prefix(url: str, parts: SplitResult) -> str:
    """The path as a prefix of names, '' or ending in '/'."""
    path = parts.path.strip("/")
    if path and (len(path) > 200 or not is_name(path)):
        raise _bad_url_error(url, "a prefix of at most 200 letters, digits, '.', '_', '-' and '/'")
    return path + "/" if path else ""


def store_secret(secret: str | None, file: str | None) -> str:
    """The secret that log stores share, '' for none: given, or in a file. Raises SqlError 22023, 58P01."""
    if not secret and file:
        try:
            with open(file, encoding="utf-8") as opened:
                secret = opened.read().strip()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise SqlError("58P01", f"cannot read the secret of the log stores from {file}: {why}") from None
        if not secret:
            raise SqlError("22023", f"{file} holds no secret")
    secret = secret or ""
    if secret and not (secret.isascii() and secret.isprintable() and " " not in secret and len(secret) <= 1000):
        raise SqlError("22023", "the secret of the log stores is at most 1000 printable ASCII characters, no space")
    return secret


def _quorum(url: str, timeout: float) -> ChangelogStore:
    parsed = parse_quorum(url)
    if parsed is None:
        raise _bad_url_error(
            url, "quorum(E,W,A):url,url,... with the sizes of the ensemble, write quorum and ack quorum"
        )
    urls = [*parsed.active, *(LEAVING + member for member in parsed.leaving)]
    return QuorumStore(
        urls,
        parsed.ensemble,
        parsed.write,
        parsed.ack,
        opener=lambda member: _member(member, timeout),
        timeout=timeout,
    )


def _member(url: str, timeout: float) -> ChangelogStore:
    if not url or url.startswith(("quorum", LEAVING)):
        raise _bad_url_error(url, "a file, s3 or log URL as a member of a quorum")
    return open_store(url, timeout=timeout)
