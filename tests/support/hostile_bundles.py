"""What a bundle from anybody may do to a reader: nothing but be refused, or decide."""

from __future__ import annotations

from hashlib import sha256
from itertools import islice
from random import Random
from typing import Any

from google.protobuf.message import Message

from callability.bundle.v1 import bundle_pb2 as pb
from callability.contract.vocabulary import UNKNOWN
from callability.kernel.calls import LocalCalls
from callability.kernel.envelope import FORMAT, MAGIC, BundleRefused
from callability.kernel.path import explain
from callability.kernel.policy import LocalPolicy, read
from callability.kernel.rule_set import RuleSet
from support.bundles import DrawnRequests

_LESS, _MORE = 0.05, 0.1
"""Up to which draw a list becomes shorter, or else longer."""
_TEXTS = ("", "a", "*", "unknown", "none", "{check_logs}", "9" * 5_000)
MOST = 2**31 - 1
"""The largest number that every field holds."""
POINTS = 8
"""Combinations of points that are decided for each rule set of an accepted bundle."""


def mutated(payload: bytes, seed: int) -> bytes:
    """Return a payload in which some numbers, texts and parts are others, chosen by a seed."""
    random = Random(seed)
    message = pb.Payload.FromString(payload)
    for _ in range(random.randint(1, 3)):
        _mutate(message, random)
    return message.SerializeToString()


def _mutate(message: Message, random: Random) -> None:
    """Change one field of a message, or of one that it holds."""
    present = message.ListFields()
    if not present:
        return
    field, value = random.choice(present)
    # Older versions of protobuf say it by the label alone, and newer ones warn of that.
    if field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED:  # type: ignore[attr-defined]  # as above
        _mutate_list(value, random, is_message=field.message_type is not None)
    elif field.message_type is not None:
        _mutate(value, random)
    else:
        setattr(message, field.name, _other(value, random))


def _mutate_list(values: Any, random: Random, *, is_message: bool) -> None:
    place, how = random.randrange(len(values)), random.random()
    if how < _LESS:
        del values[place]
    elif how < _MORE:
        values.append(values[place])
    elif is_message:
        _mutate(values[place], random)
    else:
        values[place] = _other(values[place], random)


def _other(value: Any, random: Random) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return random.choice([0, 1, 2, 3, max(0, value - 1), min(value + 1, MOST), random.randrange(200), MOST])
        case str():
            return random.choice([*_TEXTS, value + "*", value[:-1]])
        case bytes():
            return random.choice([b"", value[:-1]])
    raise AssertionError(f"a field has the value {value!r}")


def sealed(payload: bytes) -> bytes:
    """Return a bundle file around any bytes, with their digest, so that the reader looks into them."""
    digest = sha256(payload).digest()
    return pb.Bundle(magic=MAGIC, format=FORMAT, payload=payload, digest=digest).SerializeToString()


def judged(data: bytes) -> bool:
    """Read a bundle, and say whether it is accepted. An accepted one decides whatever points and facts there are."""
    try:
        policy = read(data)
    except BundleRefused:
        return False
    for rule_set in policy.rule_sets.values():
        _decides(rule_set)
    _answers(policy)
    return True


def _decides(rule_set: RuleSet) -> None:
    random = Random(1)
    for _ in range(POINTS):
        points = [random.randrange(axis.size) for axis in rule_set.axes]
        verdict = rule_set.decide(points)
        rule_set.unread(verdict, points)


def _answers(policy: LocalPolicy) -> None:
    """Answer calls. A bundle that contradicts itself in what no reader can check is refused at last here."""
    calls = LocalCalls(policy)
    rule_set = policy.callability
    drawn = DrawnRequests(rule_set, seed=1)
    for _ in range(3):
        request = drawn.check_tool()
        try:
            calls.check_tool(request)
        except BundleRefused:
            continue
    facts = dict.fromkeys(islice(rule_set.question.facts, 100), UNKNOWN)
    try:
        explain(rule_set, facts)
    except (BundleRefused, KeyError):
        return
