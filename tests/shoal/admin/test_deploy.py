"""What is shipped under deploy/ is what the tools that read it take, and fits together. That every metric which the
dashboard and the alerts name is exported is checked against running nodes (test_metrics.py)."""

from __future__ import annotations

import configparser
import pathlib
import re
import shlex
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from shoal.cli import parser
from shoal.config import load
from tests.shoal.admin.shipped import DEPLOY, RULES, dashboard, expressions, named_metrics, panels, rules

COMPOSE = DEPLOY.parent / "compose.yaml"


def _promtool(*arguments: str) -> str:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("no promtool on this machine: tools/packages.sh installs it")
    done = subprocess.run([tool, *arguments], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_takes_its_configuration_and_the_alerts() -> None:
    assert f"{len(rules())} rules found" in _promtool("check", "config", str(DEPLOY / "prometheus" / "prometheus.yml"))
    _promtool("check", "rules", str(RULES))


def test_alerts_fire_when_they_should() -> None:
    assert "SUCCESS" in _promtool("test", "rules", str(DEPLOY / "prometheus" / "shoal.rules.test.yml"))


def test_every_query_of_the_dashboard_is_one(tmp_path: pathlib.Path) -> None:
    queries = [text for text in expressions() if not text.startswith("label_values")]
    made = [{"record": f"checked:{number}", "expr": text} for number, text in enumerate(queries)]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": made}]}))
    assert f"{len(queries)} rules found" in _promtool("check", "rules", str(file))


def test_the_dashboard_shows_every_node_and_tablespace() -> None:
    names = {variable["name"]: variable for variable in dashboard()["templating"]["list"]}
    assert set(names) == {"datasource", "node", "tablespace"}
    assert all(names[name]["includeAll"] and names[name]["multi"] for name in ("node", "tablespace"))
    shown = " ".join(target["legendFormat"] for panel in panels() for target in panel["targets"])
    assert "{{instance}}" in shown and "{{tablespace}}" in shown and "{{replica}}" in shown
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(dashboard()["panels"])
    assert all(panel["title"] and panel["description"] and panel["targets"] for panel in panels())
    for panel in panels():
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24


def test_it_shows_nearly_everything_that_is_measured() -> None:
    source = (pathlib.Path(__file__).parents[3] / "shoal" / "admin" / "metrics.py").read_text()
    measured = set(re.findall(r'"(shoal_\w+)"', source))
    named = {re.sub(r"_(bucket|count|sum|total)$", "", name) for name in named_metrics()}
    assert named <= measured | {"process_cpu_seconds", "process_resident_memory_bytes"}
    assert measured - named == {
        "shoal_tables_used_bytes",
        "shoal_tables_kept_bytes",
        "shoal_sessions_opened",
        "shoal_ledgers",
    }


def test_the_unit_runs_a_server_with_the_settings_beside_it() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "systemd" / "shoal.service")
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert pathlib.PurePath(program).name == "shoal"
    assert parser().parse_args(arguments).config == "/etc/shoal/shoal.toml"
    config = load(str(DEPLOY / "systemd" / "shoal.toml"), {})
    assert config.data.startswith("/var/lib/shoal/") and unit["Service"]["StateDirectory"] == "shoal"
    assert config.admin_address is not None and config.log_format == "json"


def test_compose_and_the_files_that_it_mounts_agree() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    ports = [parser().parse_args(shlex.split(services[f"node-{n}"]["command"])).admin for n in (1, 2, 3)]
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"][0]
    assert scraped["static_configs"][0]["targets"] == ports
    for service in services.values():
        for volume in service.get("volumes", ()):
            if volume.startswith("./"):
                assert (COMPOSE.parent / volume.split(":")[0]).exists(), volume
    sources = yaml.safe_load((DEPLOY / "grafana" / "provisioning" / "datasources" / "shoal.yml").read_text())
    urls = {source["name"]: source["url"] for source in sources["datasources"]}
    assert urls["Prometheus"].removeprefix("http://") in services["prometheus"]["command"]
    loki = yaml.safe_load((DEPLOY / "loki" / "loki.yaml").read_text())["server"]
    assert urls["Loki"] == f"http://{loki['http_listen_address']}:{loki['http_listen_port']}"


def test_promtail_sends_to_loki_and_reads_what_the_log_has() -> None:
    promtail: Any = yaml.safe_load((DEPLOY / "loki" / "promtail.yaml").read_text())
    assert promtail["clients"][0]["url"].startswith("http://127.0.0.1:5472/")
    for job in promtail["scrape_configs"]:
        read = [stage["json"]["expressions"] for stage in job["pipeline_stages"] if "json" in stage][-1]
        assert set(read.values()) == {"time", "level", "logger", "node"}
    stages = promtail["scrape_configs"][0]["pipeline_stages"]
    assert stages[0]["json"]["expressions"]["ours"] == 'attrs."shoal.logs"'
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    for name in ("node-1", "node-2", "node-3", "router"):  # Docker writes the label beside each line
        assert services[name]["labels"] == {"shoal.logs": "true"}
        assert services[name]["logging"] == {"driver": "json-file", "options": {"labels": "shoal.logs"}}


def test_no_container_has_docker_s_socket() -> None:
    """With it one may do anything on the machine."""
    assert "docker.sock" not in COMPOSE.read_text() + (DEPLOY / "loki" / "promtail.yaml").read_text()
