"""The tables of metrics in the documents list every metric, with its labels, and no other."""

from __future__ import annotations

import re

import pytest
from prometheus_client import CollectorRegistry

from callability.gateway.observability.metrics import Metrics
from callability.service.observability.metrics import PolicyMetrics
from support.checkout import ROOT
from support.public_surface import metrics

_HEAD = re.compile(r"^\| metric \| .*\n\| --- \| --- \|\n((?:\|.*\n)+)", re.MULTILINE)


def _documented(page: str) -> set[str]:
    """Return the metrics in the first column of the page's table."""
    [table] = _HEAD.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
    return {name for row in table.splitlines() for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def _exposed(*registries: CollectorRegistry) -> set[str]:
    """Return the metrics that Prometheus reads from a program with these registries."""
    labels = dict(each.removesuffix("}").split("{") for each in metrics())
    families = [family for registry in registries for family in registry.collect()]
    return {
        family.name
        + "_total" * (family.type == "counter")
        + (f"{{{labels[family.name]}}}" if labels[family.name] else "")
        for family in families
    }


@pytest.mark.parametrize("page", ["gateway.md", "policy.md"])
def test_a_table_of_metrics_lists_those_that_exist(page: str) -> None:
    """The gateway's page has its own metrics and those of a policy in its process; the policy's page has the latter."""
    of_policy = CollectorRegistry()
    PolicyMetrics(of_policy)
    assert _documented(page) == _exposed(of_policy, *([Metrics().registry] if page == "gateway.md" else []))
