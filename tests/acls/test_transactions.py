"""The rights of docs/transactions.md §12: a client without them is refused, and one with them commits."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

import rota
from tests.acls.record import PASSWORDS

WITHIN_S = 30
TRANSACTIONAL_ID, TOPIC, GROUP = "pay", "t", "g"
ALLOWED = [
    f"ALLOW User:ana * WRITE TRANSACTIONAL_ID LITERAL {TRANSACTIONAL_ID}",
    f"ALLOW User:ana * WRITE TOPIC LITERAL {TOPIC}",
    f"ALLOW User:ana * READ TOPIC LITERAL {TOPIC}",
    f"ALLOW User:ana * READ GROUP LITERAL {GROUP}",
]
REFUSED = [
    ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", 0),
    ("TOPIC_AUTHORIZATION_FAILED", 1),
    ("GROUP_AUTHORIZATION_FAILED", 3),
]


def commit(server: rota.Server) -> None:
    """A transaction with a message and an offset."""
    config = server.client_config("librdkafka", user="ana", password=PASSWORDS["ana"])
    producer = Producer(config | {"transactional.id": TRANSACTIONAL_ID})
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    producer.produce(TOPIC, value="v", partition=0)
    producer.flush(WITHIN_S)  # a refusal is known before the offsets are sent
    consumer = Consumer(config | {"group.id": GROUP})
    producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, 1)], consumer.consumer_group_metadata(), WITHIN_S)
    producer.commit_transaction(WITHIN_S)
    consumer.close()


def serving(acls: list[str]) -> rota.Server:
    server = rota.Server(sasl="PLAIN", users=PASSWORDS, acls=acls, settings={"super.users": "User:admin"})
    server.create_topic(TOPIC, 1)
    return server


def test_a_client_with_all_rights_commits() -> None:
    with serving(ALLOWED) as server:
        commit(server)
        assert [message.value for message in server.messages(TOPIC)] == [b"v"]


@pytest.mark.parametrize(("error", "missing"), REFUSED, ids=[error for error, _ in REFUSED])
def test_a_client_without_one_of_the_rights_is_refused(error: str, missing: int) -> None:
    with serving([acl for at, acl in enumerate(ALLOWED) if at != missing]) as server:
        with pytest.raises(KafkaException) as refused:
            commit(server)
        assert refused.value.args[0].name() == error, refused.value
