"""Metrics of the certificates of a server."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from callability.certificates import WatchedCertificates


class CertificateMetrics:
    """When the certificate expires, and how often it was replaced."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._expires = Gauge(
            "callability_certificate_expires_timestamp_seconds",
            "When the certificate in effect expires, in seconds since 1970; 0 without TLS.",
            registry=registry,
        )
        self._edits = Counter(
            "callability_certificate_edits",
            "Replacements of the certificate files, by whether they were applied.",
            ("taken_over",),
            registry=registry,
        )
        for taken_over in ("true", "false"):
            self._edits.labels(taken_over)

    def follow(self, certificates: WatchedCertificates) -> None:
        """Record the certificates, and each replacement of them."""
        self._expires.set(certificates.current.not_after.timestamp())

        def changed(in_effect: bool) -> None:
            self._edits.labels(str(in_effect).lower()).inc()
            self._expires.set(certificates.current.not_after.timestamp())

        certificates.changed = changed
