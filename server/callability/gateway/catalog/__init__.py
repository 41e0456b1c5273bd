"""Servers that agents enable and disable: each has one state machine, and only an enable connects it (spec C)."""

from callability.gateway.catalog.attempt import Asker, ConsentAnswer, ConsentRequest, EnableOutcome, Joined
from callability.gateway.catalog.catalog import Catalog, Switch, SwitchState

__all__ = ["Asker", "Catalog", "ConsentAnswer", "ConsentRequest", "EnableOutcome", "Joined", "Switch", "SwitchState"]
