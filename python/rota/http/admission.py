"""Who may read `--http`, and who may use `--control`: those with a token or a client certificate, or everyone."""

from __future__ import annotations

import base64
import hmac
from typing import Literal, NamedTuple

Shown = Literal["HTTP", "control"]
HTTP: Shown = "HTTP"
CONTROL: Shown = "control"


class Admission(NamedTuple):
    """Who is admitted. Without tokens and certificates, everyone."""

    tokens: tuple[str, ...] = ()
    """Each of them is enough: as `Authorization: Bearer TOKEN`, or as the password of a browser."""
    takes_certificates: bool = False
    """Whether a client certificate of one of the CAs is enough, too."""
    takes_passwords: bool = False
    """Whether a browser may send the token as a password, and so is asked for one."""

    @property
    def is_open(self) -> bool:
        """Whether everyone is admitted."""
        return not self.tokens and not self.takes_certificates

    def admits(self, authorization: str, *, has_certificate: bool) -> bool:
        """Whether a request with this header Authorization, over a connection with a certificate or not, is served."""
        if self.is_open or (self.takes_certificates and has_certificate):
            return True
        given = self._token_in(authorization).encode()
        return any(hmac.compare_digest(given, token.encode()) for token in self.tokens)

    def _token_in(self, authorization: str) -> str:
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() == "bearer":
            return value.strip()
        if scheme.lower() != "basic" or not self.takes_passwords:
            return ""
        try:
            # Any user name.
            return base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]
        except ValueError:
            return ""

    def remedy(self) -> str:
        """What a client that is not admitted has to do."""
        remedies = (
            (bool(self.tokens), "send the header `Authorization: Bearer TOKEN` with the token of the server"),
            (self.takes_certificates, "connect with a client certificate of one of its --tls-client-ca"),
        )
        return ", or ".join(remedy for is_enough, remedy in remedies if is_enough)


def check_token(token: str, what: str) -> None:
    """Refuse a token that no header can have. Raises ValueError without the token."""
    if not (token.isascii() and token.isprintable() and token.strip() == token != ""):
        raise ValueError(f"the {what} token has to be printable ASCII without spaces around it")
