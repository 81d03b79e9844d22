"""TLS and SASL of a server: certificates, users, and the settings with which clients reach it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rota import _rota
from rota.addresses import split
from rota.arguments import passwords, text, texts

if TYPE_CHECKING:
    import ssl

    from rota.jwks import KeyFetcher
    from rota.tokens import Bearer, TokenIssuer

__all__ = ["Authority", "Certificate", "ClientAuth", "Tls", "client_config"]

ClientAuth = Literal["none", "requested", "required"]
MECHANISMS = ("PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER")
TOKENS = "OAUTHBEARER"
DEFAULT_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class Certificate(NamedTuple):
    """A certificate with its private key, both as PEM text."""

    certificate: str
    """The certificate, followed by that of its authority."""
    key: str
    """The private key, not encrypted."""

    def __repr__(self) -> str:
        return "Certificate(...)"


class Authority:
    """A throw-away certificate authority for tests. Its private key exists in memory only.

    >>> authority = rota.Authority()
    >>> server = rota.Server(tls=authority.tls(client_auth="required"))
    >>> consumer = Consumer(server.client_config("librdkafka", authority.issue(name="ana")) | {"group.id": "g"})
    """

    def __init__(self) -> None:
        self._inner = _rota.Authority()

    @property
    def certificate(self) -> str:
        """The certificate that clients must trust, as PEM text."""
        return self._inner.certificate

    def issue(self, *hosts: str, name: str = "rota", expired: bool = False) -> Certificate:
        """Issue a certificate: for a server with these host names or addresses, or for a client called `name`.

        expired  whether its dates have passed, to test how a client handles that.

        Raises ValueError for a host name that cannot be in a certificate.
        """
        return Certificate(
            *self._inner.issue(texts(hosts, "hosts", "give names or addresses as str"), text(name, "name"), expired)
        )

    def tls(self, *hosts: str, client_auth: ClientAuth = "none", expired: bool = False) -> Tls:
        """Return the TLS settings of a server with a certificate of this authority.

        hosts        names and addresses of the server (default: localhost, 127.0.0.1 and ::1).
        client_auth  whether clients need a certificate of this authority, too.
        """
        issued = self.issue(*(hosts or LOCAL_HOSTS), expired=expired)
        return Tls(issued.certificate, issued.key, self.certificate, client_auth, ca=self.certificate)


class Tls:
    """The TLS settings of a server. Certificates and keys are PEM: paths of files, or the text itself.

    cert         the server's certificate, followed by intermediate ones.
    key          its private key, not encrypted.
    client_ca    the authorities of clients' certificates.
    client_auth  "required": clients need a certificate; "requested": a certificate is verified if a client sends one;
                 "none". Default: "required" with `client_ca`, otherwise "none".
    ca           the authority that clients trust, for `Server.client_config`; without it clients use those of their
                 system.
    """

    def __init__(
        self,
        cert: str | os.PathLike[str],
        key: str | os.PathLike[str],
        client_ca: str | os.PathLike[str] | None = None,
        client_auth: ClientAuth | None = None,
        *,
        ca: str | os.PathLike[str] | None = None,
    ) -> None:
        self.cert, self.key = os.fspath(cert), os.fspath(key)
        self.client_ca = None if client_ca is None else os.fspath(client_ca)
        self.client_auth = client_auth or ("none" if client_ca is None else "required")
        self.ca = None if ca is None else os.fspath(ca)
        self.is_shared = False
        """Whether `--control` uses the certificate, and listeners may have none."""

    def __repr__(self) -> str:
        cert = "..." if is_pem(self.cert) else self.cert
        return f"<rota.Tls cert={cert!r} client_auth={self.client_auth!r}>"

    def arguments(self) -> tuple[str, str, str | None, str]:
        """The settings as the compiled server takes them."""
        return self.cert, self.key, self.client_ca, self.client_auth

    def ca_text(self) -> str | None:
        """The authority that clients trust, as PEM text. Raises OSError if its file cannot be read."""
        if self.ca is None or is_pem(self.ca):
            return self.ca
        return Path(self.ca).read_text(encoding="ascii")


def is_pem(text: str) -> bool:
    """Whether this is PEM text and not a path."""
    return "-----BEGIN" in text


def tls_of(tls: bool | Tls | None, *addresses: str | None) -> Tls | None:
    """The TLS settings that the argument `tls` of a server stands for. Raises TypeError for anything else.

    addresses  HOST:PORT that a throw-away certificate names, with the names of this machine.
    """
    if tls is None or tls is False:
        return None
    if isinstance(tls, Tls):
        return tls
    if tls is not True:
        raise TypeError(f"tls is {tls!r}: give True, or a rota.Tls")
    hosts = [split(address)[0] for address in addresses if address is not None]
    named = dict.fromkeys([*LOCAL_HOSTS, *(host for host in hosts if host not in ("0.0.0.0", "::", ""))])
    return Authority().tls(*named)


def _checked_cas(path: str) -> str:
    import ssl

    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        raise ValueError(f"`{path}` has no CAs as PEM: give those of the server with the keys of tokens") from None
    except OSError as error:
        raise ValueError(f"cannot read `{path}`: {error.strerror}") from None
    return path


class Access:
    """Who may connect to a server, and how: its TLS settings, SASL mechanisms and users.

    users  passwords by user name, or the path of a users file.
    tokens  the issuer of tokens; without one, with OAUTHBEARER and without `has_keys`, a new one.
    jwks_ca  a PEM file with the CAs of the server of their keys.
    has_keys  whether the settings say where the keys of tokens are.

    Raises TypeError and ValueError for what cannot be, OSError for a users file that cannot be read.
    """

    def __init__(
        self,
        tls: Tls | None,
        sasl: str | Sequence[str] | None = None,
        users: Mapping[str, str] | str | os.PathLike[str] | None = None,
        tokens: TokenIssuer | None = None,
        jwks_ca: str | os.PathLike[str] | None = None,
        has_keys: bool = False,
    ) -> None:
        self.tls = tls
        self._jwks_ca = None if jwks_ca is None else _checked_cas(os.fspath(jwks_ca))
        if tokens is not None and sasl is None:
            sasl = TOKENS if users is None else [TOKENS, *DEFAULT_MECHANISMS]
        several = DEFAULT_MECHANISMS if sasl is None else sasl
        self.mechanisms = [several] if isinstance(several, str) else texts(several, "sasl", "give a list of mechanisms")
        if not self.mechanisms:
            raise ValueError('sasl names no mechanism: leave it out for "SCRAM-SHA-512", or name one')
        self._has_sasl = users is not None or sasl is not None
        if sasl is not None and users is None and set(self.mechanisms) != {TOKENS}:
            raise ValueError("sasl is given without users: give users={name: password}, or a users file")
        self.issuer = tokens if self._has_sasl and TOKENS in self.mechanisms else None
        if tokens is not None and (self.issuer is None or has_keys):
            reason = "`sasl.oauthbearer.jwks.endpoint.url` is set, too" if has_keys else f"sasl has no {TOKENS}"
            raise ValueError(f"tokens is given, and {reason}: leave one of them out")
        if self.issuer is None and self._has_sasl and TOKENS in self.mechanisms and not has_keys:
            from rota.tokens import TokenIssuer

            self.issuer = TokenIssuer()
        self.passwords: dict[str, str] = {}
        self._file: Path | None = None
        self._has_users = users is not None
        if isinstance(users, Mapping):
            self.passwords = passwords(users)
        elif users is not None:
            # Another working directory later does not matter.
            self._file = Path(users).absolute()
            self._file.read_bytes()

    def arguments(self) -> tuple[Any, Any]:
        """TLS and SASL as the compiled server takes them."""
        tls = None if self.tls is None else self.tls.arguments()
        return tls, (self.mechanisms, self._file, self.passwords) if self._has_sasl else None

    def keep_keys(self, server: _rota.Server) -> KeyFetcher | None:
        """Give a started server the keys of tokens when they change: those of the issuer, or those at a URL."""
        if self.issuer is not None:
            self.issuer.on_rotation(server.set_keys)
        found = server.key_fetching()
        if found is None:
            return None
        # It needs the clients of the standard library, which take longer to import than a server to start.
        from rota.jwks import KeyFetcher

        url, refresh_ms, backoff_ms, backoff_max_ms = found
        return KeyFetcher(server, url, (refresh_ms, backoff_ms, backoff_max_ms), self._jwks_ca)

    def login(
        self,
        user: str | None,
        password: str | None,
        token: str | os.PathLike[str] | None = None,
        issued: Callable[[str], str] | None = None,
    ) -> Login | None:
        """The name and password of a client: those given, or the first user's. None without SASL.

        token   the client's token, or the file that it reads one from.
        issued  issues a token for a user, if it has none.

        Raises ValueError if the password is not known, as with a users file, or no token is.
        """
        if not self._has_sasl:
            return None
        if self.mechanisms[0] == TOKENS and password is None:
            return self._bearing(user, token, issued)
        mechanism = next((known for known in self.mechanisms if known != TOKENS), None)
        if mechanism is None:
            raise ValueError(f"password is given, and the server has {TOKENS} only: give token")
        name = next(iter(self.passwords), None) if user is None else user
        found = self.passwords.get(name or "") if password is None else password
        if name is None or found is None:
            raise ValueError(f"the password of {name or 'the user'} is not known: give user and password")
        return Login(mechanism, name, found)

    def _bearing(
        self, user: str | None, token: str | os.PathLike[str] | None, issued: Callable[[str], str] | None
    ) -> Login:
        from rota.tokens import DEFAULT_USER, Bearer

        name = user or next(iter(self.passwords), DEFAULT_USER)
        if isinstance(token, os.PathLike):
            bearer = Bearer.of_file(Path(token))
        elif token is not None:
            bearer = Bearer.of_text(token)
        elif self.issuer is None or issued is None:
            raise ValueError("the server has no issuer of its own: give token, a text or the pathlib.Path of a file")
        else:
            bearer = Bearer(lambda: issued(name))
        return Login(TOKENS, name, "", bearer)


class Login(NamedTuple):
    """How a client authenticates."""

    mechanism: str
    user: str
    password: str
    bearer: Bearer | None = None

    def __repr__(self) -> str:
        return f"Login({self.mechanism!r}, {self.user!r}, ...)"


def client_config(
    family: str,
    bootstrap_servers: str,
    *,
    tls: bool = False,
    ca: str | None = None,
    client: Certificate | None = None,
    login: Login | None = None,
) -> dict[str, Any]:
    """The settings of a client of this family that reaches a server. `Server.client_config` describes them."""
    family = FAMILY_NAMES.get(family, family)
    if family not in FAMILIES:
        known = ", ".join(f'"{name}"' for name in (*FAMILIES, *FAMILY_NAMES))
        raise ValueError(f"family is {family!r}: give one of {known}")
    if client is not None and not isinstance(client, Certificate):
        raise TypeError(f"client is {client!r}: give a rota.Certificate, such as one of Authority.issue")
    names = FAMILIES[family]
    config: dict[str, Any] = {names.bootstrap: bootstrap_servers}
    protocol = ("SASL_" if login else "") + ("SSL" if tls else "PLAINTEXT")
    if protocol != "PLAINTEXT":
        config[names.protocol] = protocol
    return config | (names.tls(ca, client) if tls else {}) | (names.sasl(login) if login else {})


def _librdkafka(ca: str | None, client: Certificate | None) -> dict[str, Any]:
    trusted = {} if ca is None else {"ssl.ca.pem": ca}
    own = {} if client is None else {"ssl.certificate.pem": client.certificate, "ssl.key.pem": client.key}
    return trusted | own


def _java(ca: str | None, client: Certificate | None) -> dict[str, Any]:
    trusted = {} if ca is None else {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca}
    if client is None:
        return trusted
    return trusted | {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": client.certificate,
        "ssl.keystore.key": client.key,
    }


def _librdkafka_sasl(login: Login) -> dict[str, Any]:
    if login.bearer is not None:
        return {"sasl.mechanism": login.mechanism, "oauth_cb": login.bearer.librdkafka()}
    return {"sasl.mechanism": login.mechanism, "sasl.username": login.user, "sasl.password": login.password}


def _java_sasl(login: Login) -> dict[str, Any]:
    if login.bearer is not None:
        if login.bearer.file is None:
            raise ValueError("clients in Java read their tokens from a file: give token=pathlib.Path(...)")
        package = "org.apache.kafka.common.security.oauthbearer"
        return {
            "sasl.mechanism": login.mechanism,
            "sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
            "sasl.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": login.bearer.file.absolute().as_uri(),
        }
    package = "plain.Plain" if login.mechanism == "PLAIN" else "scram.Scram"
    user, password = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (login.user, login.password))
    module = f"org.apache.kafka.common.security.{package}LoginModule"
    return {
        "sasl.mechanism": login.mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
    }


def _kafka_python_sasl(login: Login) -> dict[str, Any]:
    if login.bearer is not None:
        return {"sasl_mechanism": login.mechanism, "sasl_oauth_token_provider": login.bearer.kafka_python()}
    return _python_sasl(login)


def _aiokafka_sasl(login: Login) -> dict[str, Any]:
    if login.bearer is not None:
        return {"sasl_mechanism": login.mechanism, "sasl_oauth_token_provider": login.bearer.aiokafka()}
    return _python_sasl(login)


def _python_sasl(login: Login) -> dict[str, Any]:
    return {
        "sasl_mechanism": login.mechanism,
        "sasl_plain_username": login.user,
        "sasl_plain_password": login.password,
    }


def _python(ca: str | None, client: Certificate | None) -> dict[str, Any]:
    return {"ssl_context": _context(ca, client)}


def _context(ca: str | None, client: Certificate | None) -> ssl.SSLContext:
    import ssl

    context = ssl.create_default_context(cadata=ca)
    if client is not None:
        # The context reads files only, and they can go when it has read them.
        with tempfile.TemporaryDirectory(prefix="rota-") as directory:
            path = Path(directory, "client.pem")
            path.write_text(client.key + client.certificate, encoding="ascii")
            context.load_cert_chain(path)
    return context


class Family(NamedTuple):
    """How a family of clients names its settings."""

    bootstrap: str
    protocol: str
    tls: Callable[[str | None, Certificate | None], dict[str, Any]]
    sasl: Callable[[Login], dict[str, Any]]


FAMILIES: Mapping[str, Family] = {
    "librdkafka": Family("bootstrap.servers", "security.protocol", _librdkafka, _librdkafka_sasl),
    "kafka-python": Family("bootstrap_servers", "security_protocol", _python, _kafka_python_sasl),
    "aiokafka": Family("bootstrap_servers", "security_protocol", _python, _aiokafka_sasl),
    "java": Family("bootstrap.servers", "security.protocol", _java, _java_sasl),
}
FAMILY_NAMES: Mapping[str, str] = {"confluent-kafka": "librdkafka"}
