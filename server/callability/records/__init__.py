"""Records: who was refused what, by which rule, and what changed; an operator's output that nothing decides by."""

from callability.records.recorder import ClientRecords
from callability.records.writer import DestinationRefused

__all__ = ["ClientRecords", "DestinationRefused"]
