"""Access to the node's ports: the file of host rules, and the certificate for TLS."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import ssl
from collections.abc import Sequence
from pathlib import Path

from catalog.errors import SqlError
from replication.stores.tls import server_context
from shoal.config import HTTPS, Config, ConfigError
from wire.host_rules import LOCAL, Rule, RuleError, parse
from wire.server import is_loopback
from wire.tls import for_clients, hash_of

MOCK_KEY_BYTES = 32


def host_rules(config: Config) -> Sequence[Rule]:
    """Raises ConfigError."""
    if not config.host_rules:
        return LOCAL
    try:
        rules = parse(Path(config.host_rules).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the host rules {config.host_rules}: {error}") from error
    except RuleError as error:
        raise ConfigError(f"{config.host_rules}, {error}") from error
    if not rules:
        raise ConfigError(f"{config.host_rules} has no rule: nobody could connect")
    if any(rule.secure for rule in rules) and not config.tls_cert:
        raise ConfigError(f"{config.host_rules} has rules for TLS (hostssl): give --tls-cert too")
    return rules


def mock_key(data: Path, cluster_secret: bytes = b"") -> bytes:
    """The key for the salts of unknown roles: of the cluster, or kept in the directory of a single node. Raises
    OSError."""
    if cluster_secret:
        return hmac.digest(cluster_secret, b"salts of unknown roles", "sha256")
    path = data / "mock-key"
    with contextlib.suppress(FileNotFoundError):
        found = path.read_bytes()
        if len(found) == MOCK_KEY_BYTES:
            return found
    key = secrets.token_bytes(MOCK_KEY_BYTES)
    fresh = path.with_name(path.name + ".new")
    fresh.touch(0o600)
    fresh.write_bytes(key)
    fresh.rename(path)
    return key


def certificate_hash(config: Config) -> str:
    """The hash of the node's certificate, '' without one. Raises ConfigError."""
    if not config.tls_cert:
        return ""
    try:
        text = Path(config.tls_cert).read_text(encoding="ascii")
        begin = text.index(ssl.PEM_HEADER)
        return hash_of(ssl.PEM_cert_to_DER_cert(text[begin : text.index(ssl.PEM_FOOTER, begin)] + ssl.PEM_FOOTER))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the certificate {config.tls_cert}: {error}") from error


def client_tls(config: Config) -> ssl.SSLContext | None:
    """Raises ConfigError."""
    return for_clients(_context(config)) if config.tls_cert else None


def admin_tls(config: Config) -> ssl.SSLContext | None:
    """TLS on the administration port, with the SQL port's certificate: on request, and always beyond this machine, so
    that no password is sent unencrypted. Raises ConfigError."""
    address = config.admin_address
    if address is None or (is_loopback(address[0]) and not config.admin.startswith(HTTPS)):
        return None
    if not config.tls_cert:
        raise ConfigError(
            f"refusing to serve administration on {config.admin} without TLS: give --tls-cert, or use --admin "
            "127.0.0.1:PORT"
        )
    return _context(config)


def _context(config: Config) -> ssl.SSLContext:
    try:
        return server_context(config.tls_cert, config.tls_key)
    except SqlError as error:
        raise ConfigError(error.message) from error
