"""The address of the metrics: connections to it are few, and end."""

from __future__ import annotations

import http.client
import os
import socket
import urllib.request
from contextlib import ExitStack

from callability.process.metrics import CONNECTIONS
from support.running import service, unused_port
from support.waiting import eventually

_MANY = 100


def test_idle_connections_take_few_descriptors_and_no_metrics() -> None:
    """More than there may be at a time: they are closed, and Prometheus is answered."""
    port = unused_port()
    with service("--metrics-address", f"127.0.0.1:{port}") as running, ExitStack() as held:

        def descriptors() -> int:
            return len(os.listdir(f"/proc/{running.process.pid}/fd"))

        def are_answered() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120) as answer:
                    return b"callability_" in answer.read()
            except OSError:
                return False

        eventually(are_answered)
        before = descriptors()
        idle = [held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=120)) for _ in range(_MANY)]
        # The last one was closed, or waits behind others that were.
        assert idle[-1].recv(1) == b""
        assert descriptors() <= before + CONNECTIONS + 1
        eventually(are_answered)
        assert all(each.recv(1) == b"" for each in idle)


def test_metrics_on_loopback_answer_no_name_that_a_page_made_up() -> None:
    """A page whose name was moved to this address could otherwise read the counts in a browser on this machine."""
    port = unused_port()
    with service("--metrics-address", f"127.0.0.1:{port}"):

        def status(host: str) -> int:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            connection.request("GET", "/metrics", headers={"Host": host})
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            assert (b"callability_" in body) is (answer.status == 200)
            return answer.status

        hosts = (
            "localhost",
            f"localhost:{port}",
            "127.0.0.1:1",
            "[::1]:9",
            "evil.example",
            "127.0.0.1.evil.example",
            "",
        )
        assert [status(host) for host in hosts] == [200, 200, 200, 200, 421, 421, 421]
