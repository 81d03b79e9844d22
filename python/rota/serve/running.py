"""A server in the foreground, from what was asked for to the signal that ends it. Nothing here needs Typer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import rota
from rota import _rota
from rota.addresses import HTTPS, address, listen_address, web_address
from rota.clock import VirtualClock
from rota.cluster.access import ACCESS, PEER_ACCESS, access_of, peer_access_of
from rota.config.sources import DEFAULT, Resolved
from rota.exits import FAILED, MISUSED, complain, fail
from rota.reporting import Report
from rota.serve.ending import Ending, Printer
from rota.server import JOURNAL_RETENTION_BYTES, JOURNAL_RETENTION_MS, KEYS_URL, LISTEN, Server
from rota.trace import Sink
from rota.why.words import counted

if TYPE_CHECKING:
    from rota.http import Listener
    from rota.security import Tls
    from rota.server import Endpoint

IN_MEMORY = "in memory: nothing survives a restart"
SHARED = "groups in the engine, topics in memory"
WILDCARDS = ("0.0.0.0", "[::]")
LISTENERS = "listeners"
EVERYWHERE = (
    "it listens on all addresses, and sends each client to the address at which that client connected; "
    "if clients cannot use that, as behind a port mapping, give --advertise HOST:PORT"
)


def addresses(told: Resolved) -> tuple[str, str | None]:
    """The listen address, and the address advertised to clients."""
    advertise = told["advertise"]
    if told.has(LISTENERS):
        if told.options["listen"].source != DEFAULT:
            fail(MISUSED, f"{told.called('listen')} and the setting `listeners` are both given: give one of them")
        return LISTEN, advertise
    return (
        listen_address(told.called("listen"), told["listen"]),
        None if advertise is None else address(told.called("advertise"), advertise, 1),
    )


def tls_of(told: Resolved) -> Tls | None:
    """The certificates of --tls-cert and its companions; None without them."""
    cert, key, client_ca = told["tls_cert"], told["tls_key"], told["tls_client_ca"]
    if cert is None:
        for name in ("tls_key", "tls_client_ca"):
            if told[name] is not None:
                fail(MISUSED, f"{told.called(name)} needs --tls-cert: give the server's certificate, too")
        return None
    from rota.security import Tls

    tls = Tls(cert, key or cert, client_ca)
    tls.is_shared = (told["control"] or "").startswith(HTTPS)
    return tls


def http_of(told: Resolved) -> dict[str, Any]:
    """What `rota.Server` takes for --http and its companions."""
    where, tokens = told["http"], [told[name] for name in ("http_token", "control_token") if told[name] is not None]
    if where is None:
        for name in ("http_token", "allow_anonymous_http"):
            if told[name]:
                fail(MISUSED, f"{told.called(name)} needs --http: give the address to serve, too")
        return {}
    return {
        "http": web_address(told.called("http"), where, 0),
        # Who may control may read.
        "http_token": tokens if told["http_token"] is not None else [],
        "allow_anonymous_http": told["allow_anonymous_http"],
    }


def users_of(told: Resolved) -> dict[str, Any]:
    """What `rota.Server` takes for --users and its companions."""
    users, sasl = told["users"], told["sasl"]
    mechanisms = None if sasl is None else [name.strip() for name in sasl.split(",")]
    tokens = tokens_of(told, mechanisms or [])
    if users is None:
        if mechanisms == ["OAUTHBEARER"]:
            return {"sasl": mechanisms} | tokens
        for name in ("sasl", "allow_plaintext_passwords"):
            if told[name]:
                fail(MISUSED, f"{told.called(name)} needs --users: give a file that `rota user add` wrote, too")
        return {}
    try:
        # Whether it can be read is clear before anything else starts.
        Path(users).read_bytes()
    except OSError as error:
        fail(MISUSED, f"{told.called('users')} is `{users}`: {error.strerror}; `rota user add` writes such a file")
    passwords = {"allow_plaintext_passwords": told["allow_plaintext_passwords"]}
    return {"users": users, "sasl": mechanisms} | passwords | tokens


def tokens_of(told: Resolved, mechanisms: list[str]) -> dict[str, Any]:
    """What `rota.Server` takes for the tokens of OAUTHBEARER."""
    unsecured, ca = told["allow_unsecured_tokens"], told["jwks_ca"]
    if "OAUTHBEARER" not in mechanisms:
        for name in ("allow_unsecured_tokens", "jwks_ca"):
            if told[name]:
                fail(MISUSED, f"{told.called(name)} is for tokens: give --sasl OAUTHBEARER, too")
        return {}
    if not unsecured and not told.written().get(KEYS_URL):
        fail(
            MISUSED,
            f"{told.called('sasl')} has OAUTHBEARER, which needs the keys of the issuer of tokens: give "
            f"--set {KEYS_URL}=..., or for tests --allow-unsecured-tokens",
        )
    if ca is not None and not Path(ca).is_file():
        fail(MISUSED, f"{told.called('jwks_ca')} is `{ca}`: there is no such file; give CAs as PEM")
    return {"allow_unsecured_tokens": unsecured, "jwks_ca": ca}


def acls_of(told: Resolved) -> dict[str, Any]:
    """What `rota.Server` takes for --acls."""
    acls = told["acls"]
    if acls is None:
        return {}
    called = told.called("acls")
    try:
        return {"acls": _rota.acl_lines(Path(acls).read_text("utf-8"))}
    except OSError as error:
        fail(MISUSED, f"{called} is `{acls}`: {error.strerror}; docs/security.md has the lines of such a file")
    except ValueError as error:
        fail(MISUSED, f"{called} is `{acls}`: {error}")


def engine_of(told: Resolved) -> dict[str, Any]:
    """What `rota.Server` takes for --engine and its companions."""
    engine, node_id = told["engine"], told["node_id"]
    if engine is None:
        for name in ("node_id", *ACCESS, *PEER_ACCESS):
            if told[name] is not None:
                fail(MISUSED, f"{told.called(name)} needs --engine: give the URL of an etcd or a PostgreSQL, too")
        if told["reads"] != "session":
            fail(MISUSED, f"{told.called('reads')} needs --engine: a server that is alone asks no other")
        return {}
    if node_id is None:
        fail(MISUSED, f"{told.called('engine')} needs --node-id: give each server of the cluster a number of its own")
    for name in ("take_over", "control", "virtual_clock"):
        if told[name]:
            fail(MISUSED, f"{told.called(name)} and --engine are both given: a server of a cluster has no such thing")
    of_node = {"node_id": node_id, "ttl_ms": told["ttl_ms"], "reads": told["reads"]}
    access = {"engine_access": access_of(told), "peer_access": peer_access_of(told)}
    return {"engine": engine, **of_node, **access}


def check_directories(told: Resolved) -> None:
    """End the command, before anything is written, if --data or --journal-dir cannot be a directory."""
    for name in ("data", "journal_dir"):
        value = told[name]
        if value is None:
            continue
        path, given = Path(value), f"{told.called(name)} is `{value}`"
        if path.exists() and not path.is_dir():
            fail(MISUSED, f"{given}: it is a file, give a directory")
        if not path.absolute().parent.is_dir():
            fail(MISUSED, f"{given}: there is no directory `{path.parent}`, create that first")


class Data(NamedTuple):
    """Where a server keeps its data, and how."""

    where: Path | None
    how: Literal["fsync", "os"] = "fsync"
    take_over: bool = False
    journal: bool | Path = False
    journal_retention_bytes: int = JOURNAL_RETENTION_BYTES
    journal_retention_ms: int = JOURNAL_RETENTION_MS

    @staticmethod
    def of(told: Resolved) -> Data:
        """The data directory of these settings."""
        data, journal_dir = told["data"], told["journal_dir"]
        return Data(
            None if data is None else Path(data),
            told["durability"],
            told["take_over"],
            told["journal"] if journal_dir is None else Path(journal_dir),
            told["journal_retention_bytes"],
            told["journal_retention_ms"],
        )


def started(
    listen: str,
    advertise: str | None,
    nodes: int,
    settings: dict[str, str],
    trace: Sink | None,
    data: Data | None,
    is_virtual: bool = False,
    blame: Callable[[str], str] = str,
    tls: Tls | None = None,
    access: dict[str, Any] | None = None,
) -> Server:
    """A running server, or the reason why not as one line on stderr. `blame` says where a setting came from."""
    data = data or Data(None)
    if data.journal is True and data.where is None:
        fail(MISUSED, "--journal needs a directory: give --data DIR, or --journal-dir DIR")
    try:
        return Server(
            listen,
            advertise=advertise,
            nodes=nodes,
            settings=settings,
            trace=trace,
            data=data.where,
            durability=data.how,
            take_over=data.take_over,
            journal=data.journal,
            journal_retention_bytes=data.journal_retention_bytes,
            journal_retention_ms=data.journal_retention_ms,
            clock=VirtualClock() if is_virtual else None,
            tls=tls,
            **(access or {}),
        )
    except rota.ConfigError as error:
        said = blame(str(error))
        fail(MISUSED, said if "`rota settings`" in said else f"{said}; `rota settings` lists the settings")
    except ValueError as error:
        fail(MISUSED, blame(str(error)))
    except (rota.RotaError, OSError) as error:
        fail(FAILED, str(error))


def controlled(server: Server, told: Resolved, where: str | None) -> Listener | None:
    """The listener of --control, or the reason why not as one line on stderr."""
    if where is None:
        return None
    from rota import control

    try:
        return control.serve(server, where, told["control_token"])
    except ValueError as error:
        server.stop()
        fail(MISUSED, f"{told.called('control')}: {error}")
    except OSError as error:
        server.stop()
        fail(FAILED, str(error))


def kept(server: Server, where: Path | None, how: str) -> str:
    """Where the data is, for the first line; what the start found goes to stderr."""
    report = server.start_report()
    if report is None:
        return IN_MEMORY if server.cluster() is None else SHARED
    for line in report.lines:
        complain(line)
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


def say_ready(server: Server, data: Data, advertise: str | None, control: str | None, *, as_json: bool) -> None:
    """The first line, and the advertised address if it differs."""
    where = kept(server, data.where, data.how)
    if as_json:
        import json

        ready: dict[str, object] = {"event": "ready", "version": rota.__version__, "listen": server.bootstrap_servers}
        ready |= {"tls": True} if server.has_tls else {}
        ready |= {"sasl": True} if server.has_sasl else {}
        several = server.listeners()
        ready |= {"listeners": listed(several)} if len(several) > 1 else {}
        ready |= {"acls": len(server.acls())} if server.has_acls else {}
        report = server.start_report()
        found = {} if report is None else {"data": str(data.where), **report._asdict()}
        shown = {} if server.http_address is None else {"http": server.http_address}
        say(json.dumps(ready | found | shown | ({} if control is None else {"control": control})))
    else:
        protection = (("TLS", server.has_tls), ("SASL", server.has_sasl), ("ACLs", server.has_acls))
        names = [name for name, has in protection if has]
        enumerated = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
        with_tls = f" with {enumerated}" if names else ""
        say(f"rota {rota.__version__} ready on {server.bootstrap_servers}{with_tls} ({where})")
        for endpoint in list(server.listeners().values())[1:]:
            say(f"also on {endpoint.bootstrap_servers}: {endpoint.name} ({endpoint.security_protocol})")
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
    check_directories(told)
    report = Report(told["log_format"])
    ending = Ending(report)
    printer = Printer(ending, as_json=as_json) if told["trace"] else None
    kept_in, (listen, advertise) = Data.of(told), addresses(told)
    if told["virtual_clock"] and told["control"] is None:
        fail(MISUSED, f"{told.called('virtual_clock')} needs --control: nothing else could move the clock")
    controlled_on = None if told["control"] is None else web_address(told.called("control"), told["control"], 0)
    server = started(
        listen,
        advertise,
        told["nodes"],
        told.written(),
        None if printer is None else printer.sink,
        kept_in,
        told["virtual_clock"],
        told.blame,
        tls_of(told),
        users_of(told) | acls_of(told) | http_of(told) | engine_of(told),
    )
    ending.reload_on_hangup(server)
    control = controlled(server, told, controlled_on)
    host = listen.rpartition("://")[2].rpartition(":")[0]
    if advertise is None and not told.has(LISTENERS) and host in WILDCARDS:
        complain(EVERYWHERE)
    unnamed = server.unnamed_host()
    if unnamed is not None:
        complain(f"clients that verify host names will refuse the certificate: it does not name `{unnamed}`")
    if told["allow_unsecured_tokens"]:
        complain("tokens without a signature are accepted, so every client can take any name: do this in tests only")
    for listener in (server._http, control):
        if listener is not None and listener.sends_secrets:
            complain(f"tokens for {listener.address} are sent without encryption: give https:// and --tls-cert")
    say_ready(server, kept_in, advertise, None if control is None else control.address, as_json=as_json)
    report.event("ready", version=rota.__version__, listen=server.bootstrap_servers, data=told["data"])
    if printer is not None:
        printer.begin()
    ending.follow(server)
    if control is not None:
        control.close()
