"""A person's login at one server, from a terminal: the only way to authorize a server of `mcpServers`."""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult

from callability.gateway.config import Config
from callability.gateway.config.variables import fill
from callability.gateway.offline import open_seconds
from callability.gateway.upstream import (
    Authorization,
    AuthorizationFailed,
    HttpTarget,
    LockHeld,
    LoginStore,
    StoredLogin,
    StoreUnavailable,
    Upstream,
    UpstreamError,
    may_log_in,
    run_in_thread,
    target_of,
)
from callability.gateway.upstream.authorization import ProviderRefused, Redirect

LOGOUT_SECONDS = 30.0
"""How long a logout waits for a process that renews the login."""


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """How a login ended: `failure` is a sentence, empty if the server is authorized and lists so many tools.

    `is_new` says that a person made the login now, and `is_stored` that there is one: one that works needs nobody.
    """

    failure: str = ""
    tools: int = 0
    is_new: bool = False
    is_stored: bool = False


class LoginDialog:
    """Sends a person to the provider, by a browser or by an address that they open themselves."""

    def __init__(self, server: str, redirect: Redirect, say: Callable[[str], None], *, browser: bool) -> None:
        self._server = server
        self._redirect = redirect
        self._say = say
        self._browser = browser
        self.was_shown = False

    async def ask(self, url: str) -> AuthorizationCodeResult:
        """Wait until the person comes back to the redirect address, or pastes the address at which they ended.

        Raises:
            AuthorizationFailed: they declined, or the provider refused.
        """
        self.was_shown = True
        state = parse_qs(urlsplit(url).query)["state"][0]
        opening: asyncio.Future[None] | None = None
        coming: list[asyncio.Future[AuthorizationCodeResult]] = [
            asyncio.ensure_future(self._redirect.wait_for_person(state))
        ]
        if self._browser:
            self._say(f"authorize `{self._server}` in the browser; if none opens, open this address:\n{url}")
            # Some browsers return only when they are closed.
            opening = asyncio.ensure_future(run_in_thread(lambda: _open_browser(url)))
        else:
            self._say(
                f"open this address in a browser, and authorize `{self._server}`:\n{url}\n"
                "if the browser then shows no page of callability, paste the address that it ended at, and press Enter:"
            )
            coming.append(asyncio.ensure_future(self._pasted(state)))
        try:
            done, _ = await asyncio.wait(coming, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        except ProviderRefused as refused:
            why = "the user declined" if refused.declined else "its provider refused"
            raise AuthorizationFailed(f"was not authorized: {why}") from None
        finally:
            for each in coming:
                each.cancel()
            if opening is not None:
                opening.cancel()

    async def _pasted(self, state: str) -> AuthorizationCodeResult:
        while line := await run_in_thread(sys.stdin.readline):
            given = parse_qs(urlsplit(line.strip()).query)
            if given.get("state") != [state]:
                self._say("that address belongs to no authorization that is under way; paste another one:")
                continue
            if "code" not in given:
                raise ProviderRefused(declined=given.get("error") == ["access_denied"])
            issuer = given.get("iss", [None])[0]
            return AuthorizationCodeResult(code=given["code"][0], state=state, iss=issuer)
        # Standard input has ended; the person may still come back by the redirect address.
        never: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        return await never


async def log_in(config: Config, server: str, say: Callable[[str], None], *, browser: bool) -> LoggedIn:
    """Connect a server, and have a person authorize it unless its stored login works.

    Of several processes that do so at the same time, one asks.
    """
    entry = config.catalog.get(server) or config.servers[server]
    if not may_log_in(entry):
        why = "it has an authorization in `headers`" if entry.url else "it runs on this machine"
        return LoggedIn(f"`{server}` needs no login: {why}")
    stored = LoginStore(config.path, in_keyring=config.tokens == "keyring").of(server)
    target = target_of(entry)
    if not isinstance(target, HttpTarget):
        return LoggedIn(await _failure_of(Upstream(server, target)))
    full = fill(entry, config.environment)
    try:
        redirect = await _listening(full.oauth.redirect_port if full.oauth else None, stored)
    except OSError:
        return LoggedIn(f"`{server}` cannot be authorized: `redirect_port` is in use")
    dialog = LoginDialog(server, redirect, say, browser=browser)
    authorization = Authorization(
        target.url,
        redirect.uri,
        dialog.ask,
        client_id=full.oauth.client_id if full.oauth else None,
        client_secret=full.oauth.client_secret if full.oauth else None,
        stored=stored,
    )
    upstream = Upstream(
        server,
        HttpTarget(target.url, target.headers, target.secrets, authorization, target.transport),
        open_seconds=open_seconds(config, entry),
        once_within=config.deadlines.dialog_seconds + 2 * open_seconds(config, entry),
    )
    try:
        failure = await _failure_of(upstream)
        if not failure and dialog.was_shown and authorization.unstored:
            failure = f"`{server}` was authorized, but its login cannot be stored: {authorization.unstored}"
        return LoggedIn(failure, len(upstream.tools), dialog.was_shown, bool(stored.login_id()))
    finally:
        await upstream.close()
        await redirect.close()


async def log_out(config: Config, server: str) -> bool:
    """Remove the stored login of a server, and return whether there was one.

    Raises:
        StoreUnavailable: it cannot be removed.
    """
    stored = LoginStore(config.path, in_keyring=config.tokens == "keyring").of(server)
    if not stored.login_id():
        return False
    try:
        # A process that renews it would write it again.
        async with stored.lock(LOGOUT_SECONDS):
            return await stored.remove()
    except LockHeld:
        raise StoreUnavailable("another process logs in or renews it; try again") from None


async def _failure_of(upstream: Upstream) -> str:
    upstream.start()
    try:
        await upstream.wait_until_open()
    except UpstreamError as error:
        return str(error)
    return ""


async def _listening(port: int | None, stored: StoredLogin) -> Redirect:
    """Listen at the port of the config, or where the client was registered before if that is free.

    Raises:
        OSError: the port of the config is not free.
    """
    if port is not None:
        return Redirect(port)
    login = await stored.read()
    earlier = urlsplit(login.redirect_uri).port if login is not None else None
    if earlier:
        with suppress(OSError):
            return Redirect(earlier)
    return Redirect(None)


def _open_browser(url: str) -> None:
    # The address is printed too.
    with suppress(webbrowser.Error):
        webbrowser.open(url)
