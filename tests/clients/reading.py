"""Reads whole topics, as readers of committed or of all messages see them."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, TopicPartition

WITHIN_S = 60


def consumer(bootstrap: str, group: str, isolation: str = "read_committed") -> Consumer:
    """A consumer that commits nothing by itself."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )


def read(bootstrap: str, topic: str, partitions: int, isolation: str = "read_committed") -> list[str]:
    """The values of every message up to the end that readers of this isolation level see, sorted."""
    reader = consumer(bootstrap, "not-a-group", isolation)
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    values: list[str] = []
    ended = set[int]()
    while len(ended) < partitions:
        message = reader.poll(WITHIN_S)
        assert message is not None, f"no end of {topic}: {len(values)} messages, the last {values[-3:]}"
        error, partition, value = message.error(), message.partition(), message.value()
        if error is None:
            assert isinstance(value, bytes)
            values.append(value.decode())
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            assert partition is not None
            ended.add(partition)
    reader.close()
    return sorted(values)


def committed(bootstrap: str, group: str, topic: str) -> int:
    """The group's offset in partition 0; negative: none."""
    asker = consumer(bootstrap, group)
    (found,) = asker.committed([TopicPartition(topic, 0)], WITHIN_S)
    asker.close()
    assert found.error is None, found.error
    return int(found.offset)
