"""Which path shows what: a request becomes an answer, and nothing changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from http import HTTPStatus
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

from rota import _rota
from rota.exits import installs
from rota.http import cluster_views, views

if TYPE_CHECKING:
    from rota.server import Health

JSON, SCHEMA = "application/json", "application/schema+json"

GROUPS_MAX = 10_000
"""Groups in one answer of `/groups`; the next ones come with `after`."""

WAITS_MAX = 3
"""Waits that the sentence about a group in `/groups` names."""


class Answer(NamedTuple):
    """What is sent."""

    status: HTTPStatus
    media_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class RefusedError(Exception):
    """A request that gets an error: the status, the error's name, what to do, and more facts."""

    def __init__(self, status: HTTPStatus, name: str, message: str, **more: str | int | None) -> None:
        super().__init__(message)
        self.status = status
        self.facts = {"error": name, "message": message, **more}


class Subject:
    """What is looked at: a server, once it has started."""

    def __init__(self) -> None:
        self.server: _rota.Server | None = None
        self.health: Callable[[], Health | None] = lambda: None

    def show(self, server: _rota.Server, health: Callable[[], Health | None]) -> None:
        """The server has started."""
        self.health = health
        self.server = server

    def started(self) -> _rota.Server:
        """The server, or a refusal while it starts."""
        if self.server is None:
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "Starting", "the server is starting: try again")
        return self.server


Query: TypeAlias = dict[str, list[str]]
"""All values of each parameter, as they came. Of a parameter that has one, the last counts."""


def as_json(value: object, status: HTTPStatus = HTTPStatus.OK, media_type: str = JSON) -> Answer:
    """An answer in JSON."""
    return Answer(status, media_type, json.dumps(value, separators=(",", ":")).encode() + b"\n")


def healthz(subject: Subject, _query: Query) -> Answer:
    """Whether the process should live: every node answers, or the server is still starting."""
    if subject.server is None:
        return as_json({"status": "starting"})
    connections, waiting = subject.server.load()
    health = subject.health()
    errors = [] if health is None else list(health.reload_errors)
    facts: dict[str, object] = {
        "status": "ok",
        "connections": connections,
        "waiting_requests": waiting,
        "reload_errors": errors,
    }
    cluster = cluster_views.cluster_of(subject.server)
    if cluster is not None:
        facts["cluster"] = cluster_views.facts(cluster)
    return as_json(facts)


def readyz(subject: Subject, _query: Query) -> Answer:
    """Whether clients should be sent here: started, nothing loading, and the log takes writes."""
    server = subject.started()
    loading, cluster = server.loading(), cluster_views.cluster_of(server)
    health = subject.health()
    stopped, failing = (None, None) if health is None else (health.stopped, health.failing)
    is_member = cluster is None or cluster.is_ready
    is_ready = is_member and not loading and stopped is None and failing is None
    facts: dict[str, object] = {
        "status": "ready" if is_ready else "not ready",
        "loading_partitions": loading,
        "log_stopped": stopped,
        "log_failing": failing,
        "refused_partitions": [] if health is None else health.refused,
        "reload_errors": [] if health is None else list(health.reload_errors),
    }
    if cluster is not None:
        facts["cluster"] = cluster_views.facts(cluster)
    return as_json(facts, HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE)


def groups(subject: Subject, query: Query) -> Answer:
    """All groups in a few figures: by id, those after `after`, at most `limit`."""
    server = subject.started()
    limit = _whole(query, "limit", GROUPS_MAX)
    group_ids = server.groups()
    after = query["after"][-1] if "after" in query else None
    rest = group_ids if after is None else [group_id for group_id in group_ids if group_id > after]
    asked = rest[:limit]
    return as_json(
        {
            "groups": [views.listed(summary) for summary in server.summaries(asked, WAITS_MAX)],
            "total": len(group_ids),
            "next": asked[-1] if len(asked) < len(rest) else None,
        }
    )


def _whole(query: Query, name: str, highest: int) -> int:
    text = query.get(name, [str(highest)])[-1]
    number = whole(text, highest)
    if not number:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "BadParameter", f"{name} is `{text[:80]}`: give 1 to {highest}")
    return number


def whole(text: str, highest: int) -> int | None:
    """The whole number of a text, however long that is; None if it is none, or above `highest`."""
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0") or "0"
    number = int(digits) if len(digits) <= len(str(highest)) else highest + 1
    return number if number <= highest else None


def group(subject: Subject, group_id: str) -> Answer:
    """Everything about one group."""
    server = subject.started()
    cluster = cluster_views.cluster_of(server)
    if cluster is not None:
        partition = server.partition_of(group_id)
        is_loading = partition in server.loading()
        where = cluster_views.elsewhere(cluster, partition, group_id, is_loading=is_loading)
        if where is not None:
            raise RefusedError(HTTPStatus.NOT_FOUND, "OtherCoordinator", where[0], node_id=where[1])
    look = server.inspect_group(group_id)
    if look is None:
        nearest = _rota.nearest(group_id, server.groups()[:GROUPS_MAX])
        hint = "" if nearest is None else f"; the nearest is `{nearest}`"
        message = f"there is no group `{group_id}`{hint}"
        raise RefusedError(HTTPStatus.NOT_FOUND, "NoSuchGroup", message, nearest=nearest)
    server_of = None if cluster is None else partial(cluster_views.server_of, cluster)
    ends, held = server.log_ends(views.places(look)), server.held_by(group_id)
    return as_json(views.described(look, ends, held, server_of))


@cache
def packaged(name: str) -> bytes:
    """A file of this package."""
    return resources.files(__package__).joinpath(name).read_bytes()


def metrics(subject: Subject, query: Query) -> Answer:
    """What Prometheus scrapes, or only metrics of the names in `name[]`."""
    server = subject.started()
    try:
        from rota.http import metrics as made
    except ModuleNotFoundError:
        message = f"metrics need the prometheus-client package: {installs('http')}"
        raise RefusedError(HTTPStatus.NOT_IMPLEMENTED, "MetricsNotInstalled", message) from None
    names = [name for name in query.get("name[]", ()) if name] or None
    return Answer(HTTPStatus.OK, made.CONTENT_TYPE_LATEST, made.text(server, subject.health(), names))


def packaged_as(name: str, media_type: str) -> Callable[[Subject, Query], Answer]:
    """A path that is a file of this package."""
    return lambda _subject, _query: Answer(HTTPStatus.OK, media_type, packaged(name))


PATHS: dict[str, Callable[[Subject, Query], Answer]] = {
    "/healthz": healthz,
    "/readyz": readyz,
    "/groups": groups,
    "/metrics": metrics,
    "/schema": packaged_as("schema.json", SCHEMA),
    "/": packaged_as("page.html", "text/html; charset=utf-8"),
    "/page.js": packaged_as("page.js", "text/javascript; charset=utf-8"),
    "/page.css": packaged_as("page.css", "text/css; charset=utf-8"),
}
GROUP = "/groups/"
PARAMETERS = {"/groups": ("limit", "after"), "/metrics": ("name[]",), GROUP: ()}
"""The parameters of paths. Probes and the page take any: proxies and browsers add theirs."""
READING = "GET, HEAD"
CONTROLS = "/control/"


def path_of(target: str) -> str:
    """The path of a request target; all of one that cannot be read, at which nothing is."""
    try:
        return urlsplit(target).path
    except ValueError:
        return target


def is_known(path: str) -> bool:
    """Whether something is shown at a path."""
    return path in PATHS or path.startswith(GROUP)


def wrong_method(allowed: str, message: str) -> Answer:
    """The answer to a method that a path does not take; `allowed` lists those that it takes."""
    refused = as_json({"error": "WrongMethod", "message": message}, HTTPStatus.METHOD_NOT_ALLOWED)
    return refused._replace(headers=(("Allow", allowed),))


def read_only(method: str, path: str) -> Answer:
    """The answer to a method that is neither GET nor HEAD."""
    return wrong_method(READING, f"{path[:200]} takes GET, not {method}: nothing can be changed here")


def answer_to_other(method: str, target: str) -> Answer:
    """The answer of `--http` to a method that is neither GET nor HEAD."""
    path = path_of(target)
    return read_only(method, path) if is_known(path) else as_json(_nothing_at(path).facts, HTTPStatus.NOT_FOUND)


def _nothing_at(path: str) -> RefusedError:
    if path.startswith(CONTROLS):
        message = "the controls have an address of their own: that of `rota serve --control HOST:PORT`"
    else:
        message = f"there is nothing at {path[:200]}; there are {', '.join([*PATHS, f'{GROUP}{{id}}'])}"
    return RefusedError(HTTPStatus.NOT_FOUND, "NoSuchPath", message)


PROBES = ("/healthz", "/readyz")
"""Paths whose status everyone may see: the probes of a container have no token."""


def answer_to_stranger(subject: Subject, target: str) -> Answer | None:
    """The answer to a client without token and certificate: the status of a probe and nothing else, or None."""
    if path_of(target) not in PROBES:
        return None
    shown = answer(subject, target)
    return as_json({"status": json.loads(shown.body).get("status", "not ready")}, shown.status)


def answer(subject: Subject, target: str) -> Answer:
    """The answer to `GET target`."""
    try:
        return _routed(subject, target)
    except RefusedError as refused:
        return as_json(refused.facts, refused.status)
    except _rota.RotaError as error:
        return as_json({"error": type(error).__name__, "message": str(error)}, HTTPStatus.SERVICE_UNAVAILABLE)


def check_parameters(path: str, query: Query) -> None:
    """Refuse a parameter that the path does not have: it would change nothing."""
    known = PARAMETERS.get(GROUP if path.startswith(GROUP) else path)
    other = None if known is None else next((name for name in query if name not in known), None)
    if known is not None and other is not None:
        remedy = f"give {' or '.join(known)}" if known else "leave it out"
        message = f"{path[:80]} has no parameter `{other[:80]}`: {remedy}"
        raise RefusedError(HTTPStatus.BAD_REQUEST, "BadParameter", message)


def _routed(subject: Subject, target: str) -> Answer:
    try:
        url = urlsplit(target)
        query = parse_qs(url.query, keep_blank_values=True, errors="strict", max_num_fields=100)
        group_id = unquote(url.path.removeprefix(GROUP), errors="strict")
    except ValueError as error:
        raise RefusedError(HTTPStatus.BAD_REQUEST, "BadTarget", f"the target cannot be read: {error}") from None
    check_parameters(url.path, query)
    shown = PATHS.get(url.path)
    if shown is not None:
        return shown(subject, query)
    if url.path.startswith(GROUP):
        return group(subject, group_id)
    raise _nothing_at(url.path)
