"""The options with which a command reaches the engine of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="URL",
        help="What servers share: etcd://HOST:PORT,.../PREFIX (etcds:// has TLS) or postgres://HOST:PORT,.../DATABASE.",
    ),
]
EngineCa = Annotated[
    Path | None,
    typer.Option(
        "--engine-ca",
        metavar="FILE",
        help="CAs of the engine's certificates, PEM: with etcds://, or for TLS to postgres://.",
    ),
]
EngineCert = Annotated[
    Path | None,
    typer.Option(
        "--engine-cert", metavar="FILE", help="Own certificate for the engine and its chain, PEM, if it asks for one."
    ),
]
EngineKey = Annotated[
    Path | None,
    typer.Option("--engine-key", metavar="FILE", help="Private key of --engine-cert, PEM (default: in the same file)."),
]
EngineUser = Annotated[str | None, typer.Option("--engine-user", metavar="NAME", help="User of the engine.")]
EnginePasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--engine-password-file", metavar="FILE", help="The password of --engine-user is the first line of this file."
    ),
]
PeerCa = Annotated[
    Path | None,
    typer.Option(
        "--peer-ca",
        metavar="FILE",
        help="With --engine: CAs of the other servers' certificates, PEM (default: those of --tls-client-ca).",
    ),
]
PeerCert = Annotated[
    Path | None,
    typer.Option(
        "--peer-cert",
        metavar="FILE",
        help="Own certificate for the other servers and its chain, PEM, if their listener asks for one"
        " (default: --tls-cert).",
    ),
]
PeerKey = Annotated[
    Path | None,
    typer.Option("--peer-key", metavar="FILE", help="Private key of --peer-cert, PEM (default: in the same file)."),
]
PeerUser = Annotated[
    str | None,
    typer.Option("--peer-user", metavar="NAME", help="User with which this server authenticates at the other ones."),
]
PeerPasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--peer-password-file", metavar="FILE", help="The password of --peer-user is the first line of this file."
    ),
]
