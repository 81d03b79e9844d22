"""How `rota groups` reaches a cluster, and why it cannot reach a server.

The client library tries its bootstrap servers until the time is over, and then tells no cause. Here each of them is
tried once: a closed port or a wrong password is no better a second later.
"""

from __future__ import annotations

import os
import re
import ssl
import time
from collections.abc import Mapping
from typing import Any

from kafka import KafkaAdminClient, errors
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from rota.addresses import joined
from rota.groups.errors import GroupsError, Kind
from rota.http.client import tls_failure

SYSTEM_ERROR = re.compile(r"\b([0-9]+) (E[A-Z0-9]+)\b")
"""An error of the system as the library's text has it: `111 ECONNREFUSED`."""
ENDED = ("ECONNRESET", "EPIPE")
"""How the system calls it that the other side has ended a connection."""
FRAME_LENGTH = re.compile(r"frame length: ([0-9]+)")
TLS_ALERT = 0x1503
"""How an alert begins with which a TLS listener answers plaintext; the library reads the length of a frame there."""
TIMEOUTS = (errors.KafkaTimeoutError, errors.RequestTimedOutError)


class Bootstrapping(KafkaConnectionManager):  # type: ignore[misc]  # the library has no types
    """Connections. The first one is that of a bootstrap server that answers."""

    async def _do_bootstrap(self, deadline: float | None) -> bool:
        if self.cluster.brokers():
            # It was reached before: then a broker that restarts is worth the time.
            return bool(await super()._do_bootstrap(deadline))
        causes = []
        servers = self.cluster.bootstrap_brokers()
        for tried, server in enumerate(servers):
            left_s = self.config["request_timeout_ms"] / 1_000 if deadline is None else deadline - time.monotonic()
            causes.append(await self._cause(server, left_s / (len(servers) - tried)))
            if not causes[-1]:
                self.cluster.start_refresh_loop()
                return True
        raise GroupsError(Kind.UNREACHABLE, "; ".join(sorted(set(causes))))

    async def _cause(self, server: Any, within_s: float) -> str:
        """Asks a server for the cluster. Gives why it cannot be asked, or ""."""
        connection = self.get_connection(
            server.node_id,
            timeout_ms=within_s * 1_000,
            pop_on_close=False,
            refresh_metadata_on_err=False,
            reset_backoff_on_connect=False,
        )
        at = joined(server.host, server.port)
        try:
            # The library gives a TLS handshake all the time there is.
            await self.wait_for(connection.init_future, within_s * 1_000)
            await self.cluster.refresh_metadata(server.node_id)
        except Exception as error:
            return cause(at, error, self.config, within_s, knows_it=connection.broker_version_data is not None)
        finally:
            self._conns.pop(server.node_id, connection).close()
        return "" if self.cluster.brokers() else f"{at} names no brokers: try again when they have started"


def admin(settings: Mapping[str, Any]) -> KafkaAdminClient:
    """The library's client. Raises GroupsError if no bootstrap server answers."""
    made = []

    def client(**configs: Any) -> KafkaNetClient:
        net = NetworkSelector(**configs)
        made.append(KafkaNetClient(net, Bootstrapping(net, **configs)))
        return made[-1]

    try:
        return KafkaAdminClient(**settings, kafka_client=client)
    except BaseException:
        for one in made:
            one.close()
            one._net.stop()
        raise


def cause(at: str, error: Exception, settings: Mapping[str, Any], within_s: float, *, knows_it: bool) -> str:
    """Why a server cannot be asked. `knows_it`: it has told its versions, so TLS is not at fault."""
    text, behind = str(error), error.__context__
    has_login = str(settings["security_protocol"]).startswith("SASL_")
    has_tls = str(settings["security_protocol"]).endswith("SSL")
    if (found := SYSTEM_ERROR.search(text)) and found[2] not in ENDED:
        return _of_system(at, *found.groups())
    if "DNS Resolution" in text:
        return f"the host name of {at} cannot be resolved: is it misspelt?"
    if isinstance(behind, ssl.SSLCertVerificationError):
        return tls_failure(at, behind) or text
    if isinstance(behind, ssl.SSLError) and not knows_it:
        return f"{at} does not answer in TLS: does it want security.protocol={'SASL_' if has_login else ''}PLAINTEXT?"
    if isinstance(error, TIMEOUTS) or "timed out" in text.lower():
        return f"{at} does not answer within {within_s:.3g} s: is that the address of a broker?"
    if isinstance(error, errors.SaslAuthenticationFailedError):
        return _refuses(at, settings)
    if isinstance(error, errors.UnsupportedSaslMechanismError):
        return f"{at} does not take sasl.mechanism={settings['sasl_mechanism']}: give one that it takes"
    if has_login and isinstance(error, errors.IncompatibleBrokerVersion | errors.IllegalSaslStateError):
        return f"{at} takes no passwords: give security.protocol={'SSL' if has_tls else 'PLAINTEXT'}"
    is_alert = (length := FRAME_LENGTH.search(text)) is not None and int(length[1]) >> 16 == TLS_ALERT
    if not is_alert and not isinstance(error, errors.KafkaConnectionError | OSError):
        return f"{at} does not answer as a broker: {text}"
    if knows_it:
        # The library drops an answer that comes together with the end of the connection, which is how rota refuses.
        return _refuses(at, settings) if has_login else _wants_login(at, has_tls=has_tls)
    if has_tls:
        return f"{at} ends the TLS connection: does it want a client certificate (ssl.keystore.location)?"
    return f"{at} ends the connection at once: does it want TLS (security.protocol=SSL or SASL_SSL)?"


def _of_system(at: str, number: str, name: str) -> str:
    if name == "ECONNREFUSED":
        return f"{at} refuses connections: no broker listens there"
    return f"{at} cannot be reached: {os.strerror(int(number))}"


def _refuses(at: str, settings: Mapping[str, Any]) -> str:
    user = settings.get("sasl_plain_username")
    who = "the token" if user is None else f"user {user} or its password"
    return f"{at} refuses {who}, with sasl.mechanism={settings['sasl_mechanism']}"


def _wants_login(at: str, *, has_tls: bool) -> str:
    protocol = "SASL_SSL" if has_tls else "SASL_PLAINTEXT"
    return f"{at} wants a user: give security.protocol={protocol}, sasl.mechanism and sasl.jaas.config"
