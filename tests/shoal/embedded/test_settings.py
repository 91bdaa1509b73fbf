"""Every setting of the configuration is used by an embedded database, or refused by name: none is ignored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.config import Config
from shoal.embedded import database as module
from shoal.embedded.database import REFUSED
from shoal.embedded.errors import InterfaceError, NotSupportedError

SETTINGS = {field.name: field.default for field in fields(Config)}
USED = sorted(SETTINGS.keys() - REFUSED.keys())
read: set[str] = set()


class Watched(Config):
    """Notes what is read of it."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        read.add(name)
        return super().__getattribute__(name)


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[set[str]]:
    """What opening and serving have read of the configuration."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "Config", Watched)
        read.clear()
        # The history's bytes are for who keeps one, and a certificate's key for who has one.
        with shoal.open(tmp_path_factory.mktemp("data") / "db", history_retention=60.0) as db:
            db.execute("SELECT 1")
            db.serve()
            yield set(read) | _of_certificates(patch)


def _of_certificates(patch: pytest.MonkeyPatch) -> set[str]:
    read.clear()
    with pytest.raises(Exception, match=r"missing\.pem"):
        module.client_tls(Watched(tls_cert="missing.pem"))
    return set(read) & {"tls_key"}


@pytest.mark.parametrize("name", USED)
def test_a_setting_is_used(looked_at: set[str], name: str) -> None:
    assert name in looked_at


def test_a_setting_without_a_reader_is_found(looked_at: set[str]) -> None:
    assert "checkpoint_interval" not in looked_at


@pytest.mark.parametrize("name", sorted(REFUSED.keys() - {"data"}))
def test_a_setting_that_means_nothing_is_refused(name: str, tmp_path: Path) -> None:
    value = {"cluster": "zk://127.0.0.1:2181/shoal", "node": "e1"}.get(name, SETTINGS[name])
    with pytest.raises(NotSupportedError, match=name) as error:
        shoal.open(tmp_path / "db", **{name: value})
    assert error.value.sqlstate == "0A000"
    assert not (tmp_path / "db").exists()


def test_refused_are_settings() -> None:
    assert REFUSED.keys() <= SETTINGS.keys()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"clutser": "zk://x"}, 'unknown setting "clutser"'),
        ({"columnar_memory": "1GB"}, "columnar_memory must be of type int"),
        ({"log_connections": 1}, "log_connections must be of type bool"),
    ],
)
def test_what_is_no_setting_is_an_error(settings: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(InterfaceError, match=told):
        shoal.open(tmp_path / "db", **settings)
    assert not (tmp_path / "db").exists()


def test_a_second_connection_does_not_ignore_its_settings(tmp_path: Path) -> None:
    with shoal.open(tmp_path / "db", columnar_threads=1):
        shoal.connect(tmp_path / "db", columnar_threads=1).close()
        with pytest.raises(InterfaceError, match="another value of columnar_threads"):
            shoal.connect(tmp_path / "db", columnar_threads=2)
        with pytest.raises(NotSupportedError):
            shoal.connect(tmp_path / "db", cluster="zk://127.0.0.1:2181/shoal")


def test_served_connections_follow_the_host_rules(tmp_path: Path) -> None:
    import psycopg

    rules = tmp_path / "rules"
    rules.write_text("host all all 127.0.0.1/32 reject\n")
    with shoal.open(tmp_path / "db", host_rules=str(rules)) as db:
        where = db.serve()
        with pytest.raises(psycopg.OperationalError, match="no host rule"):
            psycopg.connect(where)
