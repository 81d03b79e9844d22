"""Messages that kafka-python does not have: ConsumerGroupDescribe, from the schemas beside this file."""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__name__): ...  # type: ignore[misc, call-arg]


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__name__): ...  # type: ignore[misc, call-arg]
