"""The client's side of SASL on a new connection: the frames of SaslHandshake and SaslAuthenticate, without sockets."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import struct
from collections.abc import Generator

from rota._rota import RotaError
from rota.security import Login

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
VERSION = 1
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MAX = 1_000_000
"""More would be an attack on this client."""


class AuthenticationError(RotaError):
    """The broker refuses the user, or its answers are not those of a broker that knows the user."""


def authentication(login: Login, client_id: str) -> Generator[bytes, bytes, None]:
    """The frames to send, without their lengths; each is answered by a frame. Raises AuthenticationError."""
    answer = _Answer((yield _request(SASL_HANDSHAKE, 1, client_id, _string(login.mechanism))), 1)
    error, mechanisms = answer.int16(), answer.strings()
    if error:
        raise AuthenticationError(
            f"the broker refuses {login.mechanism} (error {error}); it has {', '.join(mechanisms) or 'none'}"
        )
    messages = {"PLAIN": _plain, "OAUTHBEARER": _bearing}
    tokens = messages.get(login.mechanism, _scram)(login)
    token, correlation_id = next(tokens), 1
    while True:
        correlation_id += 1
        body = struct.pack(">i", len(token)) + token
        answer = _Answer((yield _request(SASL_AUTHENTICATE, correlation_id, client_id, body)), correlation_id)
        error, message, challenge = answer.int16(), answer.string(), answer.bytes()
        if error:
            raise AuthenticationError(message or f"the broker refuses the user: error {error}")
        try:
            token = tokens.send(challenge)
        except StopIteration:
            return


def _plain(login: Login) -> Generator[bytes, bytes, None]:
    yield f"\0{login.user}\0{login.password}".encode()


def _bearing(login: Login) -> Generator[bytes, bytes, None]:
    """The messages of RFC 7628. A server that refuses the token says so in JSON first."""
    if login.bearer is None:
        raise AuthenticationError("there is no token: give sasl.oauthbearer.token.endpoint.url")
    try:
        token = login.bearer.fetch()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
        raise AuthenticationError(f"the token in `{login.bearer.file}` cannot be read: {reason}") from None
    refusal = yield b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"
    if refusal:
        yield b"\x01"
        raise AuthenticationError("the broker refuses the token")


def _scram(login: Login) -> Generator[bytes, bytes, None]:
    """The messages of RFC 5802; the last of the server proves that it knows the user, too."""
    name = HASHES[login.mechanism]
    nonce = secrets.token_urlsafe(24)
    user = login.user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={user},r={nonce}"
    challenge = yield f"n,,{first}".encode()
    told = _attributes(challenge)
    try:
        salt, iterations = base64.b64decode(told["s"], validate=True), int(told["i"])
    except (KeyError, ValueError):
        raise AuthenticationError("the broker's answer is not a message of SCRAM") from None
    if not told.get("r", "").startswith(nonce) or not 0 < iterations <= ITERATIONS_MAX:
        raise AuthenticationError("the broker's answer has another nonce, or too many iterations")
    salted = hashlib.pbkdf2_hmac(name, login.password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    final = f"c=biws,r={told['r']}"
    signed = b",".join((first.encode(), challenge, final.encode()))
    signature = hmac.digest(hashlib.new(name, client_key).digest(), signed, name)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    verdict = yield f"{final},p={base64.b64encode(proof).decode()}".encode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)
    if not hmac.compare_digest(_attributes(verdict).get("v", ""), base64.b64encode(expected).decode()):
        raise AuthenticationError("the broker does not know the user's password: it may be another broker")


def _attributes(message: bytes) -> dict[str, str]:
    parts = message.decode("utf-8", "replace").split(",")
    return {name: value for name, equals, value in (part.partition("=") for part in parts) if equals}


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _request(api: int, correlation_id: int, client_id: str, body: bytes) -> bytes:
    return struct.pack(">hhi", api, VERSION, correlation_id) + _string(client_id) + body


class _Answer:
    """An answer, read from its beginning. Raises AuthenticationError if it is none."""

    def __init__(self, frame: bytes, correlation_id: int) -> None:
        self._rest = frame
        if self._unpack(">i") != correlation_id:
            raise AuthenticationError("the broker answers another request than the authentication")

    def _unpack(self, layout: str) -> int:
        (value,) = struct.unpack(layout, self._take(struct.calcsize(layout)))
        return int(value)

    def _take(self, length: int) -> bytes:
        if not 0 <= length <= len(self._rest):
            raise AuthenticationError("the broker's answer to the authentication cannot be read")
        taken, self._rest = self._rest[:length], self._rest[length:]
        return taken

    def int16(self) -> int:
        return self._unpack(">h")

    def string(self) -> str:
        length = self.int16()
        return "" if length < 0 else self._take(length).decode("utf-8", "replace")

    def strings(self) -> list[str]:
        return [self.string() for _ in range(self._unpack(">i"))]

    def bytes(self) -> bytes:
        return self._take(self._unpack(">i"))
