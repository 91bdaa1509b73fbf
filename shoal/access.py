"""Who gets to the SQL port, of the configuration: the file of host rules, the certificate for TLS."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

from catalog.errors import SqlError
from replication.stores.tls import server_context
from shoal.config import Config, ConfigError
from wire.host_rules import LOCAL, Rule, RuleError, parse
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
    if not config.tls_cert:
        return None
    try:
        return for_clients(server_context(config.tls_cert, config.tls_key))
    except SqlError as error:
        raise ConfigError(error.message) from error
