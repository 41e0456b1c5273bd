"""The process of `callability serve`: what is checked before it begins, and how it serves until a signal."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import typer
import uvloop
from prometheus_client import CollectorRegistry

from callability.cli.options import METRICS_WHY, leave, refuse
from callability.cli.policy_service import certificate_files, refuse_certificate
from callability.cli.served_policy import Loaded
from callability.cli.terminal import final_exit_code
from callability.files.certificates import CertificateRefused
from callability.files.policy_origin import PolicyOrigin, origin_at
from callability.otel.traces import NoTraces, check_traces, start_traces
from callability.process.address import AddressRefused, check_listen
from callability.process.background import in_background, stop_signals
from callability.process.logs import fields
from callability.process.metrics import expose
from callability.records.recorder import RecordOptions
from callability.records.shadow import Shadow
from callability.records.writer import Destination, DestinationRefused
from callability.service.callers import CallersRefused
from callability.service.edits import Edits, EditSink, ServedEdits, shadow_edits
from callability.service.guard import raise_descriptor_limit
from callability.service.server import return_large_blocks
from callability.service.workers import SERVICE_NAME, Instance, InstanceOptions, LogOptions, Workers

_log = logging.getLogger("callability.cli.serve")


def serve(settings: Mapping[str, Any], origin: PolicyOrigin | None, loaded: Callable[[], Loaded]) -> None:
    """Serve a policy as settings say until a signal comes, or exit with the code of what is refused.

    `loaded` waits for the policy; `origin` is where it is read from, None if it is the shipped one.
    """
    return_large_blocks()
    raise_descriptor_limit()
    try:
        serving = _serving(settings, origin, loaded)
        uvloop.run(serving.run() if serving.workers == 1 else serving.supervise())
    except (AddressRefused, DestinationRefused, NoTraces) as error:
        leave(str(error), 2)
    except CertificateRefused as refused:
        refuse_certificate(refused)
    except CallersRefused as refused:
        refuse(refused.findings, "the callers are refused")


def _serving(settings: Mapping[str, Any], origin: PolicyOrigin | None, loaded: Callable[[], Loaded]) -> Serving:
    """Return what settings describe, once everything but the policy is checked.

    Raises:
        AddressRefused: an address may not or cannot be listened on.
        CertificateRefused: the certificate cannot be used.
        CallersRefused: the callers file has errors.
        DestinationRefused: records cannot go where they should.
        NoTraces: traces are asked for, and there can be none.
    """
    if settings["traces"]:
        check_traces()
    if (metrics := settings["metrics_address"]) is not None:
        check_listen(metrics, METRICS_WHY, any_host=settings["insecure_metrics"])
    options = InstanceOptions(
        settings["address"],
        certificate_files(*(settings[name] for name in ("tls_certificate", "tls_key", "tls_client_ca"))),
        settings["callers"].absolute() if settings["callers"] else None,
        settings["insecure_listen"],
        settings["socket_mode"],
        settings["max_concurrent_calls"],
        settings["max_connection_age"],
        settings["reuse_port"],
        LogOptions(settings["log_level"], settings["log_format"], settings["log_calls"]),
        settings["traces"],
        _records(settings),
        settings["shadow"] is not None,
    )
    if options.shadow and settings["workers"] > 1:
        leave("`--shadow` needs one worker, since each would check the candidate", 2)
    options.check(workers=settings["workers"])
    return Serving(loaded(), origin, options, settings["workers"], metrics, settings["shadow"])


def _records(settings: Mapping[str, Any]) -> RecordOptions | None:
    if settings["records"] is None:
        return None
    bounds = settings["records_mib"] * 1024 * 1024, settings["records_days"]
    return RecordOptions(Destination(str(settings["records"]), *bounds), settings["record_level"])


@dataclass(frozen=True, slots=True)
class Serving:
    """What is served, and where; the shipped policy is not followed."""

    loaded: Loaded
    origin: PolicyOrigin | None
    options: InstanceOptions
    workers: int
    metrics_address: str | None
    candidate: Path | None = None

    async def run(self) -> None:
        """Serve in this process until a signal comes."""
        stopping = _stop_signals()
        hand_over_traces = start_traces(SERVICE_NAME) if self.options.traces else lambda: None
        instance = Instance(self.options, self.loaded.checked)
        edits = self._edits(ServedEdits(instance.served, instance.metrics))
        with expose(instance.registry, self.metrics_address):
            async with instance.running():
                if not self._report_start(instance.address):
                    stopping.set()
                followed = (edits, self._candidate(instance.shadow))
                async with in_background(*(each.follow() for each in followed if each is not None)):
                    await stopping.wait()
        _log.info("stopped")
        hand_over_traces()
        _end()

    async def supervise(self) -> None:
        """Serve in other processes until a signal comes."""
        stopping = _stop_signals()
        workers = Workers(self.options, self.workers, self.loaded.checked)
        registry = CollectorRegistry()
        registry.register(workers)
        with expose(registry, self.metrics_address):
            async with workers.run():
                if not self._report_start(workers.address):
                    stopping.set()
                edits = self._edits(workers)
                async with in_background(*([edits.follow()] if edits is not None else [])):
                    await stopping.wait()
        _log.info("stopped")
        _end()

    def _edits(self, sink: EditSink) -> Edits | None:
        return Edits(sink, self.origin, self.loaded.source.digest, self.loaded.checked) if self.origin else None

    def _candidate(self, shadow: Shadow | None) -> Edits | None:
        return shadow_edits(shadow, origin_at(self.candidate)) if shadow is not None and self.candidate else None

    def _report_start(self, address: str) -> bool:
        """Say where the service listens, and return whether that could be said."""
        revision = self.loaded.source.revision
        words = "policy %s, proved by %s, is served on %s"
        _log.info(words, revision, self.loaded.checked.engine, address, extra=fields(revision=revision))
        try:
            typer.echo(f"listening on {address}")
        except OSError:
            # The exit code says it, once the service has ended.
            return False
        return True


def _stop_signals() -> asyncio.Event:
    stopping = asyncio.Event()
    for number in stop_signals():
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping


def _end() -> NoReturn:
    """End the process at once: closing the event loop would cancel the calls that come in meanwhile."""
    logging.shutdown()
    os._exit(final_exit_code(0))
