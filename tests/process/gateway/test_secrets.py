"""Secrets of the config: found where people write them, and masked in every text of a server."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import sys
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, example, given
from hypothesis import strategies as st

from callability.gateway.upstream.failure import UpstreamRefusal
from callability.gateway.upstream.target import SECRET_CHARACTERS, HttpTarget, Secrets, StdioTarget, Target
from callability.gateway.upstream.upstream import Upstream
from support.checkout import UPSTREAMS
from support.drawing import drawing
from support.upstreams.bad_http import BadHttp, refusal

BAD = str(UPSTREAMS / "bad_stdio.py")
SECRET = "s3cr3t-v4lu3"

# The prefix is in no other word; the rest may be any text that a person pastes.
VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30).map("Zq7#xW".__add__)
HEADER_VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30).map("Zq7#xW".__add__)


def _in_process(value: str) -> tuple[Target, ...]:
    return (
        StdioTarget("x", env={"ANY": value}),
        StdioTarget("x", ("--api-key", value)),
        StdioTarget("x", (f"--db-password={value}",)),
        StdioTarget("x", ("-e", f"GITHUB_TOKEN={value}")),
        StdioTarget("x", (f"postgresql://people:{quote(value, safe='')}@host/base",)),
        HttpTarget("http://host/mcp", {"X-Any": value}),
        HttpTarget("http://host/mcp", {"Authorization": f"Bearer {value}"}),
        HttpTarget(f"http://user:{quote(value, safe='')}@host/mcp"),
        HttpTarget(f"http://host/mcp?any={quote(value, safe='')}&other=1"),
    )


@given(value=VALUES, before=st.text(max_size=20), after=st.text(max_size=20))
@example("Zq7#xW\nabc\rdef", "", "")
@example("Zq7#xW\nabc\u2028def", "", "")
def test_a_secret_is_masked_wherever_it_was_given_and_however_it_is_said(value: str, before: str, after: str) -> None:
    """As it is, as JSON and Python write it, and line by line; without secrets, nothing is masked."""
    for target in _in_process(value):
        secrets = Secrets.of(target)
        for said in (value, repr(value), json.dumps(value), json.dumps(value, ensure_ascii=False)):
            assert "Zq7#xW" not in secrets.mask(f"{before}{said}{after}"), target
        for line in value.split("\n"):
            if len(line.strip()) >= SECRET_CHARACTERS:
                assert line.strip() not in secrets.mask(line)
    assert Secrets.of(StdioTarget("x")).mask(before) == before


@given(value=VALUES, before=st.binary(max_size=20), after=st.binary(max_size=20))
@example("Zq7#xW", b"", b"\n")
def test_a_secret_is_masked_in_base64_wherever_it_begins(value: str, before: bytes, after: bytes) -> None:
    """As in `Authorization: Basic`; what is left are the characters of what surrounds it, and one at either end."""
    secret = value.strip().encode()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(before + secret + after).decode()
        left, mask, right = Secrets.of(StdioTarget("x", env={"ANY": value})).mask(text).partition("***")
        assert mask
        assert len(left) <= -(-len(before) * 8 // 6)
        assert len(right.rstrip("=")) <= -(-len(after) * 8 // 6) + 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("--api-key", SECRET),
        ("-token", SECRET),
        ("--CLIENT_SECRET", SECRET),
        (f"--passwd={SECRET}",),
        (f"--pwd:{SECRET}",),
        (f"credentials={SECRET}",),
        ("--header", f"Authorization: Bearer {SECRET}"),
        (f"--url=https://{SECRET}@host/mcp",),
        (f"https://host/mcp?key={SECRET}",),
    ],
)
def test_an_argument_whose_name_suggests_a_secret_is_one(arguments: tuple[str, ...]) -> None:
    """After its flag or joined to it, and in a URL."""
    assert Secrets.of(StdioTarget("x", arguments)).mask(f"<{SECRET}>") == "<***>"


@pytest.mark.parametrize("arguments", [("--directory", SECRET), (SECRET,), ("--no-auth", "--verbose-logs")])
def test_any_other_argument_is_none(arguments: tuple[str, ...]) -> None:
    """People look for paths and flags in a log."""
    said = f"<{' '.join(arguments)}>"
    assert Secrets.of(StdioTarget("x", arguments)).mask(said) == said


def test_a_short_value_is_no_secret() -> None:
    """Hiding it would make every line unreadable."""
    secrets = Secrets.of(StdioTarget("x", env={"DEBUG": "1", "MODE": "short", "LONG": "longer"}))
    assert secrets.mask("1 short longer") == "1 short ***"


def test_what_a_client_makes_of_user_and_password_is_secret_too() -> None:
    """Clients send them in a header of basic authentication."""
    assert Secrets.of(HttpTarget("http://us%20er:pass+word@host")).mask("Basic dXMgZXI6cGFzcyt3b3Jk") == "Basic ***"


def test_where_a_text_was_cut_no_beginning_of_a_secret_is_left() -> None:
    """The mask is shorter than the secret: the cut may fall anywhere."""
    text = SECRET * 10
    for end in range(len(text)):
        assert set(Secrets([SECRET]).mask(text[:end], cut=True)) <= {"*"}


async def _refused(it: Upstream, tool: str) -> str:
    with pytest.raises(UpstreamRefusal) as caught:
        await it.call(tool, {})
    return f"{caught.value} {caught.value.message} {caught.value!r}"


@drawing(
    20,
    # Each example runs servers: shrinking a failure is not worth the minutes.
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(values=st.lists(VALUES, min_size=2, max_size=2), header=HEADER_VALUES, user=VALUES, query=VALUES)
def test_no_secret_is_in_a_refusal_or_a_log_record(
    caplog: pytest.LogCaptureFixture, values: list[str], header: str, user: str, query: str
) -> None:
    """Of servers that refuse calls with everything that they were given, and write it on standard error."""

    async def story() -> str:
        env, argument = values
        child = Upstream("x", StdioTarget(sys.executable, (BAD, "", "--api-key", argument), {"TOKEN": env}))
        server = BadHttp()
        server.answers["tell"] = lambda request: refusal(request, server.head)
        async with server.listening():
            url = server.url.replace("//", f"//user:{quote(user, safe='')}@") + f"?any={quote(query, safe='')}"
            http = Upstream("y", HttpTarget(url, {"X-Api-Key": header}))
            said = await _refused(child, "refuse with secrets") + await _refused(http, "tell")
            await child.call("secrets", {})
            await asyncio.gather(child.close(), http.close())
        return said

    caplog.clear()
    caplog.set_level(logging.DEBUG)
    said = asyncio.run(story())
    assert "***" in said
    assert "`x` stderr: my token is ***" in caplog.text
    assert "Zq7#xW" not in said + caplog.text
    assert "Zq7%23xW" not in said + caplog.text
    # What all these secrets have in common, after eight bytes that are none.
    assert base64.b64encode(b"someone:Zq7#xW")[11:18].decode() not in caplog.text
