"""The meanings of the finding codes for policy files, and what to do; the same text as docs/findings.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from callability.contract.finding import Severity


class Meaning(NamedTuple):
    """Sentences about a code, and what a finding of it does to a policy."""

    means: str
    fix: str
    severity: Severity = Severity.ERROR


_WARNING, _NOTE = Severity.WARNING, Severity.NOTE

OF_FILES: Mapping[str, Meaning] = {
    "unreadable-file": Meaning("The file does not exist, or cannot be read.", "Check its name and its permissions."),
    "file-too-large": Meaning("The file has more than 524,288 bytes.", "Shorten it."),
    "not-utf-8": Meaning("A byte of the file is not UTF-8.", "Save it as UTF-8."),
    "not-unicode": Meaning(
        "An escape sequence encodes half a character.",
        "Escape both halves, or write the character itself.",
    ),
    "not-json": Meaning("The file is not JSON from this place on.", "Check what comes just before it."),
    "not-yaml": Meaning(
        "The file is not YAML from this place on.",
        "Check the indentation and what comes just before; quote a sentence that begins with `{` or contains `: `.",
    ),
    "directive": Meaning("The file begins with a directive (`%...`).", "Remove it: files are YAML 1.2."),
    "empty-file": Meaning("The file is empty.", "Begin with a shipped one: `callability policy export`."),
    "nested-too-deep": Meaning("The file is nested more than 48 levels deep.", "Nest it less."),
    "too-many-values": Meaning(
        "The file has more than 50,000 values up to this place, keys included.",
        "Shorten it.",
    ),
    "alias": Meaning("A value is repeated by an alias (`*name`).", "Write the value out."),
    "unknown-tag": Meaning("A value has a tag (`!name`), or a type that is not supported.", "Remove the tag."),
    "key-not-text": Meaning(
        "A key is not text.",
        "Quote it, even if it is a sentence that begins with a placeholder.",
    ),
    "duplicate-key": Meaning("A key is repeated in a mapping.", "Keep one of the two, or join them in a list."),
}
"""Of every file."""

OF_FORM: Mapping[str, Meaning] = {
    "no-directory": Meaning(
        "The policy is not a directory that can be read.",
        "Check its name; a single rule file is not a policy, and only some commands read bundles.",
    ),
    "no-rule-files": Meaning(
        "The bundle has no rule files, and a policy is proved from these.",
        "Build it with `callability bundle build --with-rule-files`.",
    ),
    "bundle-refused": Meaning(
        "The bundle is damaged, not signed by a trusted key, older than the last one, or contradicts itself.",
        "Run `callability bundle verify`, and build it again.",
    ),
    "too-many-files": Meaning(
        "The directory has more than 16 YAML files.",
        "Keep only the files of the policy in it.",
    ),
    "missing-rule-set": Meaning("One of the rule sets is missing.", "Copy it from `callability policy export`."),
    "unknown-question": Meaning(
        "A file is not named after a question.",
        "Name it after a rule set, or after its tests.",
    ),
    "bad-ending": Meaning("The name of a file does not end in `.yaml`.", "Rename it."),
    "wrong-type": Meaning("A value has the wrong type.", "Write what the sentence names."),
    "unknown-key": Meaning("A key is not known.", "Correct it, or remove it."),
    "missing-key": Meaning("A required key is missing.", "Add it."),
    "empty-list": Meaning("A list is empty.", "Add an item, or leave the list out."),
    "empty-text": Meaning("A text is blank.", "Write it, or leave it out."),
    "empty-condition": Meaning("A condition is empty.", "Leave `when` out of a rule that always matches."),
    "text-too-long": Meaning(
        "A text has more than 2,000 characters, a phrase more than 200, or a declared value more than 128 bytes.",
        "Shorten it.",
    ),
    "control-character": Meaning("A text contains a control character.", "Remove it."),
    "too-many-rules": Meaning(
        "There are more than 1,000 rules.",
        "Combine some with `any`, or with lists of values.",
    ),
    "too-many-parts": Meaning("A condition has more than 2,000 parts.", "Split the rule, or list values."),
    "too-many-laws": Meaning("There are more than 1,000 laws.", "Combine some."),
    "too-many-tests": Meaning(
        "There are more than 5,000 tests.", "Leave some out: `callability check` proves the rest."
    ),
    "bad-id": Meaning("The id of a rule is invalid.", "Use lower-case letters, digits, `.`, `_` and `-`."),
    "duplicate-id": Meaning("The id of a rule is repeated.", "Rename one of the two."),
    "duplicate-law": Meaning("The name of a law is repeated.", "Remove one, or name each after what it states."),
    "duplicate-test": Meaning("The name of a test is repeated.", "Remove one, or name each after what it shows."),
    "unknown-fact": Meaning("A condition or a test names a fact that does not exist.", "Correct its name."),
    "unknown-value": Meaning(
        "A fact does not have this value.",
        "Correct it; write `true` and `false` without quotes.",
    ),
    "duplicate-value": Meaning("A value is repeated in a list.", "Remove one of the two."),
    "names-unknown": Meaning(
        "A condition names `unknown`, or patterns distinguish a name `unknown` from every other name.",
        "Remove it: if an unknown fact leaves a rule undetermined, the answer is fixed.",
    ),
    "unknown-status": Meaning("A status does not exist.", "Use a status of the question."),
    "bad-label-key": Meaning(
        "The key of a label is invalid.",
        "Use letters, digits, `.`, `_`, `-` and `/`, and a letter or digit at both ends.",
    ),
    "reserved-value": Meaning(
        "A declared value of a label or a fact has another meaning: `none` is a label that is not there, `unknown` a "
        "fact that could not be read, and a value with `*` or `?` is a pattern.",
        "Use another value.",
    ),
    "too-many-labels": Meaning(
        "There are more than 64 labels, or values of one label.",
        "Declare only what rules read.",
    ),
    "bad-fact-name": Meaning(
        "The name of a declared fact is invalid.",
        "Join words of lower-case letters, digits and `_` by `.`, such as `proxy.quota`; at most 128 bytes.",
    ),
    "reserved-fact": Meaning(
        "The name of a declared fact begins like those of the contract's own facts, such as `server.` or `tool.`.",
        "Begin it with a word of your own, such as `proxy.`.",
    ),
    "too-many-facts": Meaning(
        "There are more than 64 declared facts, or values of one declared fact.",
        "Declare only what rules read.",
    ),
    "too-few-values": Meaning(
        "A declared fact has one value.",
        "Give it at least two; `unknown` is not one of them.",
    ),
    "bad-action": Meaning(
        "The name of a declared fact's action is invalid.",
        "Join one to six words of lower-case letters by `_`, such as `raise_quota`.",
    ),
    "reserved-action": Meaning(
        "The action of a declared fact has the name of a placeholder that exists already.",
        "Give it a name of your own.",
    ),
    "duplicate-action": Meaning(
        "Two declared facts have the same action.",
        "Give each fact an action of its own.",
    ),
    "name-too-long": Meaning("A name or pattern has more than 512 bytes, the limit of names.", "Shorten it."),
    "pattern-in-test": Meaning("A test has a pattern in place of a name.", "Write a name that the pattern matches."),
    "too-many-patterns": Meaning(
        "A fact is read by more than 1,000 names and patterns.",
        "Combine some, or give what they name a label.",
    ),
    "patterns-too-tangled": Meaning(
        "The patterns of a fact have more than 20,000 states together, so the classes of names that they "
        "distinguish cannot be found.",
        "Use fewer patterns with `*` before other characters, and fewer `?`.",
    ),
    "law-of-no-kind": Meaning(
        "A law has neither `always` nor `never`, or both.",
        "Give it one of them; write two laws for both.",
    ),
}
"""Of the form of rule files and their tests. A file with such an error is not looked at any further."""

OF_RULES: Mapping[str, Meaning] = {
    "can-fall-through": Meaning(
        "The last rule has a condition, so some facts could match no rule.",
        "End with a rule without `when`.",
    ),
    "missing-words": Meaning("A status that a rule gives has no words.", "Write them under `words`."),
    "unused-words": Meaning("Words are never used.", "Remove them.", _WARNING),
    "unused-label": Meaning("A label is declared, and no rule and no law reads it.", "Remove it.", _WARNING),
    "unused-fact": Meaning("A fact is declared, and no rule and no law reads it.", "Remove it.", _WARNING),
    "callable-on-hint": Meaning(
        "A rule makes tools callable because of an MCP annotation, which the upstream server chooses.",
        "Let rules lock by annotations, and open by what the operator states: labels or names.",
        _WARNING,
    ),
    "unknown-placeholder": Meaning(
        "A placeholder does not exist, or is not allowed in this text.",
        "Use a placeholder of this text.",
    ),
    "stray-brace": Meaning("A brace belongs to no placeholder.", "Remove it: braces have no other use."),
    "action-not-owned": Meaning(
        "Words name an action whose owner does not lift the status.",
        "Name an action of the owner who does.",
    ),
    "action-opens-nothing": Meaning(
        "Words name an action that opens a fact which their rule, or every rule of their status, does not read.",
        "Name an action that lifts the lock, or give the rule another status.",
    ),
    "toggle-phrase": Meaning(
        "Literal text reads like a switch of the user's, but the user cannot lift the status.",
        "Name what to do by a placeholder.",
        _WARNING,
    ),
    "no-operator-action": Meaning(
        "A rule gives a status that only the operator can lift, but its words name nothing that the operator can do.",
        "Name an action of the operator by a placeholder, such as `{edit_config}`, `{edit_labels}` or `{edit_policy}`.",
        _WARNING,
    ),
    "condition-too-large": Meaning(
        "A condition is too large for the rules engine: in disjunctive form it has more than 5,000 conjunctions.",
        "Split the rule.",
    ),
    "rules-too-large": Meaning(
        "The rules together are too large for the rules engine: in disjunctive form they have more than 20,000 "
        "conjunctions.",
        "Read fewer facts in a rule with long lists of values.",
    ),
    "diagram-too-large": Meaning(
        "The decision diagram of the rules is too large: it needs more than 600,000 nodes or 20,000,000 steps "
        "while it is built or proved, or has more than 50,000 inner nodes.",
        "Let fewer rules read the listed facts together, or replace some of these by one label with a value for each "
        "case.",
    ),
    "engine-failed": Meaning("The rules engine failed.", "Try `--engine reference`, and report it."),
    "engine-timeout": Meaning("The rules engine took too long.", "Make the policy smaller."),
    "engine-unavailable": Meaning(
        "The requested rules engine cannot be imported.",
        "Use Python 3.11 or 3.12 with a C compiler, or leave `--engine` out.",
    ),
    "check-failed": Meaning(
        "An edit, or a policy that was sent to `ValidatePolicy`, could not be checked: the checking process took "
        "too long or failed.",
        "Run `callability check`.",
    ),
    "bundle-too-large": Meaning(
        "The bundle of the policy, which clients decide from, would have more than 15,724,544 bytes, or "
        "so many parts for its size that no client reads it.",
        "Shorten lists of names and values, or leave its rule files out.",
    ),
    "engines-differ": Meaning("The rules engine and the reference evaluator decide differently.", "Report it."),
}
"""Of rules and words, and of deciding every combination."""

OF_PROOF: Mapping[str, Meaning] = {
    "never-decides": Meaning(
        "A rule never decides: it comes after a rule without a condition, other rules cover it, or its condition "
        "never holds.",
        "Move it above the rules that cover it, or remove it.",
    ),
    "part-never-matters": Meaning(
        "A part of a condition, or a value in a list, changes no answer: the rules above, or the rest of the "
        "condition, already decide.",
        "Remove it, or move the rule above those that decide.",
        _WARNING,
    ),
    "part-always-true": Meaning(
        "A part of a condition is true wherever it matters, because the rules above decide every other case. It "
        "may make the rule easier to read. `check --verbose` prints it, and it refuses nothing.",
        "Keep it, or remove it.",
        _NOTE,
    ),
    "action-does-not-help": Meaning(
        "A rule decides for facts that are already open, but its words name the action that opens them.",
        "Give the rule an `action` of its own, or another status.",
    ),
    "nothing-callable": Meaning(
        "Every tool is locked under every combination of facts.",
        "End with a rule without `when` that gives `callable`.",
        _WARNING,
    ),
    "unsafe-default": Meaning(
        "The default of an asserted fact makes a tool callable that another value locks, so a caller that does not "
        "send the fact opens the tool.",
        "Give the fact the default that locks, or remove `asserted`.",
    ),
    "callable-withheld": Meaning(
        "A combination is callable although the upstream server's text is withheld.",
        "Add a rule above that locks tools in quarantine, or tools that are not approved.",
    ),
    "law-broken": Meaning(
        "A law does not hold for the facts in the finding, for which the named rule decides.",
        "Correct the rules, or change the law.",
    ),
    "law-of-nothing": Meaning(
        "A law covers no combination of facts, so it holds whatever the rules are.",
        "Correct its condition.",
        _WARNING,
    ),
    "rule-not-tested": Meaning(
        "There are tests, but the rule decides in none of them. The facts in the finding make it decide.",
        "Add a test with these facts.",
        _WARNING,
    ),
    "no-tests": Meaning(
        "No test is about the rule set, so that nothing fails whatever an edit makes of it.",
        "Write tests beside it, or restore those that it had.",
        _WARNING,
    ),
    "test-failed": Meaning(
        "The policy does not answer as a test expects.",
        "Run `callability test`, and correct the rules or the test.",
    ),
    "unknown-rule": Meaning("A test expects a rule that does not exist.", "Correct its id."),
    "impossible-facts": Meaning("A test has facts that cannot occur together.", "Correct them."),
}
"""Of what is proved by the answers of all combinations, and of tests."""

MEANINGS: Mapping[str, Meaning] = {**OF_FILES, **OF_FORM, **OF_RULES, **OF_PROOF}
"""Of every finding that `callability check` can have."""
