"""The classification of a load by the text of an error alone (L-2): real texts, and traps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.compiler.confirmation import Engine
from callability.compiler.policy import load
from callability.kernel.facts import load_facts, signals_in_text
from callability.kernel.limits import ERROR_TEXT_BYTES
from callability.v1 import outcome_pb2
from support.checkout import POLICY
from support.drawing import drawing

TABLE = load(POLICY, engine=Engine.REFERENCE).rule_sets["load_outcome"].diagram
FORBIDDEN = "Client error '403 Forbidden' for url '{}'\nFor more information check: https://example.org/Status/403"
TEXTS = {
    "transient": (
        "httpx.ReadTimeout",
        "asyncio.exceptions.TimeoutError",
        "The read operation timed out",
        "_ssl.c:989: The handshake operation timed out",
        "context deadline exceeded",
        "[Errno 110] ETIMEDOUT",
        "[Errno 104] Connection reset by peer",
        "read ECONNRESET",
        "[Errno 32] Broken pipe",
        "Server disconnected without sending a response.",
        "peer closed connection without sending complete message body (incomplete chunked read)",
        "Connection closed",
        "Server error '503 Service Unavailable' for url 'https://example.org/mcp'",
        "HTTP/1.1 502 Bad Gateway",
        "HTTP 500",
        "status code: 504",
        '{"error": {"code": 429, "message": "slow down"}}',
        "Too Many Requests",
        "408 Request Timeout",
        "[Errno -3] Temporary failure in name resolution",
        "getaddrinfo EAI_AGAIN example.org",
        "getaddrinfo failed: Temporary failure in name resolution",
        "503 upstream connect error or disconnect/reset before headers. reset reason: connection refused, status: 503",
        "HTTP 403: upstream call timeout",
        "403 Forbidden: ext_authz request timed out",
        "401 Unauthorized (timeout of the authorization proxy)",
        "403 Forbidden: timed out waiting for upstream",
    ),
    "denied": (
        FORBIDDEN.format("https://example.org/mcp"),
        FORBIDDEN.format("https://timeout.example.org/upstream-timeout/mcp?timeout=30"),
        FORBIDDEN.format("https://example.org/a path with upstream timeout"),
        '403 Forbidden for "https://example.org/upstream timeout"',
        "HTTP 403 from //example.org/upstream/timed-out",
        "HTTP 403 from upstream-timeout.example.org:8443",
        "HTTP 401",
        "Unauthorized",
        "Forbidden: your session has timed out",
        "403 Forbidden: RBAC: access denied (upstream timeout)",
        "403 Forbidden: denied by policy; upstream timeout is 30s",
        "403 Forbidden, upstream timeout: 15s",
        "403 Forbidden (504 Gateway Timeout)",
        "unhandled errors in a TaskGroup: 503 Service Unavailable, 403 Forbidden",
        '{"code":403,"message":"request timeout not permitted"}',
    ),
    "permanent": (
        "[Errno -2] Name or service not known",
        "Temporary failure in name resolution, [Errno 111] Connection refused",
        "getaddrinfo ENOTFOUND example.org, getaddrinfo EAI_AGAIN example.org",
        "getaddrinfo ENOTFOUND example.org, timed out",
        "[Errno 111] Connection refused",
        "Client error '404 Not Found' for url 'https://example.org/timeout'",
        "404 Not Found, 503 Service Unavailable",
        "Redirect response '302 Found', status 302",
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate",
        "sh: frobnicate: command not found",
        "[Errno 2] No such file or directory: 'npx'",
        "the process exited with code 1",
        "Invalid URL 'timeout', timed out",
        "JSONDecodeError: Expecting value",
        "Session terminated",
        "All connection attempts failed",
        "connection to timeout.example.org failed",
        "cannot reach https://example.org/connection-reset/timeout",
        "cannot open /srv/timeout",
        "a timeout after 403",
        "ext_authz_denied 403 timeout",
        "access denied, timed out",
        "404",
        "oops",
        " ",
    ),
}


@pytest.mark.parametrize(("status", "text"), [(status, text) for status, texts in TEXTS.items() for text in texts])
def test_a_text_has_its_status(status: str, text: str) -> None:
    """Conservative: only a text that surely means recovery is retried, and only a sure denial is a denial."""
    assert TABLE.verdict(load_facts(outcome_pb2.LoadSignals(), text)).status == status


@drawing(300)
@given(
    text=st.sampled_from(["HTTP 403", "403 Forbidden", "Unauthorized", "status: 401"]),
    part=st.from_regex(r"[a-z./?=&-]{0,12}upstream[-_]timeout[a-z./?=&-]{0,12}", fullmatch=True),
)
def test_what_a_url_says_never_makes_a_denial_transient(text: str, part: str) -> None:
    """L-3, wherever the words stand in it."""
    facts = load_facts(outcome_pb2.LoadSignals(), f"{text} for https://example.org/{part}")
    assert TABLE.verdict(facts).status == "denied"


def test_a_signal_is_never_overruled_by_text() -> None:
    """Text is read only if phase, failure and status are all absent; an assertion beside it stays."""
    refused = outcome_pb2.LoadSignals(failure=outcome_pb2.LOAD_FAILURE_REFUSED)
    assert load_facts(refused, "timed out")["load.failure"] == "refused"
    unknown = outcome_pb2.LoadSignals(phase=outcome_pb2.LOAD_PHASE_UNSPECIFIED)
    assert load_facts(unknown, "timed out")["load.failure"] == "unknown"
    scheduled = outcome_pb2.LoadSignals(tries_left=1, retry_scheduled=True)
    facts = load_facts(scheduled, "timed out")
    assert (facts["load.failure"], facts["load.tries_left"], facts["load.retry_scheduled"]) == (
        "timeout",
        "true",
        "true",
    )


@pytest.mark.parametrize("piece", ["'", '"', "'\"", '"://', ".", "a.a", ":1", "http ", "upstream ", "403 ", "\\", "x"])
def test_a_long_text_is_read_in_time_that_grows_with_its_length(piece: str) -> None:
    """No pattern backtracks: otherwise this test would not end."""
    assert signals_in_text(piece * (ERROR_TEXT_BYTES // len(piece))) is not None
