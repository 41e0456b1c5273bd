"""A gateway of files that serves nobody: commands connect its servers, log in, and ask what a running one answers."""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult

from callability.gateway.config.approvals import Approvals
from callability.gateway.config.config import Config
from callability.gateway.config.model import CatalogEntry, ServerConfig
from callability.gateway.config.variables import fill
from callability.gateway.inventory import GatewayInventory, agent_message
from callability.gateway.loading import Loader, LoadOutcome, Loads
from callability.gateway.observability import FileStatus, Metrics
from callability.gateway.policy_client import PolicyClient
from callability.gateway.tools.decisions import Decisions, phrases
from callability.gateway.tools.dispatch import Gateway
from callability.gateway.upstream.authorization import Authorization, AuthorizationFailed, ProviderRefused, Redirect
from callability.gateway.upstream.failure import UpstreamError
from callability.gateway.upstream.http_client import revoke
from callability.gateway.upstream.listing import UpstreamTool
from callability.gateway.upstream.login_store import LockHeld, StoredLogin, StoreUnavailable, run_in_thread
from callability.gateway.upstream.target import HttpTarget, logged_in_target, may_log_in, target_of
from callability.gateway.upstream.upstream import FIRST_START_SECONDS, Upstream
from callability.v1.callability_service_pb2 import CheckToolsRequest


def open_seconds(config: Config, server: ServerConfig | CatalogEntry) -> float:
    """Return how many seconds a server has to connect.

    Without `open_seconds` in the config, it has as long as the first start of a process under a gateway: the person who
    waits can stop the command.
    """
    deadlines = config.deadlines.of(server)
    return deadlines.open_seconds if "open_seconds" in deadlines.model_fields_set else FIRST_START_SECONDS


def unstarted_upstreams(config: Config) -> dict[str, Upstream]:
    """Return an upstream for each server of a config; none is started."""
    return {
        name: Upstream(
            name,
            target_of(server, config.environment),
            open_seconds=open_seconds(config, server),
            names_only=server.quarantined,
        )
        for name, server in config.servers.items()
    }


async def snapshot(
    config: Config, approvals: Approvals, agent: str, report: Callable[[str, str], None], *, connecting: bool
) -> CheckToolsRequest:
    """Return the facts of every tool that an agent may see; an empty agent is a caller without a name.

    With `connecting` the enabled servers are connected at the same time, `report` is called with the outcome of each,
    and they are disconnected again. Without it, and for a server that cannot be connected, the tools are those that the
    files name.
    """
    upstreams = unstarted_upstreams(config)
    inventory = GatewayInventory(config, approvals, upstreams)
    if agent:
        inventory = inventory.limit_to(config.agents[agent].servers)
    opened = [upstreams[name] for name, server in inventory.servers.items() if server.enabled and connecting]
    try:
        await _open(opened, report)
        known = inventory.known_servers().values()
        sender = agent_message(agent, config.agents.get(agent))
        return CheckToolsRequest(agent=sender, servers=[each.facts.question() for each in known])
    finally:
        await asyncio.gather(*(upstream.close() for upstream in opened))


async def _open(upstreams: Iterable[Upstream], report: Callable[[str, str], None]) -> None:
    async def open_one(upstream: Upstream) -> None:
        upstream.start()
        with suppress(UpstreamError):
            await upstream.wait_until_open()
        report(upstream.name, upstream.failure or "")

    await asyncio.gather(*map(open_one, upstreams))


@dataclass(frozen=True, slots=True)
class Inspected:
    """What a server lists, by name, or a sentence on why it could not be connected."""

    tools: Mapping[str, UpstreamTool]
    failure: str = ""
    said: tuple[str, ...] = ()
    """The last lines that a server that could not be connected wrote on its standard error."""
    left_out: tuple[str, ...] = ()
    """What is wrong with each tool that it lists and that cannot be used."""


async def inspect_all(
    config: Config, servers: Collection[str], report: Callable[[str, Inspected], None]
) -> dict[str, Inspected]:
    """Connect servers at the same time, list their tools and disconnect them; report each as soon as it is done.

    The texts of a server in quarantine are kept too, for the person who decides about it (A.4).
    """

    async def inspect(server: str) -> tuple[str, Inspected]:
        found = await _inspect(config, server)
        report(server, found)
        return server, found

    done = dict(await asyncio.gather(*map(inspect, servers)))
    return {server: done[server] for server in servers}


async def _inspect(config: Config, server: str) -> Inspected:
    reached = config.catalog.get(server) or config.servers[server]
    stored = StoredLogin(config.path, server, in_keyring=config.tokens == "keyring")
    remedy = f": run {phrases(config.path, None).login(server)}"
    target = logged_in_target(reached, stored, remedy, config.environment)
    upstream = Upstream(server, target, open_seconds=open_seconds(config, reached))
    try:
        failure = await _failure_of(upstream)
    finally:
        # Only then its last lines have been read.
        await upstream.close()
    if failure:
        return Inspected({}, failure, upstream.said)
    tools: dict[str, UpstreamTool] = {}
    for tool in upstream.tools:
        # If a name is listed twice, the gateway takes the first.
        tools.setdefault(tool.name, tool)
    return Inspected(tools, left_out=upstream.left_out)


LOAD_SECONDS = 60.0
"""How long a server is tried; a command waits longer than a gateway, which tries again."""


@asynccontextmanager
async def unserved_gateway(
    config: Config,
    approvals: Approvals,
    given: Path | None,
    policy: PolicyClient,
    agent: str,
    connecting: Collection[str],
    report: Callable[[str, str], None],
) -> AsyncIterator[Gateway]:
    """Yield the gateway of an agent over files; `given` is the approvals file that the call names.

    Those of the servers `connecting` that are switched on, and that the agent may see, are connected and listed, and
    disconnected at the end; `report` is called with the outcome of each. Nothing is written.
    """
    upstreams = unstarted_upstreams(config)
    inventory = GatewayInventory(config, approvals, upstreams)
    if agent:
        inventory = inventory.limit_to(config.agents[agent].servers)
    opened = [upstreams[name] for name, it in inventory.servers.items() if it.enabled and name in connecting]
    try:
        loader = Loader(policy, seconds=LOAD_SECONDS)
        outcomes = await asyncio.gather(*(loader.load(each, retry_scheduled=True) for each in opened))
        for outcome in outcomes:
            report(outcome.server_id, outcome.error or "")
        yield Gateway(
            inventory,
            Decisions(policy, agent=agent, config=config.agents.get(agent)),
            phrases(config.path, given, filter(inventory.sees, config.catalog)),
            FileStatus(),
            Metrics(),
            agent,
            loads=Loads({outcome.server_id: _Ended(outcome) for outcome in outcomes}),
        )
    finally:
        await asyncio.gather(*(upstream.close() for upstream in opened))


class _Ended:
    """A load that has ended."""

    is_pending = False

    def __init__(self, outcome: LoadOutcome) -> None:
        self.outcome = outcome

    async def wait_until_known(self) -> None:
        """Return: the load has a result."""

    async def wait_until_classified(self) -> None:
        """Return: the result is classified."""


def refused_edits(approvals: Approvals) -> Mapping[str, str]:
    """Return what a gateway that starts with these files would say about one that it cannot read."""
    return FileStatus(approvals_readable=approvals.readable).messages()


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


@dataclass(frozen=True, slots=True)
class LoggedOut:
    """Whether there was a login, and why its provider did not revoke the token; "" if it did."""

    was_there: bool
    unrevoked: str = ""


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
            coming.append(asyncio.ensure_future(self._wait_for_address(state)))
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

    async def _wait_for_address(self, state: str) -> AuthorizationCodeResult:
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
    stored = StoredLogin(config.path, server, in_keyring=config.tokens == "keyring")
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


async def log_out(config: Config, server: str) -> LoggedOut:
    """Remove the stored login of a server, and have its provider revoke the token.

    Raises:
        StoreUnavailable: it cannot be removed; no token is revoked.
    """
    stored = StoredLogin(config.path, server, in_keyring=config.tokens == "keyring")
    if not stored.login_id():
        return LoggedOut(was_there=False)
    try:
        # A process that renews it would write it again.
        async with stored.lock(LOGOUT_SECONDS):
            login = await stored.read()
            was_there = await stored.remove()
    except LockHeld:
        raise StoreUnavailable("another process logs in or renews it; try again") from None
    return LoggedOut(was_there, await revoke(login) if login is not None else "the login cannot be read")


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
