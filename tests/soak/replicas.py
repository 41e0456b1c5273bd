"""The replicas of the service: over TLS, known callers alone, and started again after whatever happened."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from callability.v1.policy_service_pb2 import GetPolicyRequest, GetPolicyResponse
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub
from soak.processes import SoakFailed, end, python, said, start
from support.callers import bearer, tls_channel, token_entry, write_callers
from support.certificates import Authority, Pair
from support.running import unused_port

REPLICAS = 3
TOKEN = "soak-token"
EFFECT_SECONDS = 180.0
"""How long the effect of a fault may take to be seen: a busy machine is slow."""
_LOOK_SECONDS = 0.1
_CALL_SECONDS = 30.0


@dataclass(slots=True)
class Replica:
    """A service at one address, which may be killed and started again."""

    number: int
    address: str
    command: Sequence[str]
    authority: Path
    log: Path
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        self.process = start(self.command, self.log)

    def ready(self) -> None:
        """Wait until it listens.

        Raises:
            SoakFailed: it has ended.
        """
        said(self.process, "listening on ", self.log)

    def end(self) -> None:
        """End it, whatever state it is in."""
        end(self.process)

    def kill(self) -> None:
        """End it without a farewell."""
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        """Let it drain, if it runs, and start it again."""
        self.end()
        self.process = start(self.command, self.log)
        self.ready()

    def stop(self) -> None:
        """Stop it: its connections stay, and it answers nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    def policy(self) -> GetPolicyResponse:
        """Ask what it serves.

        Raises:
            grpc.RpcError: there is no answer.
        """
        with tls_channel(self.address, self.authority) as channel:
            stub = PolicyServiceStub(channel)
            request = GetPolicyRequest()
            return stub.GetPolicy(request, timeout=_CALL_SECONDS, metadata=bearer(TOKEN), wait_for_ready=True)

    def certificate(self) -> bytes:
        """Return the certificate that it presents to new connections, in DER."""
        context = ssl.create_default_context(cafile=str(self.authority))
        context.set_alpn_protocols(["h2"])
        host, _, port = self.address.rpartition(":")
        with (
            socket.create_connection((host, int(port)), timeout=_CALL_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host) as connection,
        ):
            return connection.getpeercert(binary_form=True) or b""


@dataclass(frozen=True, slots=True)
class Replicas:
    """All replicas, and the files that they share."""

    each: Sequence[Replica]
    authority: Authority
    certificate: Pair

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where they listen."""
        return tuple(replica.address for replica in self.each)


@contextmanager
def replicas(directory: Path, policy: Path) -> Iterator[Replicas]:
    """Run the replicas of a policy; their certificates, callers and logs are in a directory."""
    authority = Authority(directory, "soak")
    pair = authority.pair("server")
    callers = write_callers(directory, soak={"tokens": [token_entry(TOKEN)], "may": ["check", "policy", "watch"]})
    files = ("--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key), "--callers", str(callers))
    running: list[Replica] = []
    with ExitStack() as stack:
        for number in range(1, REPLICAS + 1):
            address = f"127.0.0.1:{unused_port()}"
            command = python("callability", "serve", "--policy", str(policy), "--address", address, *files)
            replica = Replica(number, address, command, authority.path, directory / f"replica-{number}.log")
            stack.callback(replica.end)
            running.append(replica)
        for replica in running:
            replica.ready()
        yield Replicas(running, authority, pair)


def seen(what: str, look: Callable[[], bool]) -> None:
    """Wait until a fault has the effect that it must have.

    Raises:
        SoakFailed: it has not.
    """
    patience = time.monotonic() + EFFECT_SECONDS
    while not look():
        if time.monotonic() > patience:
            raise SoakFailed(f"after {EFFECT_SECONDS:.0f} s, {what}")
        time.sleep(_LOOK_SECONDS)
