"""A real studio as a process, and a page of it without a browser."""

from __future__ import annotations

import re
import secrets
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from support.running import start

SECONDS = 120
PLAIN = ssl.create_default_context()
"""What a client takes as it is, instead of reading the certificates of the world for each request."""


@contextmanager
def studio_process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `callability studio` and yield its process and its URL."""
    with start("studio", *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("listening on "), process.communicate()
            yield process, line.removeprefix("listening on ").strip()
        finally:
            process.terminate()
            process.communicate(timeout=120)


@contextmanager
def studio(policy: Path) -> Iterator[str]:
    """Run `callability studio` for a policy and yield its URL."""
    with studio_process("--policy", str(policy)) as (_, url):
        yield url


class Page:
    """What a page asks, asked without a browser."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.id = secrets.token_hex(16)
        found = re.search(r'name="callability-token" content="([^"]+)"', self.get("/").text)
        assert found
        self.headers = {"callability-token": found[1], "origin": self.url, "sec-fetch-site": "same-origin"}

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        """Read something, as a person at a browser does."""
        return httpx2.get(f"{self.url}{path}", headers=headers, timeout=SECONDS, verify=PLAIN)

    def policy(self) -> dict[str, Any]:
        """Return what the page begins with."""
        reply: dict[str, Any] = self.get("/policy").json()
        return reply

    def digest(self, name: str) -> str:
        """Return the digest of a file on disk."""
        return next(str(file["digest"]) for file in self.policy()["files"] if file["name"] == name)

    def post(self, what: str, headers: Mapping[str, str] | None = None, /, **fields: Any) -> httpx2.Response:
        """Ask something of this page, with other headers where they are given."""
        sent = self.headers | dict(headers or {})
        body = {"page": self.id, **fields}
        return httpx2.post(f"{self.url}/{what}", json=body, headers=sent, timeout=SECONDS, verify=PLAIN)

    def ask(self, what: str, **fields: Any) -> dict[str, Any]:
        """Ask something that has an answer."""
        response = self.post(what, **fields)
        assert response.status_code == 200, response.text
        reply: dict[str, Any] = response.json()
        return reply
