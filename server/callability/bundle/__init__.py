"""Compiled policies as files: reading them, and deciding from them without the rule files.

`read` checks a bundle and returns a `LocalPolicy`. It raises `BundleRefused`, whose `code` says why. `LocalCalls`
answers the calls of the contract from it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from callability.kernel.calls import LocalCalls
    from callability.kernel.envelope import BundleRefused, RefusalCode
    from callability.kernel.policy import LocalPolicy, read
    from callability.kernel.rule_set import Axis, RuleSet, Verdict, Words

__all__ = ["Axis", "BundleRefused", "LocalCalls", "LocalPolicy", "RefusalCode", "RuleSet", "Verdict", "Words", "read"]
_MODULES = {
    "calls": ("LocalCalls",),
    "envelope": ("BundleRefused", "RefusalCode"),
    "policy": ("LocalPolicy", "read"),
    "rule_set": ("Axis", "RuleSet", "Verdict", "Words"),
}


def __getattr__(name: str) -> Any:
    """Return a public name from the kernel, which itself needs the messages in `callability.bundle.v1`."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"callability.kernel.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
