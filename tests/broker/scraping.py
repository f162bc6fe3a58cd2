"""Metrics as a Prometheus server gets them: over HTTP, read by its own parser."""

from __future__ import annotations

import urllib.request
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from milepost.broker.broker import Broker

Labels = tuple[tuple[str, str], ...]


@dataclass
class Scrape:
    types: dict[str, str] = field(default_factory=dict)
    """By the name in the TYPE line."""
    samples: dict[str, dict[Labels, float]] = field(default_factory=dict)

    def value(self, name: str, **labels: str) -> float:
        """One value; its labels in any order."""
        return self.samples[name][tuple(sorted(labels.items()))]

    def labels(self, name: str) -> set[tuple[str, ...]]:
        """Which sets of labels a metric has."""
        return {tuple(key for key, _ in labels) for labels in self.samples[name]}


def parse(text: str) -> Scrape:
    found = Scrape(types={line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE ")})
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.samples.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def scrape(target: Broker | str) -> Scrape:
    """Of a broker with `milepost.metrics.port`, or of an address."""
    if isinstance(target, Broker):
        assert target.metrics_endpoint is not None
        target = target.metrics_endpoint.url
    with urllib.request.urlopen(target, timeout=60) as response:
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return parse(response.read().decode())
