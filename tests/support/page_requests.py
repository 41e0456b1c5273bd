"""What the page for people requests, without a browser."""

from __future__ import annotations

import re
import ssl
from typing import Any

import httpx2

PLAIN = ssl.create_default_context()


class Browser:
    """What a page requests, in a session or in none."""

    def __init__(self, url: str) -> None:
        self.url = url
        found = re.search(r'name="callability-token" content="([^"]+)"', httpx2.get(url, verify=PLAIN).text)
        assert found
        self.headers = {"callability-token": found[1], "origin": url.rstrip("/"), "sec-fetch-site": "same-origin"}

    def post(self, what: str, headers: dict[str, str] | None = None, **body: str) -> httpx2.Response:
        """Send a request."""
        given = {**self.headers, **(headers or {})}
        return httpx2.post(f"{self.url}{what}", json=body, headers=given, timeout=120, verify=PLAIN)

    def sign_in(self, code: str) -> None:
        """Sign in by a code."""
        answer = self.post("sign-in", code=code)
        assert answer.status_code == 200, answer.text
        self.headers["callability-session"] = answer.json()["session"]

    def state(self, agent: str = "") -> dict[str, Any]:
        """Return what the page shows."""
        state: dict[str, Any] = self.post("state", agent=agent).json()
        return state

    def act(self, act: str, server: str, tool: str = "", seen: str = "") -> httpx2.Response:
        """Decide something about what was seen."""
        return self.post("act", act=act, server=server, tool=tool, seen=seen)

    def shown(self, part: str, server: str, tool: str = "") -> dict[str, Any]:
        """Return a tool, or a server, as the page shows it in one of its parts."""
        name = {"name": server} if part == "servers" else {"server": server, "tool": tool}
        found: list[dict[str, Any]] = [each for each in self.state()[part] if name.items() <= each.items()]
        [only] = found
        return only
