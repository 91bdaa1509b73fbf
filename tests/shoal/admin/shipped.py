"""The metrics that the shipped dashboard and alerts name."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import yaml

DEPLOY = pathlib.Path(__file__).resolve().parents[3] / "deploy"
RULES = DEPLOY / "prometheus" / "shoal.rules.yml"
_NAME = re.compile(r"\b(?:shoal|process|python)_\w+")


def dashboard() -> Any:
    return json.loads((DEPLOY / "grafana" / "shoal.json").read_text())


def panels() -> list[Any]:
    """Those of the dashboard that show something."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def rules() -> list[Any]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[Any] = group["rules"]
    return found


def expressions() -> list[str]:
    """Every query of the dashboard and of the alerts, in Prometheus' language without Grafana's variables."""
    found = [target["expr"] for panel in panels() for target in panel["targets"]]
    found += [variable["definition"] for variable in dashboard()["templating"]["list"] if "definition" in variable]
    texts = [text.replace("$__rate_interval", "5m") for text in found]
    return [re.sub(r"\$\w+", ".*", text) for text in texts] + [rule["expr"] for rule in rules()]


def named_metrics() -> set[str]:
    return {name for text in expressions() for name in _NAME.findall(text)}
