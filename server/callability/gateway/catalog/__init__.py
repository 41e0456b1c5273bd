"""Servers that agents enable and disable: each has one state machine, and only an enable connects it (spec C)."""

from callability.gateway.catalog.catalog import Catalog
from callability.gateway.catalog.consent import Asker, ConsentAnswer, ConsentRequest
from callability.gateway.catalog.enable_outcome import EnableOutcome
from callability.gateway.catalog.joined import Joined
from callability.gateway.catalog.switch import Switch, SwitchState

__all__ = ["Asker", "Catalog", "ConsentAnswer", "ConsentRequest", "EnableOutcome", "Joined", "Switch", "SwitchState"]
