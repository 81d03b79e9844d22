"""What `rota serve` starts a server with, from options that were checked, and `rota config show` checks as it does."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import rota
from rota import _rota
from rota.addresses import HTTPS, address, check_reachable, listen_address, web_address
from rota.clock import VirtualClock
from rota.cluster.access import ACCESS, ATTEMPT_MS, PEER_ACCESS, access_of, check_scheme, peer_access_of
from rota.config.sources import DEFAULT, Resolved
from rota.exits import FAILED, MISUSED, UNREACHABLE, fail
from rota.serve.apart import Wanted, check_apart
from rota.server import KEYS_URL
from rota.server_arguments import LISTEN, addresses_in

if TYPE_CHECKING:
    from rota.http.listener import Opening
    from rota.security import Tls

LISTENERS = "listeners"
TLS_FILES = ("tls_cert", "tls_key", "tls_client_ca")
PORT_MAX = 65_535
UNMADE = {
    errno.EACCES: "make it for this user, or give another directory",
    errno.ENOSPC: "free space on that disk, or give another directory",
}
"""What to do about a directory that cannot be made, by the system's error."""


def addresses(told: Resolved) -> tuple[str, str | None]:
    """The listen address, and the address advertised to clients."""
    advertise = told["advertise"]
    if told.has(LISTENERS):
        if told.options["listen"].source != DEFAULT:
            fail(MISUSED, f"{told.called('listen')} and the setting `listeners` are both given: give one of them")
        return LISTEN, advertise
    listen = listen_address(told.called("listen"), told["listen"])
    return listen, None if advertise is None else advertised(told.called("advertise"), advertise)


def advertised(called: str, text: str) -> str:
    """The address of --advertise; ends the command if no client can connect to it."""
    found = address(called, text, 1)
    try:
        check_reachable(found)
    except ValueError as error:
        fail(MISUSED, f"{called} is `{text}`: {error}")
    return found


def listened_on(told: Resolved, listen: str) -> list[str]:
    """HOST:PORT of every listener of Kafka's protocol, as it was given."""
    if not told.has(LISTENERS):
        return [listen.rpartition("://")[2]]
    return addresses_in({LISTENERS: told.written()[LISTENERS]})


def ports_of_clients(told: Resolved, listen: str) -> list[Wanted]:
    """The ports of every listener of Kafka's protocol."""
    nodes = told["nodes"]
    if not told.has(LISTENERS):
        return [Wanted.of(f"{told.called('listen')} is `{told['listen']}`", listen, nodes)]
    return [Wanted.of(f"`{LISTENERS}` has `{address}`", address, nodes) for address in listened_on(told, listen)]


def tls_of(told: Resolved) -> Tls | None:
    """The certificates of --tls-cert and its companions; None without them."""
    cert, key, client_ca = told["tls_cert"], told["tls_key"], told["tls_client_ca"]
    if cert is None:
        for name in ("tls_key", "tls_client_ca"):
            if told[name] is not None:
                fail(MISUSED, f"{told.called(name)} needs --tls-cert: give the server's certificate, too")
        return None
    if key is None and lacks_key(Path(cert)):
        what = "it has a certificate and no private key: give --tls-key FILE, too"
        fail(MISUSED, f"{told.called('tls_cert')} is `{cert}`: {what}")
    from rota.security import Tls

    tls = Tls(cert, key or cert, client_ca)
    tls.is_shared = (told["control"] or "").startswith(HTTPS)
    return tls


def lacks_key(cert: Path) -> bool:
    """Whether a file has a certificate only. What else may be wrong with it, the server says."""
    try:
        content = cert.read_bytes()
    except OSError:
        return False
    return b"-----BEGIN CERTIFICATE-----" in content and b"PRIVATE KEY-----" not in content


def http_of(told: Resolved) -> dict[str, Any]:
    """What `rota.Server` takes for --http and its companions."""
    where, tokens = told["http"], [told[name] for name in ("http_token", "control_token") if told[name] is not None]
    if where is None:
        if told["allow_anonymous_http"]:
            fail(MISUSED, f"{told.called('allow_anonymous_http')} needs --http: give the address to serve, too")
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
    """What `rota.Server` takes for --engine and its companions. Ends the command if one of them is wrong."""
    try:
        return _checked_engine_of(told)
    except ValueError as error:
        fail(MISUSED, str(error))


def _checked_engine_of(told: Resolved) -> dict[str, Any]:
    engine, node_id = told["engine"], told["node_id"]
    if engine is None:
        for name in ("node_id", *ACCESS, *PEER_ACCESS):
            if told[name] is not None:
                fail(MISUSED, f"{told.called(name)} needs --engine: give the URL of an etcd or a PostgreSQL, too")
        if told["reads"] != "session":
            fail(MISUSED, f"{told.called('reads')} needs --engine: a server that is alone asks no other")
        return {}
    check_scheme(told.called("engine"), engine)
    if node_id is None:
        fail(MISUSED, f"{told.called('engine')} needs --node-id: give each server of the cluster a number of its own")
    for name in ("take_over", "control", "virtual_clock"):
        if told[name]:
            fail(MISUSED, f"{told.called(name)} and --engine are both given: a server of a cluster has no such thing")
    if told["nodes"] != 1:
        only = "a server of a cluster has one node: leave it out, and start more servers, each with its own --node-id"
        fail(MISUSED, f"{told.called('nodes')} is {told['nodes']}: {only}")
    of_node = {"node_id": node_id, "ttl_ms": told["ttl_ms"], "reads": told["reads"]}
    access = {"engine_access": access_of(told), "peer_access": peer_access_of(told)}
    return {"engine": engine, **of_node, **access}


WITHOUT_DATA = ("durability", "take_over")
WITHOUT_JOURNAL = ("journal_retention_bytes", "journal_retention_ms")


def check_used(told: Resolved) -> None:
    """End the command if an option is given that would have no effect."""
    needed = {name: "--data DIR: without it nothing is kept" for name in WITHOUT_DATA if told["data"] is None}
    if not told["journal"] and told["journal_dir"] is None:
        needed |= dict.fromkeys(WITHOUT_JOURNAL, "--journal or --journal-dir DIR: without it no journal is written")
    if told["engine"] is None:
        needed["ttl_ms"] = "--engine: a server that is alone has no TTL"
    for name, what in needed.items():
        value, source = told.options[name]
        if source != DEFAULT and value is not False:
            fail(MISUSED, f"{told.called(name)} needs {what}")


def check_tokens(told: Resolved) -> None:
    """End the command if a token is given without its listener. One of the environment may be there for clients."""
    for name, listener in (("http_token", "http"), ("control_token", "control")):
        value, source = told.options[name]
        if value is not None and told[listener] is None and not source.startswith("environment"):
            fail(MISUSED, f"{told.called(name)} needs --{listener}: give the address to serve, too")


def check_directories(told: Resolved) -> None:
    """End the command, before anything is written, if --data or --journal-dir cannot be a directory."""
    journal, journal_dir = told.options["journal"], told.options["journal_dir"]
    if journal.value is False and all(one.source.startswith("flag") for one in (journal, journal_dir)):
        fail(MISUSED, "--no-journal and --journal-dir contradict each other: give one of them")
    if told["journal"] and told["data"] is None and told["journal_dir"] is None:
        fail(MISUSED, f"{told.called('journal')} needs a directory: give --data DIR, or --journal-dir DIR")
    for name in ("data", "journal_dir"):
        value = told[name]
        if value is None:
            continue
        path, given = Path(value), f"{told.called(name)} is `{value}`"
        if path.exists() and not path.is_dir():
            fail(MISUSED, f"{given}: it is a file, give a directory")
        if not path.absolute().parent.is_dir():
            fail(MISUSED, f"{given}: there is no directory `{path.parent}`, create that first")


def check_ports(told: Resolved, *addresses: str | None) -> None:
    """End the command if the last node of an address would have a port that does not exist."""
    nodes = told["nodes"]
    for found in (*addresses, *addresses_in(told.written())):
        port = "" if found is None else found.rpartition(":")[2]
        if port.isascii() and port.isdigit() and PORT_MAX - nodes + 1 < int(port) <= PORT_MAX:
            what = f"{nodes} nodes need the ports from {port} on, but the last port is {PORT_MAX}: choose a lower one"
            fail(MISUSED, told.blame(what))


class Start(NamedTuple):
    """What a server is started with."""

    told: Resolved
    listen: str
    advertise: str | None
    tls: Tls | None
    access: dict[str, Any]
    """What `rota.Server` takes for users, ACLs, HTTP and the engine."""
    controlled_on: str | None
    """The address of --control."""

    @staticmethod
    def of(told: Resolved) -> Start:
        """What these options ask for. Ends the command if one of them is wrong or lacks another one."""
        check_directories(told)
        check_used(told)
        check_tokens(told)
        listen, advertise = addresses(told)
        check_ports(told, listen, advertise)
        if told["virtual_clock"] and told["control"] is None:
            fail(MISUSED, f"{told.called('virtual_clock')} needs --control: nothing else could move the clock")
        control = None if told["control"] is None else web_address(told.called("control"), told["control"], 0)
        http = http_of(told)
        check_apart(told, ports_of_clients(told, listen), {"http": http.get("http"), "control": control})
        access = users_of(told) | acls_of(told) | http | engine_of(told)
        return Start(told, listen, advertise, tls_of(told), access, control)

    @property
    def listened_on(self) -> list[str]:
        """HOST:PORT of every listener of Kafka's protocol, as it was given."""
        return listened_on(self.told, self.listen)

    @property
    def data(self) -> Path | None:
        """The data directory."""
        return None if self.told["data"] is None else Path(self.told["data"])

    def arguments(self) -> dict[str, Any]:
        """The arguments of `rota.Server`, all but the trace."""
        told = self.told
        kept = ("durability", "take_over", "journal_retention_bytes", "journal_retention_ms")
        return {
            "listen": self.listen,
            "advertise": self.advertise,
            "nodes": told["nodes"],
            "settings": told.written(),
            "data": self.data,
            "journal": told["journal"] if told["journal_dir"] is None else Path(told["journal_dir"]),
            "clock": VirtualClock() if told["virtual_clock"] else None,
            "tls": self.tls,
            **{name: told[name] for name in kept},
            **self.access,
        }

    def blame(self, message: str) -> str:
        """An error of the server's, with the options whose files it names, and the sources of settings."""
        told = self.told
        named = [told.called(name) for name in TLS_FILES if told[name] is not None and f"`{told[name]}`" in message]
        return told.blame(f"{' and '.join(named)}: {message}" if named else message)

    def check_writable(self, error: OSError) -> None:
        """End the command with what to do if --data could not be opened: it cannot be made, or not be written into."""
        if self.data is None or f"`{self.data}`" not in str(error):
            return
        given = f"{self.told.called('data')} is `{self.data}`"
        if self.data.is_dir():
            if not os.access(self.data, os.R_OK | os.W_OK | os.X_OK):
                fail(FAILED, f"{given}: this user may not write into it; change its owner, or give another directory")
            return
        try:
            self.data.mkdir()
        except OSError as reason:
            remedy = UNMADE.get(reason.errno or 0, "give another directory")
            fail(FAILED, f"{given}: it cannot be made: {reason.strerror}; {remedy}")
        self.data.rmdir()

    def check_home(self) -> None:
        """End the command if --data has the groups of a server without engine, and they were not imported into this
        engine. It asks the engine only about such a directory."""
        engine, data = self.access.get("engine"), self.data
        if engine is None or data is None:
            return
        from rota.cluster.directory import of_one_server

        cluster_id = of_one_server(data)
        if cluster_id is None:
            return
        from rota.cluster.looking import image
        from rota.cluster.transfer import is_imported

        given = f"{self.told.called('data')} is `{data}`, which has the groups of a server without --engine"
        try:
            operator = _rota.EngineOperator(engine, self.access["engine_access"].arguments(), ATTEMPT_MS, True)
            is_of_cluster = image(operator).cluster_id == cluster_id
            if is_of_cluster and is_imported(operator, data):
                return
        except rota.EngineError as error:
            fail(
                UNREACHABLE,
                f"{given}; whether they were imported cannot be asked: {error}; "
                "start the engine, or give another directory",
            )
        if is_of_cluster:
            given = (
                f"{given} and is of this cluster, but these groups were not imported: the directory was exported, "
                "or a server without --engine has used it since the import"
            )
        fail(
            MISUSED,
            f"{given}: give another directory, or bring them into an engine without a cluster with "
            f"`rota cluster import {shlex.quote(str(data))} --engine URL`",
        )

    def control(self) -> Opening | None:
        """The listener of --control, which is not open yet. Ends the command if it cannot be opened as it is given."""
        if self.controlled_on is None:
            return None
        from rota.http.admission import CONTROL
        from rota.http.listener import opening
        from rota.http.tls import Files

        token, files = self.told["control_token"], Files.of(self.tls, self.told.written())
        with refusals(lambda message: f"{self.told.called('control')}: {message}"):
            return opening(self.controlled_on, CONTROL, files=files, tokens=() if token is None else (token,))


@contextmanager
def refusals(blame: Callable[[str], str] = str) -> Iterator[None]:
    """What a server refuses ends the command with one line on stderr. `blame` says where a setting came from."""
    try:
        yield
    except rota.ConfigError as error:
        said = blame(str(error))
        fail(MISUSED, said if "`rota settings`" in said else f"{said}; `rota settings` lists the settings")
    except ValueError as error:
        fail(MISUSED, blame(str(error)))
    except (rota.RotaError, OSError) as error:
        fail(FAILED, str(error))
