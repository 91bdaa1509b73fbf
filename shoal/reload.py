"""Reloads the configuration of a running server on SIGHUP or pg_reload_conf(), changes it for ALTER SYSTEM, and
provides it to pg_settings.

Everything is read and checked before anything changes. An error is logged, and leaves the configuration unchanged. A
new certificate is loaded into the existing TLS contexts, so both ports use it for new connections. Settings that need a
restart keep their values, and the log names them.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from engine.configuration import FileEntry, Origin, RuleEntry
from engine.node.node import Node
from engine.session.open_sessions import open_sessions
from engine.session.setting_definitions import SERVER_DEFINITIONS, milliseconds
from engine.session.settings import check_for_all
from replication.stores.tls import renew_certificate
from shoal import auto_conf
from shoal.access import client_tls, host_rules
from shoal.config import (
    Config,
    ConfigError,
    ConfigSources,
    Setting,
    config_of_settings,
    line_of,
    read_file,
    without_credentials,
)
from shoal.logs import configure
from wire.host_rules import SCRAM, Rule, line_by_line
from wire.server import Server, is_loopback

if TYPE_CHECKING:
    from shoal.admin.server import Admin

log = logging.getLogger("shoal")

OF_SESSIONS = frozenset(("log_min_duration_statement", "log_connections"))  # new sessions start with the server's value
CHANGEABLE = OF_SESSIONS | {name for name, item in SERVER_DEFINITIONS.items() if item.context == "sighup"}
_SOURCES = {
    "file": "configuration file",
    "ALTER SYSTEM": "configuration file",
    "environment": "environment variable",
    "flag": "command line",
}


def ignore_hangup() -> None:
    """Ignores SIGHUP until the server handles it. Call it before any thread or process is started."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def on_hangup(call: Callable[[], object]) -> None:
    """Calls a function in the running loop at each SIGHUP."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, call)


def default_settings(config: Config) -> dict[str, str]:
    """The initial settings of sessions: from the configuration and from ALTER SYSTEM. Raises ConfigError."""
    return config.default_settings | {
        entry.name: entry.value for entry in _altered_settings(config.data_path) if entry.name not in _FIELDS
    }


_FIELDS = frozenset(field.name for field in fields(Config))


def _altered_settings(data: Path) -> list[auto_conf.AutoConfEntry]:
    """The settings of ALTER SYSTEM. They are checked again because the file may have been edited. Raises
    ConfigError."""
    try:
        found = auto_conf.read(data)
    except auto_conf.DamagedFileError as error:
        raise ConfigError(str(error)) from error
    for entry in found:
        try:
            check_for_all(entry.name, entry.value)
        except SqlError as error:
            raise ConfigError(f"{auto_conf.path_of(data)}, line {entry.line}: {error.message}") from error
    return found


@dataclass
class Reload:
    """The engine's Configuration. `sources`: the sources at the start."""

    sources: ConfigSources
    config: Config
    node: Node
    server: Server
    admin: Admin | None
    name: str  # the node's name in the log
    memory: int  # the value of `memory` = 0
    pending: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._started = self.config
        self._writing = asyncio.Lock()
        self._origins = self._find_origins(self.sources.settings())

    def reload(self) -> bool:
        log.info("the configuration was reloaded")
        try:
            settings = self.sources.settings()
            new = config_of_settings(settings)
            defaults = default_settings(new)
            rules = self._rules(new)
            fresh = client_tls(new)
            if fresh is None and self.admin is not None and self.admin.tls is not None:
                raise ConfigError("the administration port needs the certificate")
            configure(new.log_format, self.name)
        except (ConfigError, SqlError, OSError) as error:
            log.error("the configuration was not reloaded: %s", error)
            return False
        self._use_certificate(new, fresh)
        self.server.rules = rules
        if self.admin is not None:
            self.admin.rules = rules
        self.server.limit(new.max_connections, new.superuser_reserved_connections)
        self.node.memory.limit = new.memory or self.memory
        self._use_defaults(defaults)
        self._log_changes(new)
        changed = {name for name in _FIELDS if getattr(new, name) != getattr(self._started, name)}
        self.pending = frozenset(changed - CHANGEABLE)
        origins, before = self._find_origins(settings), self._origins
        for name in self.pending:
            origins.pop(name, None)
        self._origins = origins | {name: origin for name, origin in before.items() if name in self.pending}
        return True

    def _rules(self, new: Config) -> Sequence[Rule]:
        rules = host_rules(new)
        beyond = not is_loopback(self.server.address[0])
        if self.admin is not None:
            beyond = beyond or not is_loopback(self.admin.address[0])
        if beyond and all(rule.method != SCRAM for rule in rules):
            raise ConfigError("without a password rule the server would have to listen on loopback addresses only")
        return rules

    def _use_certificate(self, new: Config, fresh: ssl.SSLContext | None) -> None:
        if fresh is not None:
            contexts = (self.server.tls, None if self.admin is None else self.admin.tls)
            renew_certificate(contexts, new.tls_cert, new.tls_key)
        if fresh is None or self.server.tls is None:
            self.server.tls = fresh

    def _use_defaults(self, new: dict[str, str]) -> None:
        """Changes the default settings of sessions that have not set them."""
        before, self.node.default_settings = self.node.default_settings, new
        names = [name for name in {**before, **new} if before.get(name) != new.get(name)]
        for session in list(open_sessions(self.node).values()):
            for name in names:
                session.settings.follow(name, before.get(name), new.get(name))

    def _log_changes(self, new: Config) -> None:
        changed = [
            field.name for field in fields(Config) if getattr(new, field.name) != getattr(self.config, field.name)
        ]
        for name in changed:
            if name in CHANGEABLE:
                log.info('"%s" is changed to "%s"', name, getattr(new, name))
            else:
                log.warning('"%s" cannot be changed without restarting the server', name)
        self.config = new

    # ---- for sessions -------------------------------------------------------------------------------------------

    def _find_origins(self, settings: Sequence[Setting]) -> dict[str, Origin]:
        found = {
            item.name: Origin(_SOURCES[item.source], item.file, item.line)
            for item in settings
            if item.source in _SOURCES
        }
        if "log_connections" in found:
            found["log_disconnections"] = found["log_connections"]
        data = self._started.data_path
        for entry in _altered_settings(data):
            if entry.name not in _FIELDS:
                found[entry.name] = Origin("configuration file", str(auto_conf.path_of(data)), entry.line)
        return found

    def show_value(self, name: str) -> str:
        value = without_credentials(getattr(self.config if name in CHANGEABLE else self._started, name))
        return str(value)

    def origin(self, name: str) -> Origin | None:
        return self._origins.get(name)

    async def alter(self, name: str | None, value: str | None) -> None:
        if name == "log_min_duration_statement" and value is not None:
            value = str(milliseconds(value))
        async with self._writing:
            try:
                await asyncio.to_thread(auto_conf.change, self._started.data_path, name, value)
            except auto_conf.DamagedFileError as error:
                raise SqlError("F0000", str(error), hint="Correct the file, or remove it.") from error
            except OSError as error:
                raise SqlError("58030", f'could not write file "{auto_conf.FILE}": {error.strerror}') from error

    def entries(self) -> list[FileEntry]:
        data, path = self._started.data_path, self.sources.path
        found: list[tuple[str, int, str, str]] = []
        if path is not None:
            try:
                values = read_file(path)
                found += [
                    (path, line_of(path, name) or 0, name, str(without_credentials(value)))
                    for name, value in values.items()
                ]
            except ConfigError as error:
                return [FileEntry(path, 0, "", "", False, str(error))]
        file = str(auto_conf.path_of(data))
        try:
            found += [
                (file, entry.line, entry.name, str(without_credentials(entry.value)))
                for entry in _altered_settings(data)
            ]
        except ConfigError as error:
            return [FileEntry(file, 0, "", "", False, str(error))]
        found.sort(key=lambda item: (item[0] == file, item[1]))
        last = {name: number for number, (_, _, name, _) in enumerate(found)}
        return [
            FileEntry(*item, False, "setting could not be applied")
            if item[2] in self.pending
            else FileEntry(*item, last[item[2]] == number)
            for number, item in enumerate(found)
        ]

    def rules(self) -> list[RuleEntry]:
        if not self.config.host_rules:
            return []
        try:
            text = Path(self.config.host_rules).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            return [RuleEntry(0, f"cannot read the host rules {self.config.host_rules}: {error}")]
        return [
            RuleEntry(line, wrong) if rule is None else _rule_entry(line, kind, rule)
            for line, kind, rule, wrong in line_by_line(text)
        ]


def _rule_entry(line: int, kind: str, rule: Rule) -> RuleEntry:
    names = tuple(map(str, rule.databases)), tuple(map(str, rule.users))
    if rule.network is None:
        return RuleEntry(line, None, kind, *names, "all", None, rule.method)
    return RuleEntry(
        line, None, kind, *names, str(rule.network.network_address), str(rule.network.netmask), rule.method
    )
