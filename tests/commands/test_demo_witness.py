"""The demo's observer: what it asks of a broker, and how it tidies up there."""

from __future__ import annotations

from concurrent.futures import Future
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from rota.demo import witness
from rota.demo.witness import Observer


class Broker:
    """Stands in for the admin client: answers each request to delete the group with the next of `answers`."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)

    def delete_topics(self, _: list[str]) -> dict[str, Future[None]]:
        return {}

    def delete_consumer_groups(self, groups: list[str]) -> dict[str, Future[None]]:
        answered: Future[None] = Future()
        code = self.answers.pop(0)
        if code == KafkaError.NO_ERROR:
            answered.set_result(None)
        else:
            answered.set_exception(KafkaException(KafkaError(code)))
        return {groups[0]: answered}


def an_observer(monkeypatch: pytest.MonkeyPatch, broker: Broker) -> Observer:
    monkeypatch.setattr(witness, "ASK_AGAIN_S", 0.0)
    observer = Observer({"bootstrap.servers": "127.0.0.1:1"}, "roster", lambda _: None, 60_000)
    observer._admin = cast("AdminClient", broker)
    return observer


def test_the_group_is_deleted_once_its_killed_members_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(KafkaError.NON_EMPTY_GROUP, KafkaError.NON_EMPTY_GROUP, KafkaError.NO_ERROR)
    an_observer(monkeypatch, broker).remove({})
    assert broker.answers == []


def test_a_group_that_the_broker_will_not_delete_is_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.NO_ERROR)
    an_observer(monkeypatch, broker).remove({})
    assert broker.answers == [KafkaError.NO_ERROR]
