"""The studio's editor: a bundle of locked packages, with its hash and their licences."""

from __future__ import annotations

import hashlib
import json
import re

from support.checkout import PACKAGE, ROOT

PAGE = PACKAGE / "studio/page"
MAX_BYTES = 1_000_000


def test_the_bundle_is_the_one_whose_hash_is_kept() -> None:
    """`make editor` writes both."""
    bundle = (PAGE / "codemirror.js").read_bytes()
    assert len(bundle) < MAX_BYTES
    assert (PAGE / "codemirror.sha256").read_text() == f"{hashlib.sha256(bundle).hexdigest()}  codemirror.js\n"


def test_every_package_in_the_bundle_has_its_licence_and_its_locked_version() -> None:
    """And what the editor is made of is among them."""
    text = (PAGE / "codemirror.licences.txt").read_text()
    bundled = dict(re.findall(r"^(@?[a-z][\w/-]*) (\d+\.\d+\.\d+)$", text, re.MULTILINE))
    packages = json.loads((ROOT / "server/editor/package-lock.json").read_text())["packages"]
    locked = {name.removeprefix("node_modules/"): each["version"] for name, each in packages.items() if name}
    assert {name: locked[name] for name in bundled} == bundled
    wanted = json.loads((ROOT / "server/editor/package.json").read_text())["dependencies"]
    assert wanted.items() <= bundled.items()
    assert text.count("Permission is hereby granted") == len(bundled)


def test_every_locked_package_has_a_hash() -> None:
    """So that a bundle is made of the same files everywhere."""
    packages = json.loads((ROOT / "server/editor/package-lock.json").read_text())["packages"]
    assert [name for name, each in packages.items() if name and not each.get("integrity")] == []
