"""Checks the policies in directories, each by itself, within bounds of memory and of processor time.

Writes for each of them its findings and whether there is a policy, in one line of JSON.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from callability.compiler.confirmation import Engine
from callability.compiler.policy import check_source
from callability.contract.finding import line
from callability.files.policy_source import source_in

MEMORY = 1024**3
SECONDS = 120

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    for name in sys.argv[1:]:
        check = check_source(source_in(Path(name)), engine=Engine.AUTO)
        lines = [line(finding).replace(f"{name}/", "").replace(name, "DIR") for finding in check.findings]
        print(json.dumps({"findings": lines, "policy": check.policy is not None}), flush=True)
