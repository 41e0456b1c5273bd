"""The meanings of the finding codes for policy files, and what to do; the same text as docs/findings.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from callability.finding import Severity


class Meaning(NamedTuple):
    """Sentences about a code, and what a finding of it does to a policy."""

    means: str
    fix: str
    severity: Severity = Severity.ERROR


_WARNING, _NOTE = Severity.WARNING, Severity.NOTE

OF_FILES: Mapping[str, Meaning] = {
    "unreadable-file": Meaning("The file is not there, or may not be read.", "Look at its name and its permissions."),
    "file-too-large": Meaning("The file has more than 524,288 bytes.", "Shorten it."),
    "not-utf-8": Meaning("A byte of the file is not UTF-8.", "Save it as UTF-8."),
    "not-unicode": Meaning("Half a character is escaped.", "Escape both halves, or write the character itself."),
    "not-json": Meaning("The file is not JSON from this place on.", "Look at what stands just before it."),
    "not-yaml": Meaning(
        "The file is not YAML from this place on.",
        "Look at what stands just before it; a sentence that begins with `{` or holds `: ` must stand in quotes.",
    ),
    "directive": Meaning("The file begins with a directive (`%...`).", "Remove it: files are YAML 1.2."),
    "empty-file": Meaning("There is nothing in the file.", "Begin with a shipped one: `callability policy export`."),
    "nested-too-deep": Meaning("The file is nested more than 48 levels deep.", "Write it flatter."),
    "too-many-values": Meaning(
        "The file has more than 50,000 values, keys among them, as far as this place.", "Shorten it."
    ),
    "alias": Meaning("A value is repeated by an alias (`*name`).", "Write the value out."),
    "unknown-tag": Meaning("A value has a tag (`!name`), or is of a kind that is not used here.", "Remove the tag."),
    "key-not-text": Meaning("A key is not text.", "Quote it; a sentence that begins with a placeholder, too."),
    "duplicate-key": Meaning("A key is repeated in a mapping.", "Keep one of the two, or join them in a list."),
}
"""Of every file."""

OF_FORM: Mapping[str, Meaning] = {
    "no-directory": Meaning("The policy is not a directory that can be read.", "Look at its name."),
    "too-many-files": Meaning("The directory has more than 16 YAML files.", "Leave those of the policy in it."),
    "missing-rule-set": Meaning("One of the rule sets is not there.", "Take it from `callability policy export`."),
    "unknown-question": Meaning("A file has a name that is no question.", "Name it as a rule set, or its tests."),
    "bad-ending": Meaning("The name of a file ends in something else than `.yaml`.", "Rename it."),
    "wrong-type": Meaning("A value is of another kind than wanted.", "Write what the sentence names."),
    "unknown-key": Meaning("A key is not known here.", "Correct it, or remove it."),
    "missing-key": Meaning("A key that is needed is not there.", "Add it."),
    "empty-list": Meaning("A list has nothing in it.", "Give it an item, or leave it out."),
    "empty-text": Meaning("A text is blank.", "Write it, or leave it out."),
    "empty-condition": Meaning("A condition has nothing in it.", "Leave `when` out where it always holds."),
    "text-too-long": Meaning("A text has more than 2,000 characters.", "Shorten it."),
    "control-character": Meaning("A text holds a character that cannot be shown.", "Remove it."),
    "too-many-rules": Meaning("There are more than 1,000 rules.", "Join some by `any`, or by lists of values."),
    "too-many-parts": Meaning("A condition has more than 2,000 parts.", "Split the rule, or list values."),
    "too-many-laws": Meaning("There are more than 1,000 laws.", "Join some."),
    "too-many-tests": Meaning(
        "There are more than 5,000 tests.", "Leave some out: `callability check` proves the rest."
    ),
    "bad-id": Meaning("The id of a rule is none.", "Use lower-case letters, digits, `.`, `_` and `-`."),
    "duplicate-id": Meaning("The id of a rule is repeated.", "Rename one of the two."),
    "duplicate-law": Meaning("A law is repeated.", "Remove one, or name what it states."),
    "duplicate-test": Meaning("A test is repeated.", "Remove one, or name what it shows."),
    "unknown-fact": Meaning("A condition or a test names a fact that does not exist.", "Correct its name."),
    "unknown-value": Meaning("A fact does not have this value.", "Correct it; `true` and `false` without quotes."),
    "duplicate-value": Meaning("A value is repeated in a list.", "Remove one of the two."),
    "names-unknown": Meaning(
        "A condition names `unknown`, or patterns tell a name that is `unknown` apart from every other.",
        "Leave it out: where a rule is reached that rests on an unknown fact, the answer is fixed.",
    ),
    "unknown-status": Meaning("A status does not exist.", "Use one of those of the question."),
    "bad-label-key": Meaning(
        "The key of a label is none.", "Use letters, digits, `.`, `_`, `-` and `/`, and a letter or digit at both ends."
    ),
    "reserved-value": Meaning(
        "A value that is declared for a label stands for something else: `none` for a label that is not there,"
        " `unknown` for one that could not be read, and one with `*` or `?` is a pattern.",
        "Name it otherwise.",
    ),
    "too-many-labels": Meaning("There are more than 64 labels, or values of one.", "Declare those that rules read."),
    "name-too-long": Meaning("A name or pattern has more than 512 bytes, as no name has.", "Shorten it."),
    "pattern-in-test": Meaning("A test has a pattern where a name is.", "Write a name that the pattern matches."),
    "too-many-patterns": Meaning(
        "A fact is read by more than 1,000 names and patterns.", "Join some, or give what they name a label."
    ),
    "patterns-too-tangled": Meaning(
        "The patterns of a fact have more than 20,000 states together, so that the classes of names which they can tell"
        " apart cannot be found.",
        "Have fewer with `*` before other characters, and fewer `?`.",
    ),
    "law-of-no-kind": Meaning(
        "A law has neither `always` nor `never`, or both.", "Give it one; make two laws of both."
    ),
}
"""Of the form of rule files and their tests. A file with such an error is not looked at any further."""

OF_RULES: Mapping[str, Meaning] = {
    "can-fall-through": Meaning(
        "The last rule has a condition, so that facts could fall through.", "End with a rule that has no `when`."
    ),
    "missing-words": Meaning("A status that can be given has no words.", "Write them under `words`."),
    "unused-words": Meaning("Words are never said.", "Remove them.", _WARNING),
    "unused-label": Meaning("A label is declared, and no rule and no law reads it.", "Remove it.", _WARNING),
    "callable-on-hint": Meaning(
        "A rule makes tools callable on an MCP annotation, which is the upstream's own word.",
        "Let rules lock by annotations, and open by what the operator says: labels, or names.",
        _WARNING,
    ),
    "unknown-placeholder": Meaning(
        "A placeholder does not exist, or cannot stand here.", "Use one that the text may hold."
    ),
    "stray-brace": Meaning("A brace belongs to no placeholder.", "Remove it: braces have no other use."),
    "action-not-owned": Meaning(
        "Words name an action of another owner than who lifts the status.", "Name an action of who lifts it."
    ),
    "action-opens-nothing": Meaning(
        "Words name an action that opens a fact which no rule of the status reads.",
        "Name one that opens what locks, or give the rule another status.",
    ),
    "toggle-phrase": Meaning(
        "Literal text reads like a switch of the user's, for a status that is not the user's to lift.",
        "Name what to do by a placeholder.",
        _WARNING,
    ),
    "no-operator-action": Meaning(
        "A rule gives a status that only the operator can lift, and its words name nothing that the operator can do.",
        "Name an action of the operator's by a placeholder, such as `{edit_config}`, `{edit_labels}` or"
        " `{edit_policy}`.",
        _WARNING,
    ),
    "condition-too-large": Meaning(
        "A condition is more than the rules engine is given: in disjunctive form it has more than 5,000 conjunctions.",
        "Split the rule.",
    ),
    "rules-too-large": Meaning(
        "The rules together are more than the rules engine is given: in disjunctive form they have more than 20,000"
        " conjunctions.",
        "Read fewer facts at once in a rule with long lists of values.",
    ),
    "too-many-combinations": Meaning(
        "The facts that the rules read have more than 250,000 combinations.", "Read fewer of the facts that multiply."
    ),
    "engine-failed": Meaning("The rules engine failed.", "Try `--engine reference`, and report it."),
    "engine-timeout": Meaning("The rules engine took too long.", "Make the policy smaller."),
    "engine-unavailable": Meaning(
        "The rules engine is not there, although it was asked for.",
        "Use Python 3.11 or 3.12 with a C compiler, or leave `--engine` out.",
    ),
    "check-failed": Meaning(
        "An edit, or a policy that was sent to `ValidatePolicy`, could not be checked: its process took too long or"
        " failed.",
        "Check it by `callability check`.",
    ),
    "engines-differ": Meaning("The rules engine decides otherwise than the reference.", "Report it."),
}
"""Of rules and words, and of deciding every combination."""

OF_PROOF: Mapping[str, Meaning] = {
    "never-decides": Meaning(
        "A rule never decides: it stands below one without a condition, others cover it, or its condition never holds.",
        "Put it above those that cover it, or remove it.",
    ),
    "part-never-matters": Meaning(
        "A part of a condition, or a value in a list, changes no answer: rules above have taken what it is about, or"
        " the rest of the condition leaves nothing to it.",
        "Remove it, or put the rule above those that take it.",
        _WARNING,
    ),
    "part-always-true": Meaning(
        "A part of a condition is true wherever it matters, since the rules above leave nothing else. It may be what"
        " makes the rule readable; `check --verbose` tells of it, and nothing refuses for it.",
        "Leave it, or remove it.",
        _NOTE,
    ),
    "action-does-not-help": Meaning(
        "A rule decides where the facts are open already that its words name an action for.",
        "Give the rule an `action` of its own, or another status.",
    ),
    "nothing-callable": Meaning(
        "Every tool is locked under every combination of facts.",
        "End with a rule without `when` that gives `callable`.",
        _WARNING,
    ),
    "callable-withheld": Meaning(
        "A combination is callable although the upstream's text is withheld.",
        "Let a rule above it lock what is in quarantine, or not approved.",
    ),
    "law-broken": Meaning(
        "A law does not hold for the facts that are told, where the rule that is named decides.",
        "Correct the rules; or the law, if it is no longer to hold.",
    ),
    "law-of-nothing": Meaning(
        "A law is about no combination of facts, so that it would hold whatever the rules are.",
        "Correct its condition.",
        _WARNING,
    ),
    "rule-not-tested": Meaning(
        "There are tests, and a rule decides in none of them. The facts that are told make it decide.",
        "Add a test with these facts.",
        _WARNING,
    ),
    "test-failed": Meaning(
        "The policy does not do what a test expects.", "Run `callability test`, and correct the rules or the test."
    ),
    "unknown-rule": Meaning("A test expects a rule that does not exist.", "Correct its id."),
    "impossible-facts": Meaning("A test has facts that cannot occur together.", "Correct them."),
}
"""Of what is proved by the answers of all combinations, and of tests."""

MEANINGS: Mapping[str, Meaning] = {**OF_FILES, **OF_FORM, **OF_RULES, **OF_PROOF}
"""Of every finding that `callability check` can have."""
