"""A dictionary of a bounded size."""

from __future__ import annotations

import sys
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedCache(dict[Key, Value]):
    """A dict that `keep` never lets grow beyond `items`, and that holds none larger than `max_bytes`.

    When it is full, it forgets everything. An order of use would cost more at each lookup than it saves.
    """

    def __init__(self, items: int, max_bytes: int = sys.maxsize) -> None:
        super().__init__()
        self.items_at_most = items
        self.bytes_at_most = max_bytes

    def keep(self, key: Key, value: Value, size: int = 0) -> None:
        """Keep a value for a key that has none, unless its `size` in bytes is too large."""
        if size > self.bytes_at_most:
            return
        if len(self) >= self.items_at_most:
            self.clear()
        self[key] = value
