"""Writes the vectors of bundles: good files, files with faults, and a manifest of what a reader does with each.

`PYTHONPATH=tests python -m support.bundle_vectors` writes them to tests/vectors/bundles.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from callability.bundle.v1 import bundle_pb2 as pb
from callability.compiler.bundle_writing import payload_of
from callability.compiler.confirmation import Engine
from callability.compiler.policy import load
from callability.files.policy_source import source_in
from callability.kernel.envelope import envelop, signed_bytes
from callability.kernel.signatures import sign
from support.bundles import POLICIES, SHIPPED, bundle_of, policy_of
from support.checkout import VECTORS
from support.policies import SMALLEST

DIRECTORY = VECTORS / "bundles"
SEQUENCE = 7
KEYS = {
    key_id: Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
    for number, key_id in enumerate(("old", "new", "stranger"))
}
PUBLIC = {key_id: key.public_key().public_bytes_raw() for key_id, key in KEYS.items()}
Vector = dict[str, Any]
_RULES = """\
labels: {server: {stage: [test, live]}}
rules:
  - {id: off, when: {server.enabled: false}, status: server_disabled}
  - {id: named, when: {any: [{tool.name: [a*, b]}, {not: {server.label.stage: [live]}}]}, status: disabled_unknown}
  - {id: held, when: {not: {all: [{server.quarantined: false}, {approval.status: [none, approved]}]}}, status: disabled_unknown}
  - {id: open, status: callable}
laws:
  - {name: a tool of a disabled server is not callable, when: {server.enabled: false}, never: callable}
words:
  server_disabled: {remediation: "{enable_server}", rejection: "Ask to {enable_server}."}
  disabled_unknown: {remediation: "{check_logs}", rejection: "{check_logs}"}
"""  # noqa: E501


def files() -> dict[str, bytes]:
    """Return the content of each file of the vectors, by name."""
    made = {f"{name}.bundle": bundle_of(name) for name in POLICIES}
    made["small.bundle"] = envelop(_small())
    made["rule-files.bundle"] = envelop(_small(rule_files=True))
    made["signed.bundle"] = _signed("old")
    made["rotated.bundle"] = _signed("old", "new")
    made |= {f"invalid/{name}.bundle": envelop(payload) for name, payload in _invalid()}
    made["manifest.json"] = (json.dumps(_manifest(made), indent=1) + "\n").encode()
    return made


def _small(*, rule_files: bool = False) -> bytes:
    with TemporaryDirectory() as directory:
        for name, content in {"callability.yaml": _RULES, **SMALLEST}.items():
            (Path(directory) / name).write_text(content)
        files = source_in(Path(directory)).files if rule_files else ()
        return payload_of(load(Path(directory), engine=Engine.REFERENCE), files=files)


def _signed(*keys: str) -> bytes:
    payload = payload_of(policy_of(SHIPPED), SEQUENCE)
    digest = sha256(payload).digest()
    return envelop(payload, [sign(signed_bytes(digest), key_id, KEYS[key_id]) for key_id in keys])


def _manifest(made: dict[str, bytes]) -> dict[str, Any]:
    """Return the vectors: a file, what is changed in it, what the reader is given, and the outcome."""
    return {
        "keys": {key_id: public.hex() for key_id, public in PUBLIC.items()},
        "vectors": [
            *(_accepted(f"the bundle of the policy {name}", f"{name}.bundle", made) for name in POLICIES),
            _accepted("the bundle of a small policy with names and labels", "small.bundle", made),
            _accepted("a bundle with the rule files that it was compiled from", "rule-files.bundle", made),
            *_changed(made),
            *_of_signatures(made),
            *_of_sequences(made),
            *(
                {
                    "name": f"a payload with {name.replace('-', ' ')}",
                    "file": f"invalid/{name}.bundle",
                    "expected": _code(name),
                }
                for name, _ in _invalid()
            ),
        ],
    }


def _accepted(name: str, file: str, made: dict[str, bytes], **given: Any) -> Vector:
    payload = pb.Bundle.FromString(made[file]).payload
    revision = pb.Payload.FromString(payload).revision
    return {
        "name": name,
        "file": file,
        **given,
        "expected": "accepted",
        "digest": sha256(payload).hexdigest(),
        "revision": revision,
    }


def _changed(made: dict[str, bytes]) -> Iterator[Vector]:
    """Yield what becomes of a file in which bits are flipped or that is cut."""
    data = made["signed.bundle"]
    bundle = pb.Bundle.FromString(data)
    payload, digest = data.index(bundle.payload), data.index(bundle.digest)
    places = {
        "its first byte": (0, "not-a-bundle"),
        "the magic": (5, "not-a-bundle"),
        "the format": (21, "unsupported-format"),
        "the payload's first byte": (payload, "damaged"),
        **{
            f"byte {part} of eight of the payload": (payload + part * len(bundle.payload) // 8, "damaged")
            for part in range(1, 8)
        },
        "the payload's last byte": (payload + len(bundle.payload) - 1, "damaged"),
        "the digest": (digest + 16, "damaged"),
    }
    for place, (offset, code) in places.items():
        yield {"name": f"a flipped bit in {place}", "file": "signed.bundle", "flip": [offset, 1], "expected": code}
    for name, size, code in (
        ("an empty file", 0, "not-a-bundle"),
        ("a file cut within the magic", 10, "not-a-bundle"),
        ("a file cut behind the magic", 20, "unsupported-format"),
        ("a file cut within the payload", payload + 100, "damaged"),
        ("a file cut behind the payload", payload + len(bundle.payload), "damaged"),
        ("a file cut within the digest", digest + 31, "damaged"),
    ):
        yield {"name": name, "file": "signed.bundle", "keep": size, "expected": code}
    yield {"name": "a file with a zero byte at its end", "file": "signed.bundle", "append": "00", "expected": "damaged"}
    yield _accepted("a file with a field of a later version at its end", "signed.bundle", made) | {"append": "c23e0141"}
    signatures = {"name": "a file with nine signatures", "file": "signed.bundle", "append": "2a00" * 8}
    yield {**signatures, "expected": "damaged"}
    yield {"name": "a file with two magics", "file": "signed.bundle", "append": "0a0178", "expected": "damaged"}
    yield {
        "name": "a newer format",
        "file": "signed.bundle",
        "flip": [21, 2],
        "expected": "unsupported-format",
    }
    yield {
        "name": "a file that is larger than any bundle",
        "file": "signed.bundle",
        "pad": 15_728_641,
        "expected": "too-large",
    }


def _of_signatures(made: dict[str, bytes]) -> Iterator[Vector]:
    last = len(made["signed.bundle"]) - 1
    for name, file, keys, code in (
        ("a bundle that is not signed, without keys", "shipped.bundle", None, "accepted"),
        ("a bundle that is not signed, with a key", "shipped.bundle", ["old"], "not-signed"),
        ("a signed bundle, without keys", "signed.bundle", None, "accepted"),
        ("a bundle that the key signed", "signed.bundle", ["old"], "accepted"),
        ("a bundle that one of two keys signed", "signed.bundle", ["new", "old"], "accepted"),
        ("a bundle that another key signed", "signed.bundle", ["new"], "unknown-key"),
        ("a bundle of a rotation, with the old key", "rotated.bundle", ["old"], "accepted"),
        ("a bundle of a rotation, with the new key", "rotated.bundle", ["new"], "accepted"),
        ("a bundle of a rotation, with neither", "rotated.bundle", ["stranger"], "unknown-key"),
        ("a signed bundle, with an empty set of keys", "signed.bundle", [], "unknown-key"),
    ):
        if code == "accepted":
            yield _accepted(name, file, made, **({} if keys is None else {"keys": keys}))
        else:
            yield {"name": name, "file": file, "keys": keys, "expected": code}
    flipped = {"file": "signed.bundle", "flip": [last, 1]}
    yield {"name": "a flipped bit in the signature", **flipped, "keys": ["old"], "expected": "bad-signature"}
    yield _accepted("a flipped bit in the signature, without keys", "signed.bundle", made) | {"flip": [last, 1]}
    wrong = {"old": PUBLIC["stranger"].hex()}
    yield {
        "name": "the id of a key with another key",
        "file": "signed.bundle",
        "other_keys": wrong,
        "expected": "bad-signature",
    }


def _of_sequences(made: dict[str, bytes]) -> Iterator[Vector]:
    file = "signed.bundle"
    yield _accepted("the sequence number that was accepted before", file, made, accepted_sequence=SEQUENCE)
    yield _accepted("a higher sequence number", file, made, accepted_sequence=SEQUENCE - 1)
    older = {"name": "an older sequence number", "file": file, "accepted_sequence": SEQUENCE + 1}
    yield {**older, "expected": "older-sequence"}
    yield _accepted("an older one as a rollback", file, made, accepted_sequence=SEQUENCE + 1, rollback=True)
    uncounted = {"name": "a bundle that is not counted after one that is", "file": "shipped.bundle"}
    yield {**uncounted, "accepted_sequence": 1, "expected": "older-sequence"}


def _code(name: str) -> str:
    return "unsupported-semantics" if name == "a-newer-semantics" else "invalid"


def _invalid() -> Iterator[tuple[str, bytes]]:
    """Yield payloads that contradict themselves in one place, with what that is."""
    small = pb.Payload.FromString(_small())
    for name, change in _FAULTS.items():
        payload = pb.Payload()
        payload.CopyFrom(small)
        change(payload.rule_sets[0], payload)
        yield name, payload.SerializeToString(deterministic=True)
    yield "bytes-that-are-no-message", b"\xff\xff"
    rule_file = b"\x32\x03\x0a\x01\xff"
    yield "a-rule-file-whose-name-is-not-utf-8", small.SerializeToString(deterministic=True) + rule_file


def _deep(rule_set: pb.RuleSet, _: pb.Payload) -> None:
    """Nest the condition of the first rule in more `not` than a reader follows."""
    number = rule_set.rules[0].condition
    for _depth in range(200):
        rule_set.condition_parts.add(kind=pb.CONDITION_KIND_NOT, parts=[number])
        number = len(rule_set.condition_parts) - 1
    rule_set.rules[0].condition = number


def _out_of_order(rule_set: pb.RuleSet) -> None:
    """Let a node test an axis that its child tests too, so that nothing else is wrong."""
    sizes = [len(axis.readings) // len(axis.facts) for axis in rule_set.axes]
    places, start, results = list(rule_set.diagram.places), 0, len(rule_set.verdicts)
    for node, place in enumerate(places):
        below = {
            places[child - results]
            for child in rule_set.diagram.children[start : start + sizes[place]]
            if child >= results
        }
        start += sizes[place]
        same = next((each for each in below if sizes[each] == sizes[place]), None)
        if same is not None:
            rule_set.diagram.places[node] = same
            return
    raise AssertionError("no two axes of the diagram have the same size")


def _last_with_a_condition(rule_set: pb.RuleSet) -> None:
    rule_set.condition_parts.add(kind=pb.CONDITION_KIND_ALL)
    rule_set.rules[-1].condition = len(rule_set.condition_parts) - 1


def _set(items: Any, number: int, value: int) -> None:
    items[number] = value


def _own(rule_set: pb.RuleSet) -> int:
    """Return the number of the last node of the diagram."""
    return len(rule_set.verdicts) + len(rule_set.diagram.places) - 1


def _joined(rule_set: pb.RuleSet) -> pb.ConditionPart:
    """Return a part that has parts."""
    return next(part for part in rule_set.condition_parts if part.parts)


def _name(rule_set: pb.RuleSet) -> pb.Fact:
    """Return a fact that is a name with classes."""
    return next(fact for fact in rule_set.facts if fact.name_classes)


_FAULTS: dict[str, Callable[[pb.RuleSet, pb.Payload], object]] = {
    "a-newer-semantics": lambda r, p: setattr(p, "semantics", p.semantics + 1),
    "a-revision-that-is-none": lambda r, p: setattr(p, "revision", "A" * 64),
    "no-rule-set": lambda r, p: p.ClearField("rule_sets"),
    "a-rule-set-twice": lambda r, p: p.rule_sets[1].CopyFrom(p.rule_sets[0]),
    "an-action-of-nobody": lambda r, p: setattr(p.actions[0], "owner", 0),
    "a-child-that-is-its-own-node": lambda r, p: _set(r.diagram.children, -1, _own(r)),
    "a-child-that-does-not-exist": lambda r, p: _set(r.diagram.children, 0, 1_000_000),
    "an-axis-that-does-not-exist": lambda r, p: _set(r.diagram.places, 0, len(r.axes)),
    "axes-out-of-order": lambda r, p: _out_of_order(r),
    "too-few-children": lambda r, p: r.diagram.children.pop(),
    "too-many-children": lambda r, p: r.diagram.children.append(0),
    "no-verdict": lambda r, p: r.ClearField("verdicts"),
    "a-verdict-of-no-rule": lambda r, p: setattr(r.verdicts[0], "rule", len(r.rules)),
    "a-verdict-of-no-status": lambda r, p: setattr(r.verdicts[0], "status", len(r.statuses)),
    "a-verdict-with-another-status-than-its-rule": lambda r, p: setattr(r.verdicts[0], "status", 4),
    "an-undetermined-status-that-does-not-exist": lambda r, p: setattr(r, "undetermined_status", 99),
    "an-open-status-that-does-not-exist": lambda r, p: setattr(r, "open_status", 99),
    "a-part-that-comes-too-late": lambda r, p: _set(_joined(r).parts, 0, len(r.condition_parts) - 1),
    "a-part-that-is-used-twice": lambda r, p: _joined(r).parts.append(_joined(r).parts[0]),
    "a-part-that-belongs-to-nothing": lambda r, p: r.condition_parts.add(kind=pb.CONDITION_KIND_ALL),
    "a-part-of-an-unknown-kind": lambda r, p: setattr(_joined(r), "kind", 9),
    "a-not-of-two-parts": lambda r, p: setattr(
        next(part for part in r.condition_parts if len(part.parts) == 2), "kind", pb.CONDITION_KIND_NOT
    ),
    "conditions-that-are-nested-too-deep": _deep,
    "a-condition-about-no-fact": lambda r, p: setattr(r.condition_parts[0], "fact", len(r.facts)),
    "a-condition-about-no-value": lambda r, p: _set(r.condition_parts[0].readings, 0, 99),
    "a-last-rule-with-a-condition": lambda r, p: _last_with_a_condition(r),
    "a-rule-id-twice": lambda r, p: setattr(r.rules[1], "id", r.rules[0].id),
    "no-rule": lambda r, p: r.ClearField("rules"),
    "a-rule-of-no-status": lambda r, p: setattr(r.rules[0], "status", 99),
    "a-law-about-no-status": lambda r, p: _set(r.laws[0].statuses, 0, 99),
    "words-with-too-few-texts": lambda r, p: r.status_words[0].texts.pop(),
    "words-of-other-texts": lambda r, p: _set(r.text_names, 0, "advice"),  # type: ignore[arg-type]
    "words-twice": lambda r, p: setattr(r.status_words[1], "status", r.status_words[0].status),
    "a-status-twice": lambda r, p: setattr(r.statuses[1], "name", r.statuses[0].name),
    "a-status-of-nobody": lambda r, p: setattr(r.statuses[0], "lifted_by", 0),
    "a-fact-twice": lambda r, p: setattr(r.facts[1], "name", r.facts[0].name),
    "a-value-twice": lambda r, p: _set(r.facts[0].values, 1, r.facts[0].values[0]),  # type: ignore[arg-type]
    "a-default-that-is-no-value": lambda r, p: setattr(r.facts[0], "default_value", 9),
    "a-default-of-a-name-without-values": lambda r, p: setattr(
        next(f for f in r.facts if f.kind == pb.FACT_KIND_NAME and not f.values), "default_value", 1
    ),
    "a-fact-of-an-unknown-kind": lambda r, p: setattr(r.facts[0], "kind", 9),
    "a-label-without-a-key": lambda r, p: setattr(next(fact for fact in r.facts if fact.key), "key", ""),
    "a-class-of-no-pattern": lambda r, p: _name(r).name_classes[0].groups.append(99),
    "a-class-twice": lambda r, p: _name(r).name_classes[1].CopyFrom(_name(r).name_classes[0]),
    "a-class-too-few": lambda r, p: _name(r).name_classes.pop(),
    "an-axis-without-facts": lambda r, p: r.axes[0].ClearField("facts"),
    "an-axis-of-no-fact": lambda r, p: _set(r.axes[0].facts, 0, len(r.facts)),
    "a-fact-on-two-axes": lambda r, p: r.axes.add(facts=r.axes[0].facts, readings=r.axes[0].readings),
    "an-axis-with-a-reading-too-high": lambda r, p: _set(r.axes[0].readings, 0, 99),
    "an-axis-with-half-a-point": lambda r, p: next(a for a in r.axes if len(a.facts) == 2).readings.pop(),
    "a-fact-that-is-not-listed": lambda r, p: r.listed_facts.pop(),
    "an-unread-fact-of-no-node": lambda r, p: setattr(r.unread_starts[0], "start", 999),
    "an-unread-fact-of-no-rule": lambda r, p: setattr(r.unread_starts[-1], "rule", len(r.rules)),
    "unread-facts-out-of-order": lambda r, p: r.unread_starts.append(r.unread_starts[0]),
    "an-unread-child-that-does-not-exist": lambda r, p: _set(r.unread_diagram.children, 0, 999),
    "a-count-that-is-no-number": lambda r, p: setattr(r.counts, "regions", "-1"),
}


def main() -> None:
    """Write every file."""
    for name, content in files().items():
        path = DIRECTORY / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
