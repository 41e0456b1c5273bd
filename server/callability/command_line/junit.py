"""The results of a policy's tests as JUnit XML, which CI systems read."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from callability.command_line.test_report import TestedRuleSet, TestReport, failure
from callability.finding import MAX_FINDINGS, Finding, line


def junit(tested: TestReport) -> bytes:
    """Return a suite for each rule set, and one for what refuses the policy beside its tests, where something does."""
    root = Element("testsuites", name="callability test")
    for rule_set in tested.rule_sets:
        _suite(root, rule_set, tested.wanted if rule_set in tested.short else None)
    if tested.untested:
        count = str(len(tested.untested))
        suite = SubElement(root, "testsuite", name="tests", tests=count, failures="0", errors="0", skipped=count)
        for finding in tested.untested:
            _skipped(suite, finding)
    if tested.errors:
        count = str(len(tested.errors))
        suite = SubElement(root, "testsuite", name="policy", tests=count, failures="0", errors=count)
        for finding in tested.errors[:MAX_FINDINGS]:
            _error(suite, finding)
    for kind in ("tests", "failures", "errors", "skipped"):
        root.set(kind, str(sum(int(suite.get(kind, "0")) for suite in root)))
    indent(root)
    return bytes(tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _suite(root: Element, tested: TestedRuleSet, missed: float | None) -> None:
    """Add the suite of a rule set; coverage that is `missed` is a test of its own that failed."""
    more = int(missed is not None)
    tests, failures = str(len(tested.results) + more), str(len(tested.failed) + more)
    suite = SubElement(root, "testsuite", name=tested.name, tests=tests, failures=failures, errors="0")
    for result in tested.results:
        place = result.case.place
        named = {"file": _file(place.file), "line": str(place.line)}
        case = SubElement(suite, "testcase", {"name": result.case.name, "classname": tested.name, **named})
        if result.finding:
            failed = SubElement(case, "failure", message=result.finding.sentence, type=result.finding.code)
            failed.text = "\n".join(text for text, _ in failure(result, tested))

    if missed is not None:
        message = f"the tests reach {tested.coverage.percent:.4g} %, and {missed:g} % is wanted"
        case = SubElement(suite, "testcase", {"name": "coverage", "classname": tested.name})
        goals = (*tested.coverage.rules.missed, *tested.coverage.conditions.missed)
        text = "\n".join(f"{goal.place}: in no test {goal}" for goal in goals)
        SubElement(case, "failure", message=message, type="coverage").text = text


def _skipped(suite: Element, finding: Finding) -> None:
    """Add a rule set without tests as a test that was skipped: a warning refuses nothing."""
    case = SubElement(
        suite, "testcase", {"name": finding.code, "classname": "tests", "file": _file(finding.place.file)}
    )
    SubElement(case, "skipped", message=line(finding))


def _error(suite: Element, finding: Finding) -> None:
    place = finding.place
    named = {"file": _file(place.file), "line": str(place.line)}
    case = SubElement(suite, "testcase", {"name": finding.code, "classname": "policy", **named})
    SubElement(case, "error", message=finding.sentence, type=finding.code).text = line(finding)


def _file(name: str) -> str:
    """Return the name of a file as XML can hold it."""
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in name)
