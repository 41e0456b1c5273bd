"""The lock files: what `make` installs, checked by hash, on every supported Python."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.checkout import ROOT

LOCKS = sorted((ROOT / "ops/requirements").glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = ("3.11", "3.12", "3.13")
GROUPS = ("pip", "build", "lock", "node", "fuzz", "ops")


def _pins(lock: str) -> list[Requirement]:
    """Return what a lock file pins, without the hashes."""
    text = (ROOT / f"ops/requirements/{lock}.txt").read_text()
    return [Requirement(line.removesuffix(" \\")) for line in text.splitlines() if re.match(r"[a-z0-9]", line)]


def _expanded(requirements: list[str]) -> Iterator[Requirement]:
    """Yield the requirements, those of the project's own extras in place of their names."""
    for requirement in map(Requirement, requirements):
        if requirement.name == PROJECT["project"]["name"]:
            for extra in requirement.extras:
                yield from _expanded(PROJECT["project"]["optional-dependencies"][extra])
        else:
            yield requirement


def _unmet(lock: str, requirements: list[str], python: str) -> list[str]:
    """Return the requirements that do not have exactly one pin that satisfies them."""
    environment = {"python_version": python, "python_full_version": f"{python}.0"}

    def applies(requirement: Requirement) -> bool:
        return requirement.marker is None or requirement.marker.evaluate(environment)

    pinned: dict[str, list[str]] = {}
    for pin in filter(applies, _pins(lock)):
        [version] = [each.version for each in pin.specifier if each.operator == "=="]
        pinned.setdefault(canonicalize_name(pin.name), []).append(version)
    return [
        str(each)
        for each in filter(applies, _expanded(requirements))
        if len(found := pinned.get(canonicalize_name(each.name), [])) != 1 or found[0] not in each.specifier
    ]


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_satisfies_every_requirement_of_the_project(python: str) -> None:
    """After an edit of pyproject.toml, `make lock UPGRADE=` renews it."""
    extras = PROJECT["project"]["optional-dependencies"]
    requirements = [*PROJECT["project"]["dependencies"], *extras["demo"], *extras["dev"]]
    assert _unmet("dev", requirements, python) == []


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("group", GROUPS)
def test_the_lock_of_a_group_satisfies_it(group: str, python: str) -> None:
    """Likewise."""
    assert _unmet(group, PROJECT["dependency-groups"][group], python) == []


def test_the_lock_of_the_stubs_satisfies_their_requirements() -> None:
    """The generator has versions of its own."""
    lines = (ROOT / "proto/requirements.txt").read_text().splitlines()
    assert _unmet("stubs", [line for line in lines if line and not line.startswith("#")], "3.11") == []


def test_the_lowest_versions_are_those_that_the_project_states() -> None:
    """Unless a version cannot be had with the others: then what the project states is no promise, and is raised."""
    extras = PROJECT["project"]["optional-dependencies"]
    stated = {
        canonicalize_name(each.name): bound.version
        for each in _expanded([*PROJECT["project"]["dependencies"], *extras["unit"]])
        for bound in each.specifier
        if bound.operator in {">=", "=="}
    }
    pinned = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in _pins("lowest")}
    assert {name: pinned[name] for name in stated} == stated


def test_an_unmet_requirement_is_noticed() -> None:
    """A version that is not the locked one, and a package that is not locked."""
    assert _unmet("pip", ["pip<1", "absent"], "3.11") == ["pip<1", "absent"]


def test_every_supported_python_is_locked() -> None:
    """Those of the classifiers."""
    classifiers = " ".join(PROJECT["project"]["classifiers"])
    assert tuple(re.findall(r"Python :: (3\.\d+)", classifiers)) == PYTHONS


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_every_pin_has_hashes_and_no_file_names_a_host(lock: Path) -> None:
    """Where packages come from is the installer's configuration."""
    text = lock.read_text()
    pins = re.findall(r"^[a-z0-9].*\\\n(?: {4}--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", text, re.MULTILINE)
    assert len(pins) == len(_pins(lock.stem)) > 0
    assert "://" not in text
    assert not re.search(r"^-", text, re.MULTILINE)


def test_every_lock_is_renewed_by_the_one_command() -> None:
    """None is left behind."""
    script = (ROOT / "ops/requirements/lock.sh").read_text()
    assert {*re.findall(r"^lock ([a-z]+) ", script, re.MULTILINE)} == {path.stem for path in LOCKS}
