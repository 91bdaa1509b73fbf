"""compose.yaml without containers: its command lines are ones that `shoal` takes, and they fit together."""

from __future__ import annotations

import pathlib
import re
import shlex
from typing import Any

import pytest
import yaml

from replication.stores import open_store
from replication.zookeeper.address import parse_address
from shoal.cli import parser
from shoal.config import Config
from tools.cluster import Cluster

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def options(service: Any) -> Any:
    return parser().parse_args(shlex.split(service["command"]))


async def test_every_command_line_is_one_that_shoal_takes(compose: Any) -> None:
    shoal = {name: service for name, service in compose["services"].items() if service.get("image") == "shoal"}
    assert list(shoal) == ["node-1", "node-2", "node-3", "router"]
    client = compose["services"]["zookeeper"]["environment"]["ZOO_SERVERS"].partition(";")[2]
    for name, service in shoal.items():
        given = options(service)
        address = parse_address(given.cluster, {})
        assert client in address.url, name
        assert Config(listen=given.listen).address[0] == "127.0.0.1"  # other addresses are refused
        if given.command == "serve":
            assert given.node == name
            await open_store(given.store).close()


def test_every_node_has_a_directory_of_its_own_and_shares_the_store(compose: Any) -> None:
    nodes = [service for name, service in compose["services"].items() if name.startswith("node-")]
    assert len({options(node).store for node in nodes}) == 1
    assert len({options(node).listen for node in nodes}) == len(nodes)
    mounted = [dict(volume.split(":") for volume in node["volumes"]) for node in nodes]
    assert len({next(iter(volumes)) for volumes in mounted}) == len(nodes)
    assert all(volumes["changelog"] == "/changelog" for volumes in mounted)
    named = {name for volumes in mounted for name in volumes}
    assert named <= set(compose["volumes"])


def test_the_ports_are_those_of_make_cluster(compose: Any, tmp_path: pathlib.Path) -> None:
    cluster = Cluster(tmp_path, 3, 5440)
    services = compose["services"]
    for part in (*cluster.nodes, cluster.router):
        assert options(services[part.name]).listen == f"127.0.0.1:{part.port}"
    assert services["zookeeper"]["environment"]["ZOO_SERVERS"].endswith(f":{cluster.zookeeper.port}")


def test_the_health_of_every_node_is_asked_for_where_it_answers(compose: Any) -> None:
    for name, service in compose["services"].items():
        if name.startswith("node-"):
            (url,) = re.findall(r"http://([^/]+)/readyz", service["healthcheck"]["test"][-1])
            assert url == options(service).admin, name


def test_the_page_starts_containers_with_commands_that_shoal_takes() -> None:
    """docs/operating.md, without Docker: what stands behind the image's name."""
    page = (ROOT / "docs" / "operating.md").read_text()
    (block,) = (block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "docker run" in block)
    commands = [line.partition(" shoal ")[2] for line in block.replace("\\\n", "").splitlines() if "docker run" in line]
    given = [parser().parse_args(shlex.split(command)) for command in commands]
    assert [item.command for item in given] == ["init", "serve"]
    assert given[0].data == given[1].data and given[1].listen == "0.0.0.0:5432" and given[1].host_rules


def test_the_image_has_every_package_that_is_installed() -> None:
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    assert allowed[0] == "*"
    for package in ("catalog", "engine", "replication", "shoal", "wire", "pyproject.toml", "README.md"):
        assert f"!{package}" in allowed
