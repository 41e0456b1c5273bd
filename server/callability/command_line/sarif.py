"""The findings of a policy as SARIF 2.1.0, which editors and CI systems show in place."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from callability import __version__
from callability.command_line.check_report import CheckReport
from callability.finding import MAX_FINDINGS, Finding, Place, in_order
from callability.policy.reporting.finding_meanings import MEANINGS, Meaning

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def as_sarif(checked: CheckReport) -> str:
    """Write one run with the codes that occur as its rules, and a result for each finding, notes among them."""
    every = in_order((*checked.check.findings, *checked.notes()))
    findings = every[:MAX_FINDINGS]
    codes = sorted({finding.code for finding in findings})
    driver = {
        "name": "callability",
        "version": __version__,
        "rules": [_rule(code, MEANINGS[code]) for code in codes],
    }
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes.index(finding.code)) for finding in findings],
        "properties": {"sound": checked.sound, "findingsMore": len(every) - len(findings)},
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(code: str, meaning: Meaning) -> dict[str, Any]:
    return {
        "id": code,
        "shortDescription": {"text": meaning.means},
        "help": {
            "text": f"{meaning.means} {meaning.fix}",
            "markdown": f"{meaning.means} {meaning.fix} (docs/findings.md#{code})",
        },
        "defaultConfiguration": {"level": meaning.severity},
    }


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    text = f"{finding.sentence} ({finding.advice})" if finding.advice else finding.sentence
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": text},
        "locations": [{"physicalLocation": _location(finding.place)}],
    }
    if finding.witness is not None:
        result["properties"] = {"witness": dict(finding.witness)}
    return result


def _location(place: Place) -> dict[str, Any]:
    path = Path(place.file)
    location: dict[str, Any] = {
        "artifactLocation": {"uri": path.as_uri() if path.is_absolute() else quote(os.fsencode(path.as_posix()))}
    }
    if place.line:
        location["region"] = {"startLine": place.line, "startColumn": place.column}
    return location
