"""What SQL makes of rows, without logs."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from rota.audit.tables import VERSIONS
from rota.audit.views import VIEWS

# One worker has the one Spark session.
pytestmark = [pytest.mark.xdist_group("audit"), pytest.mark.timeout(2400)]

RECORDS = (
    "place bigint, gid bigint, kind string, offset bigint, pos bigint, at_ms bigint, generation int, leader string,"
    " protocol string, member string"
)
NAMED = (
    "place bigint, gid bigint, source string, log string, partition int, `group` string, partition_key string,"
    " group_key string"
)


def test_a_generation_ends_with_its_group(spark: SparkSession) -> None:
    session = spark.newSession()
    records = [
        (1, 1, "group", 0, 0, 10, 1, "m1", "range", None),
        (1, 1, "member", 0, 1, 10, 1, None, None, "m1"),
        (1, 1, "group", 1, 2, 30, None, None, None, None),
        (1, 1, "group", 2, 3, 50, 1, "m2", "range", None),
        (1, 1, "member", 2, 4, 50, 1, None, None, "m2"),
    ]
    session.createDataFrame(records, RECORDS).createOrReplaceTempView("records")
    named = [(1, 1, "offsets", "data", 0, "payments", "p", "g")]
    session.createDataFrame(named, NAMED).createOrReplaceTempView("names")
    for name in ("lived", "lives", "members"):
        session.sql(VIEWS[name]).createOrReplaceTempView(name)
    rows = session.sql(f"SELECT * FROM ({VERSIONS}) ORDER BY offset").collect()
    assert [(row.generation, row.from_ms, row.to_ms, row.members, row.joined, row.gone) for row in rows] == [
        (1, 10, 30, ["m1"], ["m1"], []),
        (1, 50, None, ["m2"], ["m2"], []),
    ]
