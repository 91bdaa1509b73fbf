"""The server's configuration. Later sources override earlier ones: defaults, a TOML file, ALTER SYSTEM
(shoal/auto_conf.py), the environment, the command line.

The environment variable of a setting is SHOAL_ and its name in capitals: SHOAL_LISTEN=127.0.0.1:6543. An empty variable
is ignored.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType

from shoal import auto_conf

HTTPS = "https://"
NOT_ALTERED = ("data", "cluster", "node")  # the settings that identify the directory and the node


class ConfigError(Exception):
    """An error in the configuration. The message is one line."""


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes are in bytes, times in seconds."""

    data: str = "./shoal-data"
    listen: str = "127.0.0.1:5432"
    host_rules: str = ""  # file of host rules; '' allows connections from this machine only
    tls_cert: str = ""  # PEM file with the certificate for TLS; '' disables TLS
    tls_key: str = ""  # its key; '' if it is in the certificate file
    admin: str = ""  # HOST:PORT of the administration port, https://HOST:PORT for TLS; '' disables it
    max_connections: int = 500
    superuser_reserved_connections: int = 3  # of these connections, the number for superusers
    log_format: str = "text"  # text or json
    log_min_duration_statement: int = -1  # milliseconds; statements that take at least this long are logged; -1: none
    log_connections: bool = False  # and when they end
    memory: int = 0  # memory of all connections in the server's process; 0: half of the machine's, or of its cgroup
    columnar_memory: int = 2 << 30
    columnar_threads: int = 2
    columnar_spill: int = 0
    cluster: str = ""  # zk://HOST:PORT,.../NAME; '' for a single node
    store: str = ""  # URL of the cluster's changelog store; '' for the recorded one
    read_from: str = ""  # URL of a regional copy of the changelog store, through which this node follows
    node: str = ""  # the node's name in the cluster; '' for the host name
    session_timeout: float = 6.0  # after which ZooKeeper ends the session of a silent node
    commit_timeout: float = 10.0  # maximum time that a commit waits for ZooKeeper and the store
    checkpoint_interval: float = 3600.0  # between two checkpoints of a changed tablespace

    past_window: float = 5.0  # the maximum size of a table that is read from memory
    history_retention: float = 0.0  # how long a single node keeps the past for time travel and backups
    history_bytes: int = 4 << 30  # maximum changelog that is kept for it, for each tablespace

    @property
    def data_path(self) -> Path:
        """`data` as an absolute path, because the analytic worker has another working directory."""
        return Path(self.data).absolute()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of `listen`. Raises ConfigError."""
        return host_and_port(self.listen)

    @property
    def default_settings(self) -> dict[str, str]:
        """The initial session settings that the configuration has."""
        connections = "on" if self.log_connections else "off"
        return {
            "log_min_duration_statement": str(self.log_min_duration_statement),
            "log_connections": connections,
            "log_disconnections": connections,
        }

    @property
    def admin_address(self) -> tuple[str, int] | None:
        """Host and port of `admin`, or None if it is not set. Raises ConfigError."""
        return host_and_port(self.admin.removeprefix(HTTPS)) if self.admin else None


def host_and_port(text: str) -> tuple[str, int]:
    """Reads HOST:PORT, or [HOST]:PORT for an IPv6 address. Raises ConfigError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f'"{text}" is not HOST:PORT, such as 127.0.0.1:5432')
    return host.strip("[]"), int(port)


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting's current value and its source: default, file, ALTER SYSTEM, environment or flag. `file` and `line` are
    the place in the file, if the value comes from one."""

    name: str
    value: object
    source: str
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class ConfigSources:
    """The sources of a server's configuration."""

    path: str | None
    overrides: Mapping[str, object]
    environment: Mapping[str, str]

    @classmethod
    def of_config(cls, config: Config) -> ConfigSources:
        """Sources that always give the same configuration."""
        return cls(None, {field.name: getattr(config, field.name) for field in fields(Config)}, {})

    def settings(self) -> list[Setting]:
        """The settings by name. Raises ConfigError."""
        return resolve_settings(self.path, self.overrides, self.environment)


def without_credentials(value: object) -> object:
    """A value without the credentials of a URL."""
    return re.sub(r"://[^/,]*@", "://***@", value) if isinstance(value, str) else value


def load(
    path: str | None, overrides: Mapping[str, object], environment: Mapping[str, str] = MappingProxyType({})
) -> Config:
    """The configuration. Raises ConfigError for a file that cannot be read, an unknown name or a wrong type."""
    return config_of_settings(resolve_settings(path, overrides, environment))


def config_of_settings(settings: Iterable[Setting]) -> Config:
    return Config(**{setting.name: setting.value for setting in settings})  # type: ignore[arg-type]


def resolve_settings(
    path: str | None, overrides: Mapping[str, object], environment: Mapping[str, str]
) -> list[Setting]:
    """Every setting with its value and source. `overrides`: the values of the command line, None for an option that is
    not given. Raises ConfigError as `load`."""
    known = {field.name: type(field.default) for field in fields(Config)}
    in_file = {} if path is None else read_file(path)
    altered: dict[str, auto_conf.AutoConfEntry] = {}

    def setting(name: str, default: object) -> Setting:
        variable = variable_of(name)
        if overrides.get(name) is not None:
            return Setting(name, overrides[name], "flag")
        if environment.get(variable):
            return Setting(name, _parse_variable(variable, environment[variable], known[name]), "environment")
        if name in altered:
            value = _parse_variable(name, altered[name].value, known[name])
            return Setting(name, value, "ALTER SYSTEM", str(auto_conf.path_of(data)), altered[name].line)
        if name in in_file:
            return Setting(name, in_file[name], "file", path, None if path is None else line_of(path, name))
        return Setting(name, default, "default")

    data = Path(str(setting("data", Config().data).value)).absolute()
    try:
        altered |= {entry.name: entry for entry in auto_conf.read(data) if entry.name in known}
    except auto_conf.DamagedFileError as error:
        raise ConfigError(str(error)) from error
    for name in NOT_ALTERED:
        if name in altered:
            raise ConfigError(f'{auto_conf.path_of(data)}: parameter "{name}" cannot be changed')
    return [setting(field.name, field.default) for field in fields(Config)]


def read_file(path: str) -> dict[str, object]:
    """The settings in the TOML file. Raises ConfigError."""
    return _from_file(path, {field.name: type(field.default) for field in fields(Config)})


def line_of(path: str, name: str) -> int | None:
    """The line of the TOML file that sets a setting. Raises ConfigError."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    pattern = re.compile(rf"\s*[\"']?{name}[\"']?\s*=")
    return next((number for number, line in enumerate(lines, 1) if pattern.match(line)), None)


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return f"SHOAL_{name.upper()}"


def _from_file(path: str, known: Mapping[str, type]) -> dict[str, object]:
    try:
        values: dict[str, object] = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    for name, value in list(values.items()):
        if name not in known:
            raise ConfigError(f'{path}: unknown setting "{name}"; known are {", ".join(known)}')
        if known[name] is float and type(value) is int:
            values[name] = float(value)
        elif type(value) is not known[name]:
            raise ConfigError(f"{path}: {name} must be of type {known[name].__name__}")
    return values


def _parse_variable(variable: str, text: str, kind: type) -> object:
    if kind is bool:
        found = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}.get(text.lower())
        if found is None:
            raise ConfigError(f'{variable}="{text}": must be true or false')
        return found
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f'{variable}="{text}": must be of type {kind.__name__}') from None
