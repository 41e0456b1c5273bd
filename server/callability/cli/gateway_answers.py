"""Where an answer about a gateway's tools comes from: a running gateway, or the files alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from callability.cli.fact_places import FactPlaces
from callability.cli.options import check_policy_choice, leave
from callability.cli.policy_service import PolicyService
from callability.cli.running_gateways import RunningGateway, chosen_gateway
from callability.compiler.policy import rules_at
from callability.files.shipped_policy import shipped_policy

QueriedAgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent",
        metavar="NAME",
        help="The agent of the config that asks. Default: that of the running gateway, or else one that sees every"
        " server.",
    ),
]
GatewayPidOption = Annotated[
    int | None, typer.Option("--gateway", metavar="PID", help="Ask the running gateway that is this process.")
]
FilesOption = Annotated[
    bool, typer.Option("--files", help="Read the files alone, even if a gateway runs; its servers are connected.")
]
AskOfflineOption = Annotated[bool, typer.Option("--offline", help="Read the files alone, and connect no server.")]


@dataclass(frozen=True, slots=True)
class GatewayQuery:
    """What a call names: which gateway, or which files, and for which agent."""

    agent: str | None
    config: Path | None
    approvals: Path | None
    policy: Path | None
    service: PolicyService | None
    pid: int | None
    files: bool
    offline: bool

    def gateway(self) -> RunningGateway | None:
        """Return the running gateway that the call means; None: the files alone are read.

        An option about files beside the config says that the files are meant. It exits with code 2 if `--gateway` does
        not go with the others.
        """
        only_files = [
            name
            for name, is_given in (
                ("--files", self.files),
                ("--offline", self.offline),
                ("--approvals", self.approvals is not None),
                ("--policy", self.policy is not None),
                ("--policy-address", self.service is not None),
            )
            if is_given
        ]
        check_policy_choice(self.policy, self.service.address if self.service else None)
        if only_files and self.pid is not None:
            leave(f"`--gateway` and `{only_files[0]}` exclude each other: it reads the files alone", 2)
        return None if only_files else chosen_gateway(self.config, self.agent, self.pid)


def places_of(gateway: RunningGateway) -> FactPlaces:
    """Return the files of a running gateway, to find places in them."""
    about: Mapping[str, Any] = gateway.about
    of_policy = about.get("policy") or {}
    directory = None if of_policy.get("address") else Path(of_policy.get("directory") or shipped_policy())
    approvals = about.get("approvals")
    rules = rules_at(directory).policy if directory else None
    return FactPlaces.of(gateway.config, Path(approvals) if approvals else None, directory, rules)
