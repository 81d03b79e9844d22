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
