"""Where settings come from: default, file, environment, flag; the later wins."""

from __future__ import annotations

import argparse
import pathlib
from dataclasses import fields

import pytest

from shoal.commands import config
from shoal.config import Config, ConfigError, Setting, load, resolve_settings


def sources(settings: list[Setting]) -> dict[str, tuple[object, str]]:
    return {setting.name: (setting.value, setting.source) for setting in settings}


def test_the_later_source_wins(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "shoal.toml"
    file.write_text('data = "f"\nlisten = "127.0.0.1:1"\nnode = "f"\npast_window = 3\n')
    environment = {"SHOAL_DATA": "e", "SHOAL_LISTEN": "127.0.0.1:2", "SHOAL_STORE": "", "SHOAL_STORE_SECRET": "s"}
    found = sources(resolve_settings(str(file), {"data": "g", "listen": None}, environment))
    assert found["data"] == ("g", "flag")
    assert found["listen"] == ("127.0.0.1:2", "environment")
    assert found["node"] == ("f", "file")
    assert found["past_window"] == (3.0, "file")
    assert found["store"] == ("", "default")
    assert load(str(file), {"data": "g"}, environment).listen == "127.0.0.1:2"


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("SHOAL_MAX_CONNECTIONS", "7", "max_connections", 7),
        ("SHOAL_LOG_CONNECTIONS", "on", "log_connections", True),
        ("SHOAL_LOG_CONNECTIONS", "false", "log_connections", False),
        ("SHOAL_COMMIT_TIMEOUT", "2", "commit_timeout", 2.0),
    ],
)
def test_the_environment_is_read_by_the_settings_type(variable: str, text: str, name: str, value: object) -> None:
    assert getattr(load(None, {}, {variable: text}), name) == value


@pytest.mark.parametrize(("variable", "text"), [("SHOAL_MAX_CONNECTIONS", "many"), ("SHOAL_LOG_CONNECTIONS", "maybe")])
def test_a_value_of_the_wrong_type_names_its_variable(variable: str, text: str) -> None:
    with pytest.raises(ConfigError, match=variable):
        load(None, {}, {variable: text})


@pytest.mark.parametrize("name", [field.name for field in fields(Config) if isinstance(field.default, str)])
@pytest.mark.parametrize("as_json", [True, False])
def test_no_setting_shows_the_password_in_a_url(name: str, as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    settings = resolve_settings(None, {name: "zk://shoal:hush@10.0.0.1:2181,10.0.0.2:2181/x"}, {})
    assert config.run(argparse.Namespace(json=as_json), settings) == 0
    shown = capsys.readouterr().out
    assert "hush" not in shown and "zk://***@10.0.0.1:2181,10.0.0.2:2181/x" in shown
