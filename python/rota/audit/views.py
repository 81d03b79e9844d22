"""Views over the rows of logs that the tables are written in: records that became durable, and lives of groups.

`all_rows` are whole logs, `rows` those of the groups that are asked about, both as `numbered` makes them: rows are
sorted and joined by numbers. What is kept has keys instead, which are the same in every audit.
"""

from __future__ import annotations

import secrets
import shutil

from pyspark.sql import DataFrame, SparkSession

from rota.audit.hadoop import HadoopPath, Target, spark_path
from rota.audit.logs import JOURNAL

# Of a record of the journal's appends only what became durable counts.
RECORD_KINDS = "('group', 'member', 'assigned', 'subscribed', 'offset')"

OF_RECORD = """place, gid, source, kind, offset, pos, at_ms, append_id, generation, leader, protocol, `count`,
          member, instance, client, topic, topic_partition, committed, payload"""

VIEWS: dict[str, str] = {
    "newer": "SELECT gid, min(pos) AS since FROM rows WHERE kind LIKE 'consumer%' GROUP BY gid",
    "appends": """SELECT * FROM (
          SELECT place, gid, offset, pos, append_id, kind,
            lead(struct(kind, offset, error, pos)) OVER (PARTITION BY place, append_id ORDER BY pos) AS ended
          FROM all_rows WHERE kind IN ('append', 'appended'))
        WHERE kind = 'append'""",
    "failed": """SELECT place, offset, append_id FROM appends
        WHERE ended IS NULL OR ended.kind <> 'appended' OR ended.error <> 'NONE'""",
    "durable": f"""SELECT /*+ BROADCAST(f, n) */ {OF_RECORD} FROM rows r ANTI JOIN failed f
          ON r.place = f.place AND r.offset = f.offset AND r.append_id = f.append_id
        ANTI JOIN newer n ON r.kind <> 'offset' AND r.gid = n.gid AND r.pos >= n.since
        WHERE r.kind IN {RECORD_KINDS} AND (r.source <> '{JOURNAL}' OR r.append_id IS NOT NULL)""",
    "records": "SELECT * FROM durable WHERE kind <> 'offset'",
    "lived": """SELECT *,
          sum(CAST(kind = 'group' AND generation IS NULL AS INT)) OVER so_far AS life,
          sum(CAST(kind = 'group' AS INT)) OVER so_far AS version
        FROM records WHERE kind IN ('group', 'member')
        WINDOW so_far AS (PARTITION BY gid ORDER BY pos)""",
    "lives": "SELECT * FROM lived WHERE kind = 'group'",
    "members": "SELECT * FROM lived WHERE kind = 'member'",
    "assigned": "SELECT * FROM records WHERE kind = 'assigned'",
    "durable_offsets": "SELECT * FROM durable WHERE kind = 'offset'",
}

KEPT_IN = "views"
"""The directory of the views that are written down."""

# Used by many queries and small beside the rows.
KEPT = ("newer", "appends", "records", "lived")


def keyed(rows: DataFrame) -> DataFrame:
    """Rows with the keys of the partition of a log and of the group, which are the same in every audit."""
    key = "left(sha2(concat_ws(chr(0), source, log, {}), 256), 32)"
    of_group = f"CASE WHEN `group` IS NOT NULL THEN {key.format('`group`')} END AS group_key"
    return rows.selectExpr("*", f"{key.format('CAST(partition AS STRING)')} AS partition_key", of_group)


def numbered(rows: DataFrame) -> DataFrame:
    """Rows with the numbers that the views know them by: `place` of the partition of a log, `gid` of the group, and
    `pos`, which orders the rows of a partition.

    `place` and `gid` are hashes of 64 bits, salted so that a client cannot choose names with equal hashes.
    """
    # There are names that xxhash64 maps to one number with any salt; none are known for SHA-256, which keys are of.
    salt = secrets.randbits(62)
    return rows.selectExpr(
        "*",
        f"xxhash64({salt}L, partition_key) AS place",
        f"CASE WHEN group_key IS NOT NULL THEN xxhash64({salt}L, group_key) END AS gid",
        "offset * 1048576 + part AS pos",
    )


def define(spark: SparkSession, output: Target) -> None:
    """Define the views over `all_rows` and `rows`. Those that many queries use are kept as Parquet below `output`."""
    for name, sql in VIEWS.items():
        frame = spark.sql(sql)
        if name in KEPT:
            target = spark_path(output / KEPT_IN / name)
            frame.write.mode("overwrite").parquet(target)
            frame = spark.read.schema(frame.schema).parquet(target)
        frame.createOrReplaceTempView(name)


def forget(output: Target) -> None:
    """Let go of what was kept."""
    kept = output / KEPT_IN
    if isinstance(kept, HadoopPath):
        kept.unlink()
    else:
        shutil.rmtree(kept, ignore_errors=True)
