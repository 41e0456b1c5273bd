"""Why a bundle is refused."""

from __future__ import annotations

from enum import StrEnum


class RefusalCode(StrEnum):
    """The stable names of the reasons, in the order in which they are looked for; the same in every language."""

    TOO_LARGE = "too-large"
    NOT_A_BUNDLE = "not-a-bundle"
    DAMAGED = "damaged"
    UNSUPPORTED_FORMAT = "unsupported-format"
    NOT_SIGNED = "not-signed"
    UNKNOWN_KEY = "unknown-key"
    BAD_SIGNATURE = "bad-signature"
    UNSUPPORTED_SEMANTICS = "unsupported-semantics"
    OLDER_SEQUENCE = "older-sequence"
    INVALID = "invalid"


class BundleRefused(Exception):
    """A bundle that must not be decided from. Its text is one sentence; `code` is the reason."""

    def __init__(self, code: RefusalCode, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def invalid(sentence: str) -> BundleRefused:
    """Return the refusal of a bundle whose content contradicts itself."""
    return BundleRefused(RefusalCode.INVALID, sentence)
