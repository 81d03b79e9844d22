"""The help of `rota serve`: its options by what they are about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand

from rota.cluster.access import ACCESS, PEER_ACCESS

SECTIONS = {
    "TLS and users": (
        *("tls_cert", "tls_key", "tls_client_ca", "users", "sasl", "acls"),
        *("allow_plaintext_passwords", "allow_unsecured_tokens", "jwks_ca"),
    ),
    "Data and journal": (
        *("data", "durability", "take_over"),
        *("journal", "journal_dir", "journal_retention_bytes", "journal_retention_ms"),
    ),
    "Several servers": ("engine", *ACCESS, "node_id", "ttl_ms", "reads", *PEER_ACCESS),
    "HTTP and test controls": (
        *("http", "http_token", "allow_anonymous_http"),
        *("control", "control_token", "virtual_clock"),
    ),
}
"""Names of options by heading. All others are first, below "Options"."""


def write_sections(formatter: Any, context: Any, parameters: Iterable[Any], first: str) -> None:
    """Write the options in their sections; `first` is the heading of those that are in none."""
    heading_of = {name: heading for heading, names in SECTIONS.items() for name in names}
    rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in (first, *SECTIONS)}
    for parameter in parameters:
        row = parameter.get_help_record(context)
        if row is not None:
            rows[heading_of.get(parameter.name, first)].append(row)
    for heading, found in rows.items():
        if found:
            with formatter.section(heading):
                formatter.write_dl(found)


class ServeCommand(TyperCommand):
    """A command whose help has its options in sections."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """See `write_sections`."""
        write_sections(formatter, ctx, self.get_params(ctx), "Options")
