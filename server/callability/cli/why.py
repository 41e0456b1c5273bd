"""`callability why`: say why an agent can or cannot call a tool, and which line of which file decides it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from callability.cli import gateway_answers, policy_service
from callability.cli.gateway_files import GivenApprovalsOption, GivenConfigOption
from callability.cli.options import JsonOption, PolicyAddressOption, PolicyOption, escape, leave
from callability.contract.finding import Place, as_code
from callability.contract.vocabulary import MAX_BYTES, byte_length

Report = Mapping[str, Any]
_ENDS = {
    "callable": "then it can be called",
    "not_connected": "then it can be called, once its server is connected",
    "nobody": "nobody can lift it here: use another tool",
    "not_known": "what else locks it is not known: the policy is too large to look at every combination",
}


def why(
    name: Annotated[str, typer.Argument(metavar="SERVER:TOOL", help="The tool, as an agent names it.")],
    agent: gateway_answers.QueriedAgentOption = None,
    config: GivenConfigOption = None,
    gateway: gateway_answers.GatewayPidOption = None,
    files: gateway_answers.FilesOption = False,
    offline: gateway_answers.AskOfflineOption = False,
    approvals: GivenApprovalsOption = None,
    policy: PolicyOption = None,
    policy_address: PolicyAddressOption = None,
    policy_ca: policy_service.PolicyCaOption = None,
    policy_certificate: policy_service.PolicyCertificateOption = None,
    policy_key: policy_service.PolicyKeyOption = None,
    policy_token_file: policy_service.PolicyTokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say why an agent can or cannot call a tool: the rule, each fact with its file and line, and the way to callable.

    A running gateway of this user answers if one has this config; otherwise, and with `--files`, `--offline`,
    `--approvals`, `--policy` or `--policy-address`, the files alone are read. The server of the tool is then connected,
    unless `--offline` is given; a server on stdio is started. Nothing is called, and no file is changed. Exit code 0:
    answered. 1: a file is refused, or there is no verdict. 2: usage error; there is no such agent; or several gateways
    match.
    """
    server, colon, tool = name.partition(":")
    if not colon or not server or not tool:
        leave(f"{as_code(name)} is not SERVER:TOOL", 2)
    if max(byte_length(server), byte_length(tool)) > MAX_BYTES:
        leave(f"the name of a server or a tool has at most {MAX_BYTES} bytes", 2)
    service = policy_service.PolicyService.of(
        policy_address, policy_ca, policy_certificate, policy_key, policy_token_file
    )
    query = gateway_answers.GatewayQuery(agent, config, approvals, policy, service, gateway, files, offline)
    running = query.gateway()
    if running is not None:
        report = running.ask(ask="why", agent=agent, server=server, tool=tool)
        places = gateway_answers.places_of(running)
        service_address = (running.about.get("policy") or {}).get("address")
        by = {"gateway": running.pid, "started": running.about["started"], "config": str(running.config)}
    else:
        # It imports the MCP SDK, which takes longer than a running gateway takes to answer.
        from callability.cli.file_answers import FileAnswers  # noqa: PLC0415

        answers = FileAnswers(query)
        report, places = answers.report(server, tool), answers.places
        service_address = service.address if service else None
        by = {"gateway": None, "started": None, "config": str(answers.files.config.path)}
    placed = {"by": {**by, "service": service_address, "check": places.check}, **places.place(report)}
    typer.echo(json.dumps(placed, indent=2) if as_json else "\n".join(_lines(placed)))


def _lines(report: Report) -> Iterator[str]:
    subject = f"{escape(report['server'])}:{escape(report['tool'])}"
    whose = f"agent {as_code(report['agent'])}" if report["agent"] else "a caller without a name"
    yield f"{subject} for {whose}: {_status(report)}"
    yield f"  answered by      {_answered_by(report['by'])}"
    yield from (f"  newer            {escape(file)} was edited since" for file in report["newer_files"])
    yield from (f"  refused          {_refused(name, text, report)}" for name, text in report["refused_edits"].items())
    if report["rule_at"]:
        yield f"  rule at          {_place(report['rule_at'])}"
    elif report.get("rule"):
        yield f"  rule at          the policy of the service at {escape(report['by']['service'])}"
    if report["status"] != "callable":
        yield f"  lifted by        {report['lifted_by']}"
    if report.get("unread"):
        yield f"  not read         {', '.join(report['unread'])}"
    yield f"  the agent reads  {_answer(report)}"
    yield from _connection(report.get("connection"))
    if report["facts"]:
        yield from ("", "facts")
        yield from (f"  {each['fact']}: {escape(each['value'])}, {_source(each['from'])}" for each in report["facts"])
    yield from ("", "way to callable", *_way(report))


def _status(report: Report) -> str:
    if report["because"] != "verdict":
        return f"{report['status']}, because {escape(report['why'])}"
    how = "undetermined at" if report["undetermined"] else "by"
    but = ", but its server is not connected" if report["end"] == "not_connected" and not report["steps"] else ""
    return f"{report['status']}, {how} rule `{report['rule']}`{but}"


def _refused(name: str, text: str, report: Report) -> str:
    """Return what is said of an edit that was refused, with the command that says why."""
    if name == "policy":
        return f"{escape(text)}; `callability check` of its directory prints them"
    return f"{escape(text)}; `{escape(report['by']['check'])}` prints them"


def _answer(report: Report) -> str:
    if report["answer"]:
        return escape(report["answer"])
    if report["because"] == "verdict":
        return "nothing: its call is passed on"
    return "not known: its server would say whether it has such a tool"


def _answered_by(by: Report) -> str:
    config = f"config {escape(by['config'])}"
    if by["gateway"] is None:
        return f"the files alone, {config}"
    return f"the gateway that runs as process {by['gateway']}, started {by['started']}, {config}"


def _connection(connection: Report | None) -> Iterator[str]:
    load = (connection or {}).get("load")
    if connection and load:
        yield f"  server           {load['status']}: it {escape(load['why'])} ({_place(load['from'])})"
    elif connection and connection["failure"]:
        yield f"  server           failed: {escape(connection['failure'])}"
    elif connection and connection["state"] != "connected":
        state = connection["state"]
        yield f"  server           {'not connected' if state == 'closed' else state}"


def _way(report: Report) -> Iterator[str]:
    if report["because"] != "verdict":
        yield f"  1. {report['lifted_by']}: {escape(report['do'])} ({_source(report['from'])})"
        return
    number = 0
    for step in report["steps"]:
        for change in step["changes"]:
            number += 1
            yield f"  {number}. {change['by']}: {_doing(change)}" if change["by"] != "none" else _fixed(number, change)
    for fact in report["find_out"]:
        number += 1
        yield f"  {number}. {_correction(fact, report)}"
    connection = report["connection"]
    if connection["load"]:
        number += 1
        yield f"  {number}. {escape(connection['load']['do'])}"
    elif connection["failure"]:
        number += 1
        yield f"  {number}. wait, or have the agent call it: the gateway then connects its server again"
    yield f"  {_end(report) if number or report['status'] != 'callable' else 'it is callable: call it'}"


def _fixed(number: int, change: Report) -> str:
    """Return the step that nobody can take: the server lists the tool so that this gateway cannot call it."""
    return f"  {number}. nobody: `{change['fact']}` is {change['current']}, {_source(change['from'])}"


def _correction(fact: str, report: Report) -> str:
    """Return the step that makes a fact known."""
    [source] = [each["from"] for each in report["facts"] if each["fact"] == fact]
    if not source["file"]:
        return f"make `{fact}` known: {_source(source)}"
    check = f"`{escape(report['by']['check'])}` says what is wrong"
    return f"correct `{fact}`, {_source(source)}; {check}"


def _doing(change: Report) -> str:
    by_hand = _by_hand(change["edit"])
    doing = escape(change["do"]) or f"change `{change['fact']}` to {' or '.join(change['wanted'])}"
    return f"{doing}; or by hand: {by_hand}" if by_hand else f"{doing} ({_source(change['from'])})"


def _by_hand(edit: Report | None) -> str:
    if edit is None:
        return ""
    key = next((str(each) for each in reversed(edit["keys"]) if isinstance(each, str)), "")
    match edit["do"]:
        case "set":
            return f"{_place(edit)}: write `{key}: {escape(edit['value'])}`"
        case "add":
            return f"{_place(edit)}: add {as_code(edit['value'])} to `{key}`"
        case _ if isinstance(edit["keys"][-1], int):
            return f"{_place(edit)}: remove {as_code(edit['value'])} from `{key}`"
        case _:
            return f"{_place(edit)}: remove {as_code(key)}" + (
                f", to line {edit['last_line']}" if edit["last_line"] > edit["line"] else ""
            )


def _end(report: Report) -> str:
    rule = _place(report["rule_at"]) if report["rule_at"] else f"at {escape(report['by']['service'])}"
    match report["end"]:
        case "policy_change":
            return f"only a change of the policy lifts it: its operator edits rule `{report['rule']}`, {rule}"
        case "find_out":
            return f"then it depends on {', '.join(report['find_out'])}, which could not be read"
        case end:
            return _ENDS[end]


def _source(source: Report) -> str:
    note = escape(source["note"])
    if not source["file"]:
        held = {"listing": "what the server lists", "call": "the question"}.get(source["in"], "no file holds it")
        return f"{held}: {note}" if note else held
    return f"{_place(source)}: {note}" if note else _place(source)


def _place(at: Report) -> str:
    return str(Place(at["file"], at["line"], at["column"]))
