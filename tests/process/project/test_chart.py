"""The Helm chart: each variant is rendered, valid for Kubernetes, consistent, and accepted by the service."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from support.checkout import POLICY, ROOT
from support.commands import callability

CHART = ROOT / "ops/helm/callability"
HELM = shutil.which("helm", path=str(Path(sys.executable).parent)) or shutil.which("helm")
KUBERNETES = "1.33"
pytestmark = pytest.mark.skipif(HELM is None, reason="there is no helm (`make ops` builds it)")

TLS = {"tls": {"secret": "tls"}, "callers": {"secret": "callers"}}
MUTUAL = {"tls": {"secret": "tls", "clientAuthoritySecret": "authority", "probeSecret": "probe"}}
GIT = {"image": "example/git-sync:v4", "repository": "git@example.org:policies", "directory": "tools", "secret": "git"}
KEYS = {"secret": "keys", "ids": ["2026", "2027"]}
CLAIM = {"persistentVolumeClaim": {"claimName": "policies", "readOnly": True}}
PROXY = {"name": "proxy", "image": "example/proxy:1", "ports": [{"containerPort": 8080}]}
VARIANTS: dict[str, dict[str, Any]] = {
    "tls": TLS,
    "mutual-tls": MUTUAL,
    "insecure": {"insecure": True},
    "policy-in-values": TLS
    | {"policy": {"source": "configMap", "files": {"callability.yaml": (POLICY / "callability.yaml").read_text()}}},
    "policy-in-a-config-map": TLS | {"policy": {"source": "configMap", "existing": "rules"}},
    "policy-from-git": TLS | {"policy": {"source": "gitSync", "gitSync": GIT}},
    "policy-in-a-secret": TLS | {"policy": {"source": "bundle", "bundle": {"secret": "bundle", "keys": KEYS}}},
    "policy-in-binary-data": TLS
    | {
        "policy": {
            "source": "bundle",
            "bundle": {"configMap": "bundle", "keys": {"configMap": "keys", "ids": ["2026"]}},
        }
    },
    "policy-in-a-claim": TLS
    | {"policy": {"source": "bundle", "bundle": {"volume": CLAIM, "file": "releases/current.bundle"}}},
    "sidecar": {"sidecar": {"enabled": True, "proxy": PROXY}},
    "with-records": TLS | {"records": {"enabled": True}},
    "scaled": TLS | {"autoscaling": {"enabled": True}, "workers": 2, "settings": {"log_level": "debug"}},
    "monitored": TLS | {"metrics": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}}},
    "monitored-sidecar": {
        "sidecar": {"enabled": True, "proxy": PROXY},
        "metrics": {"serviceMonitor": {"enabled": True}},
    },
    "placed": TLS
    | {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"operator": "Exists"}],
        "podAnnotations": {"example.org/team": "policy"},
        "podLabels": {"team": "policy"},
        "image": {"repository": "example/callability", "pullSecrets": [{"name": "pull"}]},
        "networkPolicy": {"callers": [{"podSelector": {"matchLabels": {"app": "proxy"}}}]},
    },
}
REFUSED: dict[str, dict[str, Any]] = {
    "tls.secret is missing": {},
    "settings.address is set by the chart: give the value service.port": {
        "insecure": True,
        "settings": {"address": "0.0.0.0:9999"},
    },
    "settings.records is set by the chart: give the value records.enabled": {
        "insecure": True,
        "settings": {"records": "/var/lib/records"},
    },
    "callers.secret is missing": {"tls": {"secret": "tls"}},
    "tls.probeSecret is missing": {"tls": {"secret": "tls", "clientAuthoritySecret": "authority"}},
    "needs policy.files or policy.existing": TLS | {"policy": {"source": "configMap"}},
    "needs policy.gitSync.image": TLS | {"policy": {"source": "gitSync"}},
    "sidecar.proxy is missing": {"sidecar": {"enabled": True}},
    "workers must be 1": {"sidecar": {"enabled": True, "proxy": PROXY}, "workers": 2},
    "repository": {"image": {"repository": ""}, "insecure": True},
    "needs one of policy.bundle.secret": {"policy": {"source": "bundle"}, "insecure": True},
    "policy.bundle.configMap and policy.bundle.volume": TLS
    | {"policy": {"source": "bundle", "bundle": {"secret": "bundle", "volume": CLAIM}}},
    "policy.bundle.keys needs ids": TLS
    | {"policy": {"source": "bundle", "bundle": {"secret": "bundle", "keys": {"secret": "keys"}}}},
    "KEY_ID.pem for each of them": TLS
    | {"policy": {"source": "bundle", "bundle": {"secret": "bundle", "keys": {"ids": ["2026"]}}}},
    "in a secret or in a configMap, and not in both": TLS
    | {"policy": {"source": "bundle", "bundle": {"secret": "bundle", "keys": KEYS | {"configMap": "keys"}}}},
    "source": {"policy": {"source": "file"}, "insecure": True},
    "unknownKey": {"unknownKey": 1, "insecure": True},
}


def _helm(directory: Path, values: dict[str, Any], *command: str) -> subprocess.CompletedProcess[str]:
    file = directory / "values.json"
    file.write_text(json.dumps({"image": {"repository": "example/callability"}} | values))
    arguments = [HELM or "", *command, "--values", str(file), "--kube-version", f"{KUBERNETES}.0"]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)


def _rendered(directory: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    done = _helm(directory, values, "template", "release", str(CHART))
    assert done.returncode == 0, done.stderr
    return [each for each in YAML(typ="safe").load_all(done.stdout) if each]


def _one(objects: list[dict[str, Any]], kind: str, end: str = "") -> dict[str, Any]:
    [found] = [each for each in objects if each["kind"] == kind and each["metadata"]["name"].endswith(end)]
    return found


def _containers(deployment: dict[str, Any]) -> Iterator[dict[str, Any]]:
    pod = deployment["spec"]["template"]["spec"]
    yield from (*pod["containers"], *pod.get("initContainers", ()))


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_valid_for_kubernetes(name: str, tmp_path: Path) -> None:
    """By the schemas of Kubernetes, without unknown keys; those of a monitor belong to its operator."""
    validation = pytest.importorskip("kubernetes_validate", reason="there is no kubernetes-validate")
    lint = _helm(tmp_path, VARIANTS[name], "lint", str(CHART), "--strict")
    assert lint.returncode == 0, lint.stdout
    for each in _rendered(tmp_path, VARIANTS[name]):
        if not each["apiVersion"].startswith("monitoring.coreos.com/"):
            validation.validate(each, KUBERNETES, strict=True)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_refers_to_nothing_that_it_does_not_have(name: str, tmp_path: Path) -> None:
    """Volumes, ports and labels; and each container is confined."""
    objects = _rendered(tmp_path, VARIANTS[name])
    deployment = _one(objects, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    containers = [*_containers(deployment)]
    mounted = {mount["name"] for each in containers for mount in each["volumeMounts"]}
    assert mounted == volumes
    assert pod["securityContext"]["runAsNonRoot"] is True
    for each in containers:
        if each["name"] != "proxy":
            assert each["securityContext"]["readOnlyRootFilesystem"] is True
            assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    ports = {
        port["name"]: port["containerPort"] for each in containers for port in each.get("ports", ()) if "name" in port
    }
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for service in (each for each in objects if each["kind"] == "Service"):
        assert service["spec"]["selector"].items() <= labels.items()
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports.keys()
    maps = {each["metadata"]["name"] for each in objects if each["kind"] == "ConfigMap"} | {"rules", "bundle", "keys"}
    assert {volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume} <= maps


@pytest.mark.parametrize("name", VARIANTS)
def test_the_settings_of_a_variant_are_those_of_the_service(name: str, tmp_path: Path) -> None:
    """`config show` reads them; every file that they name is in a volume of the container."""
    objects = _rendered(tmp_path, VARIANTS[name])
    text = _one(objects, "ConfigMap", "-settings")["data"]["service.yaml"]
    file = tmp_path / "service.yaml"
    file.write_text(text)
    done = callability("config", "show", "--service", "--config", str(file))
    assert done.returncode == 0, done.stderr
    container = next(_containers(_one(objects, "Deployment")))
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    paths = [str(value) for value in YAML(typ="safe").load(text).values() if str(value).startswith("/")]
    assert [path for path in paths if not any(path.startswith(mount) for mount in mounts)] == []


def test_a_bundle_is_served_from_its_volume_with_its_keys(tmp_path: Path) -> None:
    """The settings name files that are in the volumes, by the names that a Secret or a ConfigMap gives them."""
    found = {}
    for name in ("policy-in-a-secret", "policy-in-binary-data", "policy-in-a-claim"):
        objects = _rendered(tmp_path, VARIANTS[name])
        settings = YAML(typ="safe").load(_one(objects, "ConfigMap", "-settings")["data"]["service.yaml"])
        pod = _one(objects, "Deployment")["spec"]["template"]["spec"]
        volumes = {each["name"]: each for each in pod["volumes"]}
        found[name] = settings["policy"], settings.get("bundle_key"), [volumes["policy"], volumes.get("keys", {})]
    policy, directory = "/etc/callability/policy", "/etc/callability/keys"
    file, keys, sources = found["policy-in-a-secret"]
    both = f"2026={directory}/2026.pem,2027={directory}/2027.pem"
    assert (file, keys) == (f"{policy}/policy.bundle", both)
    assert [each["secret"]["secretName"] for each in sources] == ["bundle", "keys"]
    file, keys, sources = found["policy-in-binary-data"]
    assert (file, keys) == (f"{policy}/policy.bundle", f"2026={directory}/2026.pem")
    assert [each["configMap"]["name"] for each in sources] == ["bundle", "keys"]
    claim = {"name": "policy", **CLAIM}
    assert found["policy-in-a-claim"] == (f"{policy}/releases/current.bundle", None, [claim, {}])


@pytest.mark.parametrize("why", REFUSED)
def test_values_that_would_not_run_are_refused(why: str, tmp_path: Path) -> None:
    """With what is missing, or by the schema of the values."""
    done = _helm(tmp_path, REFUSED[why], "template", "release", str(CHART))
    assert done.returncode != 0
    assert why in done.stderr


def test_each_setting_that_the_chart_writes_has_a_value_of_its_own(tmp_path: Path) -> None:
    """Given among the further settings, it would move the service away from its port or its volume."""
    written = set()
    for name, values in VARIANTS.items():
        if "settings" not in values:
            (directory := tmp_path / name).mkdir()
            text = _one(_rendered(directory, values), "ConfigMap", "-settings")["data"]["service.yaml"]
            written |= YAML(typ="safe").load(text).keys()
    for setting in written:
        done = _helm(tmp_path, {"insecure": True, "settings": {setting: 1}}, "template", "release", str(CHART))
        assert f"settings.{setting} is set by the chart" in done.stderr
    assert written > {"address", "policy", "records", "tls_client_ca", "bundle_key"}


def test_the_versions_of_the_chart_are_those_of_the_program() -> None:
    """A release of one is a release of the other."""
    chart = YAML(typ="safe").load((CHART / "Chart.yaml").read_text())
    version = importlib.import_module("importlib.metadata").version("callability")
    assert (chart["version"], chart["appVersion"]) == (version, version)
