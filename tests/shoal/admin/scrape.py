"""Metrics as a monitoring system gets them: `Scrape` is one look at a node's /metrics."""

from __future__ import annotations

import urllib.request

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.oracle import free_port
from tests.server import ShoalServer


class MonitoredServer(ShoalServer):
    """A Shoal with an administration port."""

    def __init__(self, *options: str) -> None:
        super().__init__()
        self.admin = free_port()
        self._options = options

    def command(self) -> list[str]:
        return [*super().command(), "--admin", f"127.0.0.1:{self.admin}", *self._options]


class Scrape:
    def __init__(self, port: int) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            self.text: str = answer.read().decode()
            self.content_type: str = answer.headers["Content-Type"]
        self.families: dict[str, Metric] = {family.name: family for family in text_string_to_metric_families(self.text)}

    def exported(self) -> set[str]:
        """The names of all samples, of families without any as well."""
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
        return {
            family.name + suffix for family in self.families.values() for suffix in suffixes.get(family.type, ("",))
        }

    def value(self, sample: str, **labels: str) -> float:
        """The sum of the samples of that name whose labels are these, whatever their others are; 0 for none."""
        return sum(
            found.value
            for family in self.families.values()
            for found in family.samples
            if found.name == sample and labels.items() <= found.labels.items()
        )
