"""TLS that goes wrong, beside what Apache Kafka was recorded to do."""

from __future__ import annotations

import json

import rota

from .tls_failures import CASES, RECORDED, VERSIONS, Party, on_rota, played

# Kafka's TLS library has one alert for several reasons, that of rota names the reason. Clients treat all alike.
OTHER_ALERTS = {
    "the client has no certificate": ("SSLV3_ALERT_BAD_CERTIFICATE", "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
    "the client's certificate has expired": ("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "SSLV3_ALERT_CERTIFICATE_EXPIRED"),
    # Both CAs have the same name, so the signature is what is wrong.
    "the client's certificate is of another CA": ("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "TLSV1_ALERT_DECRYPT_ERROR"),
}
NO_TLS = {"the client has no TLS": ("alert record, 0250", "alert record, 0232")}
"""internal_error from Kafka, decode_error from rota."""


def explained() -> dict[str, tuple[str, str]]:
    """What Kafka and rota say where they differ."""
    alerts = {
        f"{name}, TLS {version}": (f"alert: {kafka}", f"alert: {ours}")
        for name, (kafka, ours) in OTHER_ALERTS.items()
        for version in VERSIONS
    }
    return alerts | NO_TLS


def test_a_client_sees_the_failures_that_it_sees_with_kafka() -> None:
    recorded = json.loads(RECORDED.read_text("utf-8"))
    party = Party(rota.Authority(), rota.Authority())
    with on_rota(party) as addresses:
        answers = played(party, addresses)
    assert len(answers) == len(CASES) * len(VERSIONS) + 2
    assert answers.keys() == recorded.keys()
    different = {name: (recorded[name], said) for name, said in answers.items() if said != recorded[name]}
    assert different == explained()
