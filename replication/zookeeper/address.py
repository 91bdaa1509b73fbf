"""The address of a cluster's ZooKeeper, with credentials and TLS.

    zk://HOST:PORT,HOST:PORT/NAME          all znodes of the cluster are below /NAME

Credentials and TLS come from the environment, so that they show in no list of processes:

    SHOAL_ZK_AUTH=user:password       or SHOAL_ZK_AUTH_FILE, a file with that line: digest authentication; only this
                                      user can access the znodes that are then created
    SHOAL_ZK_SASL=user:password       or SHOAL_ZK_SASL_FILE: the same by SASL (DIGEST-MD5), which the servers check
    SHOAL_ZK_TLS_CA, _CERT, _KEY      files; TLS is spoken if the first is set, the others identify this node

Without credentials, any process that can connect to ZooKeeper could change the cluster, so this is allowed on loopback
only.
"""

from __future__ import annotations

import ipaddress
import pathlib
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from catalog.errors import SqlError

DEFAULT_PORT = 2181
DIGEST, SASL = "SHOAL_ZK_AUTH", "SHOAL_ZK_SASL"

_HOST = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]:@/?#\s]+)(?::(?P<port>\d{1,5}))?")
_NAME = re.compile(r"(?!\.\.?$)[A-Za-z0-9._-]+")
_SHAPE = "write it as zk://HOST:PORT,HOST:PORT/NAME"


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed URL with the settings of the environment. `chroot` starts with '/', `auth` is 'user:password' or '';
    `sasl`: the servers check it; otherwise it is a digest that only ACLs know."""

    hosts: tuple[str, ...]  # HOST:PORT, IPv6 hosts in brackets
    chroot: str
    auth: str = ""
    sasl: bool = False
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""

    @property
    def url(self) -> str:
        """The URL without credentials: fit for messages and the log."""
        return f"zk://{','.join(self.hosts)}{self.chroot}"

    @property
    def loopback(self) -> bool:
        """Every server is on this machine."""
        return all(_is_loopback(host.rpartition(":")[0]) for host in self.hosts)

    def tls_context(self) -> ssl.SSLContext | None:
        """None without TLS. Raises SqlError 08001 for unreadable files."""
        if not self.tls_ca:
            return None
        try:
            context = ssl.create_default_context(cafile=self.tls_ca)
            if self.tls_cert:
                context.load_cert_chain(self.tls_cert, self.tls_key or None)
        except (OSError, ssl.SSLError) as error:
            raise SqlError("08001", f"cannot use the TLS files in SHOAL_ZK_TLS_CA, _CERT and _KEY: {error}") from error
        return context


def parse_address(url: str, environment: Mapping[str, str]) -> Address:
    """Raises SqlError 08001 with the expected form, or the variable to set."""
    scheme, separator, rest = url.partition("://")
    if scheme != "zk" or not separator:
        _wrong(url, "it does not start with zk://")
    # A password must not appear in a message, so errors show the URL without it.
    userinfo, _, rest = rest.rpartition("@")
    shown = f"zk://{rest}"
    netloc, separator, name = rest.partition("/")
    if not separator or not name.strip("/"):
        _wrong(shown, "the name of the cluster is missing")
    parts = name.rstrip("/").split("/")
    for part in parts:
        if not _NAME.fullmatch(part):
            _wrong(shown, f'"{part}" is not a name of letters, digits, ".", "_" and "-"')
    if parts[0] == "zookeeper":
        _wrong(shown, "/zookeeper is ZooKeeper's own")
    if userinfo:
        _wrong(shown, "anyone who lists processes can see its password: set SHOAL_ZK_AUTH, or SHOAL_ZK_AUTH_FILE")
    hosts = tuple(_host(shown, host) for host in netloc.split(","))
    digest, sasl = _credentials(environment, DIGEST), _credentials(environment, SASL)
    if digest and sasl:
        raise SqlError("08001", f"{DIGEST} and {SASL} are two users for ZooKeeper: a cluster belongs to one of them")
    address = Address(
        hosts,
        "/" + "/".join(parts),
        digest or sasl,
        bool(sasl),
        environment.get("SHOAL_ZK_TLS_CA", ""),
        environment.get("SHOAL_ZK_TLS_CERT", ""),
        environment.get("SHOAL_ZK_TLS_KEY", ""),
    )
    if address.auth and not all(address.auth.partition(":")):
        raise SqlError("08001", "the credentials for ZooKeeper are not of the form user:password")
    if not address.auth and not address.loopback:
        raise SqlError(
            "08001",
            f"{shown} is not on this machine, and there are no credentials for it: "
            "set SHOAL_ZK_AUTH=user:password (the same on all nodes), otherwise anyone could change the cluster",
        )
    return address


def _host(url: str, text: str) -> str:
    match = _HOST.fullmatch(text)
    if match is None:
        _wrong(url, f'"{text}" is not HOST:PORT')
    port = int(match["port"] or DEFAULT_PORT)
    if not 0 < port < 65536:
        _wrong(url, f"{port} is not a port")
    return f"{match['host']}:{port}"


def _wrong(url: str, reason: str) -> NoReturn:
    raise SqlError("08001", f'"{url}" is not the address of a cluster: {reason}; {_SHAPE}')


def _credentials(environment: Mapping[str, str], name: str) -> str:
    """The credentials in the variable, or in the file that the variable with _FILE at its end names; '' for none."""
    auth = environment.get(name, "")
    file = environment.get(f"{name}_FILE", "")
    if auth or not file:
        return auth
    try:
        return pathlib.Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SqlError("08001", f"cannot read the credentials in {name}_FILE: {error}") from error


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
