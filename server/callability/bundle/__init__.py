"""Compiled policies as files: reading them, and deciding from them without the rule files.

`read` checks a bundle and returns a `LocalPolicy`. It raises `BundleRefused`, whose `code` says why. `LocalCalls`
answers the calls of the contract from it.
"""

from callability.bundle.calls import LocalCalls
from callability.bundle.policy import LocalPolicy, read
from callability.bundle.refusal import BundleRefused, RefusalCode
from callability.bundle.rule_set import Axis, RuleSet
from callability.bundle.verdict import Verdict, Words

__all__ = ["Axis", "BundleRefused", "LocalCalls", "LocalPolicy", "RefusalCode", "RuleSet", "Verdict", "Words", "read"]
