"""Kafka's properties files of clients, and the security settings in them: how a command or `rota.aio` connects.

`ClientSecurity` knows Java's names and PEM files. `rota groups` gives the same files to its client library
(`rota.groups.properties`).
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota._rota import nearest
from rota.addresses import SECURITY_PROTOCOLS
from rota.exits import reason_of
from rota.security import MECHANISMS, TOKENS, Login

if TYPE_CHECKING:
    import ssl

__all__ = ["ClientSecurity", "PropertyError", "credentials", "pairs"]

STORE_TYPES = ("ssl.truststore.type", "ssl.keystore.type")
PEM_ENDINGS = (".pem", ".crt", ".cert", ".cer")
SEPARATOR = re.compile(r"(?<!\\)(?:\s*[=:]\s*|\s+)")
ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# Java's StreamTokenizer, which reads it, takes both marks for quotation marks.
JAAS = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")

PROTOCOL, MECHANISM, JAAS_CONFIG = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105  a name
CHECK_HOST, KEY_PASSWORD = "ssl.endpoint.identification.algorithm", "ssl.key.password"
CA_FILE, CA_TEXT = "ssl.truststore.location", "ssl.truststore.certificates"
STORE, CHAIN_TEXT, KEY_FILE, KEY_TEXT = (
    "ssl.keystore.location",
    "ssl.keystore.certificate.chain",
    "ssl.key.location",
    "ssl.keystore.key",
)
KNOWN = (
    *(PROTOCOL, MECHANISM, JAAS_CONFIG, TOKEN_URL, CHECK_HOST, KEY_PASSWORD, CA_FILE, CA_TEXT),
    *(STORE, CHAIN_TEXT, KEY_FILE, KEY_TEXT, *STORE_TYPES),
)
"""What has an effect here."""
SECURITY = ("security.", "sasl.", "ssl.")
"""How names begin that are not passed over if they are unknown."""
WITHOUT_EFFECT = {"ssl.protocol", "ssl.enabled.protocols", "ssl.provider", "ssl.secure.random.implementation"}
WITHOUT_EFFECT |= {"sasl.login.callback.handler.class", "sasl.oauthbearer.jwt.retriever.class"}


class PropertyError(ValueError):
    """A property, or the file that it is in, is wrong; the message names it."""


def pairs(text: str) -> Iterator[tuple[int, str, str]]:
    """Line number, name and value of each entry of a properties file, as Java's Properties reads it."""
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        entry = line.lstrip()
        if not entry or entry[0] in "#!":
            continue
        while re.search(r"(?<!\\)(?:\\\\)*\\$", entry):
            entry = entry[:-1] + next(lines, (0, ""))[1].lstrip()
        name, *rest = SEPARATOR.split(entry, maxsplit=1)
        yield number, _unescaped(name), _unescaped(rest[0] if rest else "")


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        escaped = match[1]
        return chr(int(escaped[1:], 16)) if len(escaped) > 1 else ESCAPES.get(escaped, escaped)

    return ESCAPED.sub(plain, text)


def read_pairs(path: Path) -> Iterator[tuple[str, str, str]]:
    """Place, name and value of each entry of a file. Raises PropertyError if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PropertyError(f"--command-config {reason_of(error)}") from None
    return ((f"{path}:{number}", name, value) for number, name, value in pairs(text))


def credentials(where: str, value: str) -> tuple[str, str]:
    """Name and password of a JAAS line, `...PlainLoginModule required username="u" password="p";`."""
    found = {
        key: plain or re.sub(r"\\(.)", r"\1", double or single) for key, double, single, plain in JAAS.findall(value)
    }
    if "username" not in found or "password" not in found:
        raise PropertyError(f"{where}: sasl.jaas.config has no username and password")
    return found["username"], found["password"]


def token_file(where: str, url: str) -> Path:
    """The file of a token, `sasl.oauthbearer.token.endpoint.url`. Raises PropertyError for another URL."""
    import urllib.parse
    import urllib.request

    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not parts.path:
        raise PropertyError(
            f"{where}: {TOKEN_URL} is `{url}`: rota asks no server for tokens; write a token to a file, and give "
            "`file:///PATH`"
        )
    path = Path(urllib.request.url2pathname(parts.path))
    try:
        path.read_bytes()
    except OSError as error:
        raise PropertyError(f"{where}: {TOKEN_URL} is `{url}`: {error.strerror}") from None
    return path


def check_protocol(where: str, name: str, value: str) -> None:
    """Refuse a security protocol that there is not. Raises PropertyError."""
    if name == PROTOCOL and value not in SECURITY_PROTOCOLS:
        raise PropertyError(f"{where}: {PROTOCOL} is `{value}`: give one of {', '.join(SECURITY_PROTOCOLS)}")


def check_store(where: str, name: str, value: str) -> None:
    """Refuse Java keystores. Raises PropertyError."""
    if name in STORE_TYPES and value.upper() != "PEM":
        raise PropertyError(f"{where}: {name} is `{value}`: only PEM files can be read; keytool and openssl make one")
    if name.endswith("store.location") and not value.lower().endswith(PEM_ENDINGS):
        raise PropertyError(f"{where}: `{value}` is no PEM file: the client library reads no Java keystores")


@dataclass(frozen=True)
class ClientSecurity:
    """How a client connects: TLS and SASL. Certificates and keys are paths of PEM files, or the text."""

    protocol: str = "PLAINTEXT"
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = None
    checks_host: bool = True
    login: Login | None = None

    def __repr__(self) -> str:
        return f"<ClientSecurity {self.protocol}>"

    @staticmethod
    def read(path: str | os.PathLike[str]) -> ClientSecurity:
        """The settings in a properties file. Raises PropertyError."""
        return ClientSecurity._of(read_pairs(Path(path)), os.fspath(path))

    @staticmethod
    def of(properties: Mapping[str, Any]) -> ClientSecurity:
        """The settings in properties by Kafka's names, as of `Server.client_config("java")`. Raises PropertyError."""
        return ClientSecurity._of((("security", name, str(value)) for name, value in properties.items()), "security")

    @staticmethod
    def given(security: ClientSecurity | Mapping[str, Any] | str | os.PathLike[str] | None) -> ClientSecurity | None:
        """The settings that an argument stands for: properties, or the path of a file. None if they are not needed."""
        if isinstance(security, ClientSecurity):
            # Its files may be gone since it was made.
            security.context()
        if isinstance(security, ClientSecurity | None):
            return security
        return ClientSecurity.read_any(security).needed()

    @staticmethod
    def read_any(security: ClientSecurity | Mapping[str, Any] | str | os.PathLike[str]) -> ClientSecurity:
        """The settings that an argument stands for: properties, or the path of a file. Raises PropertyError."""
        if isinstance(security, ClientSecurity):
            return security
        if isinstance(security, Mapping):
            return ClientSecurity.of(security)
        if isinstance(security, str | os.PathLike):
            return ClientSecurity.read(security)
        raise TypeError(f"security is {security!r}: give properties of a Kafka client by name, or the path of a file")

    @staticmethod
    def _of(entries: Iterator[tuple[str, str, str]], where: str) -> ClientSecurity:
        found: dict[str, str] = {}
        for place, name, value in entries:
            _check_name(place, name)
            check_store(place, name, value)
            check_protocol(place, name, value)
            if name == MECHANISM and value not in MECHANISMS:
                raise PropertyError(f"{place}: {MECHANISM} is `{value}`: give one of {', '.join(MECHANISMS)}")
            found[name] = value
        protocol = found.get(PROTOCOL, "PLAINTEXT")
        login = None
        if protocol.startswith("SASL_"):
            has_token = found.get(MECHANISM) == TOKENS
            for name in (MECHANISM, TOKEN_URL if has_token else JAAS_CONFIG):
                if name not in found:
                    raise PropertyError(f"{where}: {PROTOCOL} is `{protocol}`, which needs {name}")
            login = _bearing(where, found) if has_token else _known(where, found)
        store, uses_tls = found.get(STORE), protocol.endswith("SSL")
        for name in KEY_FILE, KEY_TEXT:
            if uses_tls and found.get(name) and not (store or found.get(CHAIN_TEXT)):
                raise PropertyError(f"{where}: {name} is given, and no certificate: give {CHAIN_TEXT}, or {STORE}")
        security = ClientSecurity(
            protocol,
            found.get(CA_FILE) or found.get(CA_TEXT),
            store or found.get(CHAIN_TEXT),
            found.get(KEY_FILE) or found.get(KEY_TEXT) or store,
            found.get(KEY_PASSWORD),
            bool(found.get(CHECK_HOST, "https")),
            login,
        )
        # A wrong file is found before anything connects.
        security.context()
        return security

    def needed(self) -> ClientSecurity | None:
        """These settings; None if they are those of a connection without TLS and SASL."""
        return None if self.protocol == "PLAINTEXT" else self

    @property
    def has_tls(self) -> bool:
        """Whether connections use TLS."""
        return self.protocol.endswith("SSL")

    def context(self) -> ssl.SSLContext | None:
        """The TLS settings of connections; None without TLS. Raises PropertyError for a wrong file."""
        return self.https_context() if self.has_tls else None

    def https_context(self) -> ssl.SSLContext:
        """The TLS settings of HTTPS, whatever the protocol of brokers is. Raises PropertyError for a wrong file."""
        import ssl

        with contextlib.ExitStack() as files, _blamed(self.ca, CA_FILE):
            context = ssl.create_default_context(cafile=_file(self.ca, files))
        context.check_hostname = self.checks_host
        if self.certificate is not None:
            with contextlib.ExitStack() as files, _blamed(self.certificate, STORE):
                chain, key = _file(self.certificate, files), _file(self.key, files)
                # Without a password a terminal would be asked for it.
                context.load_cert_chain(chain or "", key, self.key_password or "")
        return context

    def librdkafka(self) -> dict[str, Any]:
        """The settings as librdkafka (confluent-kafka) has them."""
        config: dict[str, Any] = {"security.protocol": self.protocol}
        if self.has_tls:
            names = {"ssl.ca": self.ca, "ssl.certificate": self.certificate, "ssl.key": self.key}
            for name, value in names.items():
                if value is not None:
                    config[f"{name}.{'pem' if _is_pem(value) else 'location'}"] = value
            config |= {} if self.key_password is None else {KEY_PASSWORD: self.key_password}
            config |= {} if self.checks_host else {CHECK_HOST: "none"}
        if self.login is not None:
            mechanism, user, password, bearer = self.login
            if bearer is not None:
                raise PropertyError(
                    f"{MECHANISM} is {mechanism}: clients in processes of their own take passwords only"
                )
            config |= {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
        return config


def _known(where: str, found: Mapping[str, str]) -> Login:
    return Login(found[MECHANISM], *credentials(where, found[JAAS_CONFIG]))


def _bearing(where: str, found: Mapping[str, str]) -> Login:
    from rota.tokens import Bearer

    return Login(TOKENS, "", "", Bearer.of_file(token_file(where, found[TOKEN_URL])))


def _check_name(place: str, name: str) -> None:
    """Refuse a name that is not known, and that other settings of clients do not have."""
    if name in KNOWN or name in WITHOUT_EFFECT:
        return
    found = nearest(name, list(KNOWN), misspelt=True)
    if found is not None or name.startswith(SECURITY):
        hint = f": did you mean `{found}`?" if found is not None else f"; there are {', '.join(KNOWN)}"
        raise PropertyError(f"{place}: there is no setting `{name}`{hint}")


def _is_pem(text: str) -> bool:
    return "-----BEGIN" in text


def _file(value: str | None, files: contextlib.ExitStack) -> str | None:
    """The path of a file, which for a text exists until the end: the standard library reads files only."""
    if value is None or not _is_pem(value):
        return value
    directory = files.enter_context(tempfile.TemporaryDirectory(prefix="rota-"))
    path = Path(directory, "client.pem")
    path.write_text(value, encoding="ascii")
    return os.fspath(path)


@contextlib.contextmanager
def _blamed(value: str | None, name: str) -> Iterator[None]:
    """Names the file that an error is about."""
    try:
        yield
    except (OSError, ValueError) as error:
        what = name if value is None or _is_pem(value) else f"{name} is `{value}`"
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise PropertyError(f"{what}: {reason or 'it has no certificate, or not its key'}") from None
