"""`callability explain`: decides given facts and says how."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from callability.command_line.options import JsonOption, PolicyOption, leave, loaded
from callability.finding import did_you_mean
from callability.policy.explanation import Explanation
from callability.policy.explanation import explain as explanation_of
from callability.policy.loading import Policy
from callability.policy.path import Change, Path, PathEnd
from callability.policy.question import CALLABILITY
from callability.policy.table import Verdict
from callability.policy.words import Spoken, spoken, spoken_by_rule
from callability.vocabulary import UNKNOWN, LiftedBy, ToolStatus


def explain(
    facts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FACT=VALUE]...",
            help="The facts, such as `server.enabled=false` or `approval.status=unknown`. One that is left out has its"
            " open value, which stands in nobody's way.",
        ),
    ] = None,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what the answer is for given facts, which rules were tried, and what would make the tool callable.

    Exit code 0: answered. 1: the policy is refused. 2: a fact or value is not known.
    """
    given = CALLABILITY.open_facts | dict(_read(text) for text in facts or [])
    served = loaded(policy)
    proved = served.rule_sets["callability"]
    try:
        verdict = proved.table.verdict(given)
    except KeyError:
        leave("these facts cannot occur together: a tool without a record is not disabled by one", 2)
    explanation = explanation_of(proved.rule_set, given)
    typer.echo((_json if as_json else _text)(served, verdict, explanation, given))


def _read(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    fact = CALLABILITY.facts.get(name)
    if not equals:
        leave(f"`{text}` is not FACT=VALUE", 2)
    if fact is None:
        leave(f"unknown fact `{name}` ({did_you_mean(name, CALLABILITY.facts)})", 2)
    values = fact.values if fact.opened_by is LiftedBy.NONE else (*fact.values, UNKNOWN)
    if value not in values:
        leave(f"unknown value `{value}` of `{name}` ({did_you_mean(value, values)})", 2)
    return name, value


def _words(policy: Policy, verdict: Verdict) -> Spoken | None:
    rule_set = policy.rule_sets["callability"].rule_set
    if verdict.status == ToolStatus.CALLABLE:
        return None
    rule = next(rule for rule in rule_set.rules if rule.id == verdict.rule)
    own = None if verdict.undetermined else spoken_by_rule(rule_set, rule)
    return own or spoken(rule_set, verdict.status)


def _text(policy: Policy, verdict: Verdict, explanation: Explanation, facts: dict[str, str]) -> str:
    status = ToolStatus(verdict.status)
    how = "undetermined at" if verdict.undetermined else "by"
    lines = [f"{status}, {how} rule `{verdict.rule}`"]
    lines.append(f"  lifted by      {status.lifted_by}")
    lines.append(f"  retry          {status.retry}")
    lines.append(f"  upstream text  {'withheld' if verdict.withhold_text else 'may be shown'}")
    words = _words(policy, verdict)
    if words:
        lines.append(f"  remediation    {words.remediation}")
        lines.append(f"  rejection      {words.rejection}")
    lines += ["", "facts", *(f"  {fact}: {value}" for fact, value in facts.items())]
    lines += ["", "rules tried, in order", *(f"  {trial.rule.id} {trial.why}" for trial in explanation.trials)]
    lines += ["", "path to callable", *(f"  {step}" for step in _steps(explanation.path))]
    lines += ["", f"revision {policy.revision}, decided by {policy.engine}"]
    return "\n".join(lines)


def _steps(path: Path) -> list[str]:
    lines = [_change(change) for step in path.steps for change in step.changes]
    lines = [f"{number}. {text}" for number, text in enumerate(lines, 1)]
    match path.end:
        case PathEnd.CALLABLE:
            lines.append("then it is callable" if lines else "it is callable now")
        case PathEnd.POLICY_CHANGE:
            lines.append("only a change of the policy lifts this")
        case PathEnd.FIND_OUT:
            lines.append(f"find out {' and '.join(f'`{fact}`' for fact in path.find_out)} first")
    return lines


def _change(change: Change) -> str:
    fact = change.fact
    by = (
        f"the {fact.opened_by}, by `{fact.action}`"
        if fact.action
        else "the caller, whose own gate refuses it: see its logs"
    )
    return f"`{fact.name}` from {change.value} to {fact.open_value}: {by}"


def _json(policy: Policy, verdict: Verdict, explanation: Explanation, facts: dict[str, str]) -> str:
    status = ToolStatus(verdict.status)
    words = _words(policy, verdict)
    path = explanation.path
    return json.dumps(
        {
            "revision": policy.revision,
            "engine": policy.engine,
            "facts": facts,
            "verdict": {
                "status": status,
                "rule": verdict.rule,
                "undetermined": verdict.undetermined,
                "lifted_by": status.lifted_by,
                "retry": status.retry,
                "withhold_text": verdict.withhold_text,
            },
            "words": {"remediation": words.remediation, "rejection": words.rejection} if words else None,
            "trials": [
                {
                    "rule": trial.rule.id,
                    "status": trial.rule.status,
                    "truth": {True: "true", False: "false", None: "undetermined"}[trial.truth],
                    "reads": dict(trial.reads),
                    "why": trial.why,
                }
                for trial in explanation.trials
            ],
            "path": {
                "steps": [
                    {
                        "rule": step.rule.id,
                        "status": step.rule.status,
                        "changes": [_change_json(change) for change in step.changes],
                    }
                    for step in path.steps
                ],
                "end": path.end,
                "find_out": path.find_out,
            },
        },
        indent=2,
    )


def _change_json(change: Change) -> dict[str, str]:
    return {
        "fact": change.fact.name,
        "current": change.value,
        "wanted": change.fact.open_value,
        "changed_by": change.fact.opened_by or LiftedBy.NONE,
        "action": change.fact.action,
    }
