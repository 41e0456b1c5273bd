"""The tables of metrics in the documents list every metric, with its labels, and no other."""

from __future__ import annotations

import re

import pytest
from prometheus_client import CollectorRegistry

from callability.gateway.observability import Metrics
from callability.process.metrics import CertificateMetrics
from callability.service.metrics import CallerMetrics, CallMetrics, PolicyMetrics
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


def _of_policy() -> CollectorRegistry:
    registry = CollectorRegistry()
    PolicyMetrics(registry)
    return registry


def _of_service() -> CollectorRegistry:
    registry = CollectorRegistry()
    for metrics_of in (CallMetrics, CallerMetrics, CertificateMetrics):
        metrics_of(registry)
    return registry


PAGES = {
    "policy.md": (_of_policy,),
    "gateway.md": (_of_policy, lambda: Metrics().registry),
    "serving.md": (_of_service,),
}
"""For each page with a table of metrics, the registries of what it is about."""
OF_SUPERVISOR = {"callability_workers_running", "callability_worker_restarts_total"}
"""Metrics of a process that has workers; `test_workers.py` reads them."""
OF_RECORDS = {"callability_records_dropped_total", "callability_records_written_total"}
"""Metrics of a process that writes records; `records.md` names them."""


@pytest.mark.parametrize("page", PAGES)
def test_a_table_of_metrics_lists_those_that_exist(page: str) -> None:
    """The gateway's page has its own metrics and those of a policy in its process; the service's page has its own."""
    of_supervisor = OF_SUPERVISOR if page == "serving.md" else set()
    assert _documented(page) == _exposed(*(made() for made in PAGES[page])) | of_supervisor


def test_each_alert_has_a_name_of_its_own() -> None:
    """One that has two rules is sent twice, and silenced once for both."""
    names = re.findall(r"^ +- alert: (\w+)$", (ROOT / "ops" / "callability-alerts.yaml").read_text(), re.MULTILINE)
    assert sorted(names) == sorted({*names})


def test_dashboard_and_alerts_use_metrics_that_exist() -> None:
    """With labels that they have; each metric that is documented is on the dashboard or in a rule."""
    every = {metric for made in PAGES.values() for metric in _exposed(*(each() for each in made))}
    every |= OF_SUPERVISOR | OF_RECORDS
    labels = {name: given for each in every for name, given in re.findall(r"^(\w+)(?:\{(.*)\})?$", each)}
    text = "".join((ROOT / "ops" / f"callability-{name}").read_text() for name in ("dashboard.json", "alerts.yaml"))
    used = set(re.findall(r"callability_[a-z_]+[a-z]", text))
    known = {*labels, *(f"{name}_bucket" for name in labels)}
    assert sorted(used - known) == []
    assert {"callability_calls_total", "callability_verdicts_total", "callability_policy_info"} <= used
    for name, selected in re.findall(r"(callability_[a-z_]+[a-z])\{([^}]*)\}", text.replace('\\"', '"')):
        of_metric = {*labels[name.removesuffix("_bucket")].split(", "), "instance", "worker", "le"}
        assert {*re.findall(r"(\w+)(?:=|!)", selected)} <= of_metric, name
