"""`make monitoring`: Prometheus itself reads the metrics, runs the alert rules and answers the dashboard's queries.

Not a part of `make test`, which should not need a Prometheus (Debian and Ubuntu have a package of that name). It fails
with the first thing that does not hold.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from confluent_kafka import KafkaException, Producer, TopicPartition

import rota
from harness.brokers import free_port

from .asking import SETTINGS, ask, consumer, leave, settle, until

HERE = Path(__file__).parent
MONITORING = HERE.parents[1] / "docs/monitoring"
SCRAPES_EVERY_S = 1
#: What Grafana puts in place of its variables.
VARIABLES = {"$instance": ".*", "$__rate_interval": "10s"}


def promtool(*arguments: object, given: bytes | None = None) -> None:
    """What it says is shown; an exit code is an end."""
    command = ["promtool", *map(str, arguments)]
    print("$", *command, flush=True)
    subprocess.run(command, input=given, check=True, cwd=HERE)


def queries() -> list[tuple[str, str]]:
    """Title and query of each panel's targets, with Grafana's variables filled in."""
    found = []
    for panel in json.loads((MONITORING / "grafana.json").read_text())["panels"]:
        for target in panel["targets"]:
            query = target["expr"]
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            found.append((panel["title"], query))
    return found


def live(server: rota.Server) -> None:
    """Something of everything that panels show: messages, commits, refusals, rebalances, an expiry."""
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
    for _ in range(10):
        producer.produce("t", b"x", partition=0)
    producer.flush(60)
    ana, ben = consumer(server, "ana"), consumer(server, "ben")
    settle(server, ana, ben)
    ana.commit(offsets=[TopicPartition("t", 0, 3)], asynchronous=False)
    server.inject_error("OffsetCommit", "INVALID_COMMIT_OFFSET_SIZE", times=1)
    with suppress(KafkaException):
        ana.commit(offsets=[TopicPartition("t", 0, 4)], asynchronous=False)
    server.expire(ben.memberid())
    settle(server, ana, ben)
    leave(server, ana, ben)


@contextmanager
def prometheus(target: str) -> Iterator[str]:
    """A Prometheus that scrapes the target and runs the rules; where it answers."""
    with tempfile.TemporaryDirectory() as place:
        config = Path(place) / "prometheus.yml"
        scraped = {"job_name": "rota", "static_configs": [{"targets": [target]}]}
        every = {"scrape_interval": f"{SCRAPES_EVERY_S}s", "evaluation_interval": f"{SCRAPES_EVERY_S}s"}
        rules = [str(MONITORING / "alerts.yml")]
        # JSON is YAML, too.
        config.write_text(json.dumps({"global": every, "rule_files": rules, "scrape_configs": [scraped]}))
        promtool("check", "config", config)
        address = f"127.0.0.1:{free_port()}"
        options = [f"--config.file={config}", f"--storage.tsdb.path={place}/data", f"--web.listen-address={address}"]
        with subprocess.Popen(["prometheus", "--log.level=error", *options]) as process:
            try:
                yield address
            finally:
                process.terminate()


def asked(address: str, path: str, **query: str) -> Any:
    """What its API answers; None while it does not."""
    try:
        with urlopen(f"http://{address}/api/v1/{path}?{urlencode(query)}", timeout=10) as answer:
            return json.load(answer)["data"]
    except OSError:
        return None


def values(address: str, query: str) -> list[float]:
    """The values of an instant query; None of them is nothing that could be drawn."""
    found = asked(address, "query", query=query)
    return [] if found is None else [float(one["value"][1]) for one in found["result"]]


def main() -> None:
    """All of it."""
    absent = [name for name in ("promtool", "prometheus") if shutil.which(name) is None]
    if absent:
        sys.exit(f"needs {' and '.join(absent)}: apt-get install prometheus")
    promtool("check", "rules", MONITORING / "alerts.yml")
    promtool("test", "rules", "alerts.yml")
    with tempfile.TemporaryDirectory() as place, rota.Server(data=place, settings=SETTINGS, http=":0") as server:
        assert server.http_address is not None
        server.create_topic("t", partitions=2)
        with prometheus(server.http_address) as address:
            until(lambda: values(address, "up") == [1.0], "a scrape")
            live(server)
            promtool("check", "metrics", given=ask(server, "/metrics")[2])
            begun = time.time()
            until(lambda: values(address, "timestamp(rota_build_info)")[0] > begun + 2 * SCRAPES_EVERY_S, "scrapes")
            for title, query in queries():
                told = values(address, query)
                assert told, f"{title}: {query} answers nothing"
                print(f"{title}: {len(told)} series, {min(told):.4g} to {max(told):.4g}", flush=True)
            rules = asked(address, "rules")["groups"][0]["rules"]
            unwell = [rule["name"] for rule in rules if rule["health"] != "ok"]
            assert not unwell, unwell
            print(f"{len(rules)} alert rules are evaluated; pending or firing:", end=" ")
            print(*[rule["name"] for rule in rules if rule["state"] != "inactive"] or ["none"])


if __name__ == "__main__":
    main()
