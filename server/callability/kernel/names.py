"""The class of a name, by the patterns of a bundle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from callability.bundle.v1 import bundle_pb2 as pb
from callability.kernel.glob import is_glob, matches
from callability.kernel.refusal import invalid


class NameClasses:
    """Says to which of the classes of a fact a name belongs."""

    def __init__(self, groups: Iterable[pb.PatternGroup], classes: Mapping[tuple[int, ...], int]) -> None:
        self._exact: dict[str, list[int]] = {}
        self._globs: list[tuple[str, int]] = []
        for number, group in enumerate(groups):
            for pattern in group.patterns:
                if is_glob(pattern):
                    self._globs.append((pattern, number))
                else:
                    self._exact.setdefault(pattern, []).append(number)
        self._classes = classes

    def class_of(self, name: str) -> int:
        """Return the number of the class of a name of at most 512 bytes.

        Raises:
            BundleRefused: the bundle has no class for it, which none has that `callability` wrote.
        """
        groups = {number for glob, number in self._globs if matches(glob, name)}
        groups.update(self._exact.get(name, ()))
        try:
            return self._classes[tuple(sorted(groups))]
        except KeyError:
            raise invalid("the bundle has no class for a name") from None
