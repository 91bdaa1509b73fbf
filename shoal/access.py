"""Who gets to the node's ports, of the configuration: the file of host rules, the certificate for TLS."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

from catalog.errors import SqlError
from replication.stores.tls import server_context
from shoal.config import HTTPS, Config, ConfigError
from wire.host_rules import LOCAL, Rule, RuleError, parse
from wire.server import is_loopback
from wire.tls import for_clients


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


def client_tls(config: Config) -> ssl.SSLContext | None:
    """Raises ConfigError."""
    return for_clients(_context(config)) if config.tls_cert else None


def admin_tls(config: Config) -> ssl.SSLContext | None:
    """TLS on the administration port, with the SQL port's certificate: where it is asked for, and always beyond this
    machine, so that no password goes there in the clear. Raises ConfigError."""
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
