"""A server in the foreground, from what was asked for to the signal that ends it. Nothing here needs Typer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rota
from rota.addresses import HTTPS, WILDCARDS
from rota.config.sources import Resolved
from rota.exits import FAILED, complain, fail
from rota.reporting import Report
from rota.serve.ending import Ending, Printer
from rota.serve.start import LISTENERS, Start, refusals
from rota.server import Server
from rota.trace import Sink
from rota.why.words import counted

if TYPE_CHECKING:
    from rota.http import Listener
    from rota.http.listener import Opening
    from rota.server import Endpoint

IN_MEMORY = "in memory: nothing survives a restart"
SHARED = "groups in the engine, topics in memory"
EVERYWHERE = (
    "{listen} is {host} and --advertise is not given: each client is sent to the address it connected to. "
    "Behind NAT or a port mapping, give --advertise HOST:PORT"
)


def started(start: Start, trace: Sink | None) -> Server:
    """A running server, or the reason why not as one line on stderr."""
    with refusals(start.blame):
        try:
            return Server(trace=trace, **start.arguments())
        except OSError as error:
            start.check_writable(error)
            raise


def controlled(server: Server, shown: Opening | None) -> Listener | None:
    """The listener of --control, or the reason why not as one line on stderr."""
    if shown is None:
        return None
    from rota.control.serving import serve_on

    try:
        return serve_on(server, shown)
    except OSError as error:
        server.stop()
        fail(FAILED, str(error))


def kept(server: Server, where: Path | None, how: str) -> str:
    """Where the data is, for the first line."""
    report = server.start_report()
    if report is None:
        return IN_MEMORY if server.cluster() is None else SHARED
    mode = "read only" if report.is_read_only else how
    if server.cluster() is not None:
        return f"groups in the engine, messages in {where}, {mode}"
    loaded = f"{counted(report.groups, 'group')} and {counted(report.offsets, 'offset')}"
    return f"{where}, {mode}: {loaded} loaded in {report.took_ms} ms"


def web_url(address: str) -> str:
    """An address of --http or --control as a browser takes it."""
    return f"{address}/" if address.startswith(HTTPS) else f"http://{address}/"


def say(line: str) -> None:
    """A line on stdout, at once."""
    print(line, flush=True)


def listed(endpoints: dict[str, Endpoint]) -> dict[str, dict[str, str]]:
    """The listeners for the first line in JSON."""
    return {
        name: {"listen": endpoint.bootstrap_servers, "security_protocol": endpoint.security_protocol}
        for name, endpoint in endpoints.items()
    }


def as_given(endpoint: Endpoint, address: str) -> str:
    """HOST:PORT of every node of a listener, with the host of the address that was given.

    The server knows its nodes as this machine reaches them: 127.0.0.1 where it listens on all addresses.
    """
    host = address.rpartition(":")[0] or "0.0.0.0"
    if host not in WILDCARDS:
        return endpoint.bootstrap_servers
    return ",".join(f"{host}:{one.rpartition(':')[2]}" for one in endpoint.nodes.values())


def say_ready(server: Server, start: Start, control: str | None, *, as_json: bool) -> None:
    """The first line, and the advertised address if it differs."""
    advertise, where = start.advertise, kept(server, start.data, start.told["durability"])
    if as_json:
        import json

        ready: dict[str, object] = {"event": "ready", "version": rota.__version__, "listen": server.bootstrap_servers}
        ready |= {"tls": True} if server.has_tls else {}
        ready |= {"sasl": True} if server.has_sasl else {}
        several = server.listeners()
        ready |= {"listeners": listed(several)} if len(several) > 1 else {}
        ready |= {"acls": len(server.acls())} if server.has_acls else {}
        report = server.start_report()
        found = {} if report is None else {"data": str(start.data), **report._asdict()}
        shown = {} if server.http_address is None else {"http": server.http_address}
        say(json.dumps(ready | found | shown | ({} if control is None else {"control": control})))
    else:
        protection = (("TLS", server.has_tls), ("SASL", server.has_sasl), ("ACLs", server.has_acls))
        names = [name for name, has in protection if has]
        enumerated = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
        with_tls = f" with {enumerated}" if names else ""
        endpoints = list(server.listeners().values())
        first, *others = map(as_given, endpoints, start.listened_on)
        say(f"rota {rota.__version__} ready on {first}{with_tls} ({where})")
        for endpoint, listened in zip(endpoints[1:], others, strict=True):
            say(f"also on {listened}: {endpoint.name} ({endpoint.security_protocol})")
    if advertise is not None and not as_json:
        host, _, port = advertise.rpartition(":")
        told = ", ".join(f"{host}:{int(port) + at}" for at in range(len(server.nodes())))
        say(f"advertised to clients: {told}")
    if server.http_address is not None and not as_json:
        say(f"its groups are shown on {web_url(server.http_address)}")
    if control is not None and not as_json:
        say(f"tests control it on {web_url(control)}")


def serve(told: Resolved, *, as_json: bool) -> None:
    """Run a server until a signal ends it."""
    start = Start.of(told)
    shown = start.control()
    with refusals(told.blame):
        start.check_home()
    report = Report(told["log_format"])
    ending = Ending(report)
    printer = Printer(ending, as_json=as_json) if told["trace"] else None
    server = started(start, None if printer is None else printer.sink)
    ending.reload_on_hangup(server)
    control = controlled(server, shown)
    host = start.listen.rpartition("://")[2].rpartition(":")[0]
    if start.advertise is None and not told.has(LISTENERS) and host in WILDCARDS:
        complain(EVERYWHERE.format(listen=told.called("listen"), host=host))
    unnamed = server.unnamed_host()
    if unnamed is not None:
        complain(f"clients that verify host names will refuse the certificate: it does not name `{unnamed}`")
    if told["allow_unsecured_tokens"]:
        complain("tokens without a signature are accepted, so every client can take any name: do this in tests only")
    for listener in (server._http, control):
        if listener is not None and listener.sends_secrets:
            complain(f"tokens for {listener.address} are sent without encryption: give https:// and --tls-cert")
    found = server.start_report()
    for line in () if found is None else found.lines:
        complain(line)
    if ending.joined(server):
        say_ready(server, start, None if control is None else control.address, as_json=as_json)
        report.event("ready", version=rota.__version__, listen=server.bootstrap_servers, data=told["data"])
    if printer is not None:
        printer.begin()
    ending.follow(server)
    if control is not None:
        control.close()
