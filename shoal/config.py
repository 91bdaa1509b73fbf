"""The server's configuration: defaults, then a TOML file, then the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path


class ConfigError(Exception):
    """What is wrong with the configuration, in one line."""


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes are in bytes, times in seconds."""

    data: str = "./shoal-data"
    listen: str = "127.0.0.1:5432"
    max_connections: int = 500
    columnar_memory: int = 2 << 30
    columnar_threads: int = 2
    cluster: str = ""  # zk://HOST:PORT,.../NAME; '' is a node alone
    store: str = ""  # URL of the cluster's changelog store; '' is the one that the cluster already has
    read_from: str = ""  # URL of a regional copy of the changelog store, by way of which this node follows
    node: str = ""  # the node's name in the cluster; '' is the host's
    session_timeout: float = 6.0  # after which ZooKeeper takes a silent node for dead
    commit_timeout: float = 10.0  # how long a commit may wait for ZooKeeper and the store
    checkpoint_interval: float = 3600.0  # between two checkpoints of a tablespace, if it has changed

    @property
    def data_path(self) -> Path:
        """`data` as an absolute path: the analytic worker has another working directory."""
        return Path(self.data).absolute()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of `listen`. Raises ConfigError."""
        host, _, port = self.listen.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise ConfigError(f'"{self.listen}" is not HOST:PORT, such as 127.0.0.1:5432')
        return host.strip("[]"), int(port)


def load(path: str | None, overrides: Mapping[str, object]) -> Config:
    """The configuration. Raises ConfigError for a file that cannot be read, an unknown name or a wrong type."""
    values: dict[str, object] = {}
    if path is not None:
        try:
            values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from error
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path}: {error}") from error
    known = {field.name: type(field.default) for field in fields(Config)}
    for name, value in list(values.items()):
        if name not in known:
            raise ConfigError(f'{path}: unknown setting "{name}"; known are {", ".join(known)}')
        if known[name] is float and type(value) is int:
            values[name] = float(value)
        elif type(value) is not known[name]:
            raise ConfigError(f"{path}: {name} must be of type {known[name].__name__}")
    values.update({name: value for name, value in overrides.items() if value is not None})
    return Config(**values)  # type: ignore[arg-type]
