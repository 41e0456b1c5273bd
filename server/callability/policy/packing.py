"""Serializing a check between two processes of the same program."""

from __future__ import annotations

import copyreg
import pickle
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from callability.policy.loading import Check


def _read_only(mapping: Mapping[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


def _reduced(proxy: MappingProxyType[Any, Any]) -> tuple[Any, ...]:
    return _read_only, (dict(proxy),)


copyreg.pickle(MappingProxyType, _reduced)


def packed(check: Check) -> bytes:
    """Return a check as bytes."""
    return pickle.dumps(check)


def unpacked(data: bytes) -> Check:
    """Return the check in bytes that come from a process of this program."""
    check = pickle.loads(data)
    assert isinstance(check, Check)
    return check
