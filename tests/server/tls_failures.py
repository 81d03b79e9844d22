"""What a client sees of a TLS listener when something is wrong, on rota and on Apache Kafka.

`python -m tests.server.tls_failures` starts a Kafka 4.4 with the same certificates and writes tls-kafka-4.4.0.json
(JDK, Maven).
"""

from __future__ import annotations

import json
import socket
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import rota
from harness.raw import API_VERSIONS, frame
from rota.security import Certificate, ClientAuth

RECORDED = Path(__file__).parent / "tls-kafka-4.4.0.json"
OTHER_HOST = "kafka.example"
WITHIN_S = 30
LISTENERS = ("GOOD", "MUTUAL", "EXPIRED", "ELSEWHERE")
"""The certificate of each but ELSEWHERE names this machine; MUTUAL requires certificates of clients."""
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class Party(NamedTuple):
    """Certificates: of the servers, and those that clients send."""

    authority: rota.Authority
    stranger: rota.Authority

    def tls(self, listener: str) -> rota.Tls:
        """The certificate of a listener."""
        hosts = (OTHER_HOST,) if listener == "ELSEWHERE" else ()
        client_auth: ClientAuth = "required" if listener == "MUTUAL" else "none"
        return self.authority.tls(*hosts, client_auth=client_auth, expired=listener == "EXPIRED")

    def certificate(self, name: str) -> Certificate | None:
        """What a client sends."""
        if name == "none":
            return None
        issuer = self.stranger if name == "of another CA" else self.authority
        return issuer.issue(name="ana", expired=name == "expired")


class Case(NamedTuple):
    """A client: which listener it asks, whom it trusts, and the certificate it has."""

    listener: str
    trusts: str = "authority"
    certificate: str = "none"


CASES = {
    "nothing is wrong": Case("GOOD"),
    "the CA is another": Case("GOOD", trusts="stranger"),
    "the host is another": Case("ELSEWHERE"),
    "the server's certificate has expired": Case("EXPIRED"),
    "the client's certificate is right": Case("MUTUAL", certificate="own"),
    "the client has no certificate": Case("MUTUAL"),
    "the client's certificate has expired": Case("MUTUAL", certificate="expired"),
    "the client's certificate is of another CA": Case("MUTUAL", certificate="of another CA"),
}


def context_of(party: Party, case: Case, version: str) -> ssl.SSLContext:
    """The client's side."""
    context = ssl.create_default_context(cadata=getattr(party, case.trusts).certificate)
    context.minimum_version = context.maximum_version = VERSIONS[version]
    sent = party.certificate(case.certificate)
    if sent is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(sent.certificate + sent.key)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def outcome(address: tuple[str, int], context: ssl.SSLContext) -> str:
    """What the client sees: an answer, the alert of the server, its own refusal, or a closed connection."""
    try:
        with (
            socket.create_connection(address, WITHIN_S) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            # With TLS 1.3 the server looks at the client's certificate after the client's handshake.
            secured.sendall(frame(API_VERSIONS, 0))
            return "answered" if secured.recv(4) else "closed"
    except ssl.SSLCertVerificationError as error:
        return f"client refuses: {error.verify_message}"
    except ssl.SSLError as error:
        return f"alert: {error.reason}"
    except ConnectionError:
        return "closed"


def in_plaintext(address: tuple[str, int]) -> str:
    """What a client without TLS sees."""
    try:
        with socket.create_connection(address, WITHIN_S) as plain:
            plain.sendall(frame(API_VERSIONS, 0))
            got = plain.recv(64)
    except ConnectionError:
        return "closed"
    return f"alert record, {got[5:7].hex()}" if got[:1] == b"\x15" else f"bytes {got.hex()}" if got else "closed"


def played(party: Party, addresses: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    """All cases at the listeners with these addresses, and one at PLAINTEXT."""
    answers = {
        f"{name}, TLS {version}": outcome(addresses[case.listener], context_of(party, case, version))
        for name, case in CASES.items()
        for version in VERSIONS
    }
    answers["the client has no TLS"] = in_plaintext(addresses["GOOD"])
    answers["the listener has no TLS"] = outcome(
        addresses["PLAINTEXT"], context_of(party, CASES["nothing is wrong"], "1.3")
    )
    return answers


@contextmanager
def on_rota(party: Party) -> Iterator[dict[str, tuple[str, int]]]:
    """A server for each listener: the listeners of one have the same certificate."""
    with ExitStack() as stack:
        servers = {name: stack.enter_context(rota.Server(tls=party.tls(name))) for name in LISTENERS}
        servers["PLAINTEXT"] = stack.enter_context(rota.Server())
        yield {name: (server.host, server.port) for name, server in servers.items()}


@contextmanager
def on_kafka(party: Party) -> Iterator[dict[str, tuple[str, int]]]:
    """A broker with all listeners."""
    from benches import brokers
    from harness.brokers import free_port

    ports = {name: free_port() for name in LISTENERS}

    def settings(port: int) -> dict[str, str]:
        listeners = ",".join(
            [f"PLAINTEXT://127.0.0.1:{port}", *(f"{name}://127.0.0.1:{at}" for name, at in ports.items())]
        )
        protocols = ",".join(f"{name}:SSL" for name in LISTENERS)
        chosen = {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{port + 1}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{protocols}",
        }
        for name in LISTENERS:
            tls, prefix = party.tls(name), f"listener.name.{name.lower()}.ssl"
            keystore, truststore = Path(folder, f"{name}.pem"), Path(folder, "ca.pem")
            keystore.write_text(tls.key + tls.cert, "ascii")
            truststore.write_text(party.authority.certificate, "ascii")
            chosen |= {
                f"{prefix}.keystore.type": "PEM",
                f"{prefix}.keystore.location": str(keystore),
                f"{prefix}.truststore.type": "PEM",
                f"{prefix}.truststore.location": str(truststore),
                f"{prefix}.client.auth": tls.client_auth,
            }
        return chosen

    with tempfile.TemporaryDirectory(prefix="rota-tls-") as folder, brokers.kafka(None, settings) as served:
        host, _, port = served.address.partition(":")
        yield {name: (host, at) for name, at in ports.items()} | {"PLAINTEXT": (host, int(port))}


def main() -> None:
    """Record Kafka."""
    party = Party(rota.Authority(), rota.Authority())
    with on_kafka(party) as addresses:
        answers = played(party, addresses)
    RECORDED.write_text(json.dumps(answers, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
