"""The tables that an audit keeps: what groups were, who was in them, who owned what, what was committed."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from rota import _rota
from rota.audit.coverage import Line
from rota.audit.hadoop import Target, spark_path
from rota.audit.logs import JOURNAL
from rota.audit.stores import Store
from rota.audit.verdict import Verdict
from rota.audit.views import KEPT_IN, keyed
from rota.journal import JOURNAL_DIRECTORY

# `names` says what the numbers of the views stand for.
NAMES = "source, log, partition, `group`, partition_key, group_key"

# The groups' records one after the other, before it is said why they came to be. The end of a group is the end of its
# last generation, and none itself.
VERSIONS = f"""SELECT {NAMES}, generation, leader, protocol, at_ms AS from_ms, to_ms, members,
          array_except(members, before) AS joined, array_except(before, members) AS gone, offset
        FROM (SELECT g.*, lead(g.at_ms) OVER versions AS to_ms, coalesce(m.members, array()) AS members,
                coalesce(lag(m.members) OVER versions, array()) AS before
              FROM lives g LEFT JOIN (
                SELECT gid, version, sort_array(collect_set(member)) AS members FROM members
                GROUP BY gid, version) m ON g.gid = m.gid AND g.version = m.version
              WINDOW versions AS (PARTITION BY g.gid ORDER BY g.pos))
        JOIN names USING (place, gid) WHERE generation IS NOT NULL"""

# A journal lies in a directory of that name beside the log of groups that it tells about.
TABLES: dict[str, str] = {
    "generations": f"""SELECT v.*, w.why.cause AS cause, w.why.member AS cause_member, w.why.reason AS cause_reason
        FROM versions v LEFT JOIN (
          SELECT v.source, v.log, v.`group`, v.offset, max_by(struct(c.cause, c.member, c.reason), c.began_ms) AS why
          FROM versions v JOIN causes c
            ON c.log = CASE WHEN v.source = '{JOURNAL}' THEN v.log ELSE concat(v.log, '/{JOURNAL_DIRECTORY}') END
              AND v.`group` = c.`group` AND v.generation = c.generation AND c.began_ms <= v.from_ms
          GROUP BY v.source, v.log, v.`group`, v.offset) w
          ON v.source = w.source AND v.log = w.log AND v.`group` = w.`group` AND v.offset = w.offset""",
    "membership": f"""SELECT {NAMES}, life, member, first(instance, true) AS instance,
          first(client, true) AS client, min(generation) AS first_generation, max(generation) AS last_generation,
          min(at_ms) AS first_ms, max(at_ms) AS last_ms
        FROM members JOIN names USING (place, gid) GROUP BY {NAMES}, life, member""",
    "ownership": f"""SELECT a.source, a.log, a.partition, a.`group`, a.partition_key, a.group_key,
          a.generation, a.topic, a.topic_partition, a.member, g.from_ms, g.to_ms
        FROM (SELECT {NAMES}, generation, topic, topic_partition, member, offset
              FROM assigned JOIN names USING (place, gid)) a
        JOIN generations g
          ON a.source = g.source AND a.log = g.log AND a.`group` = g.`group` AND a.offset = g.offset
            AND a.generation = g.generation""",
    "commits": f"""SELECT {NAMES}, topic, topic_partition, committed, at_ms, offset
        FROM durable_offsets JOIN names USING (place, gid)""",
    "lag": """SELECT c.log, c.`group`, c.group_key, c.topic, c.topic_partition, c.committed, e.end_offset,
          e.end_offset - c.committed AS lag
        FROM (SELECT log, `group`, group_key, topic, topic_partition, max_by(committed, offset) AS committed
              FROM commits
              WHERE source = 'offsets' GROUP BY log, `group`, group_key, topic, topic_partition) c
        JOIN end_offsets e USING (log, topic, topic_partition) WHERE c.committed IS NOT NULL""",
}

END_OFFSETS = "log string, topic string, topic_partition int, end_offset bigint"


def end_offsets(logs: set[str]) -> list[tuple[str, str, int, int]]:
    """The ends of the topics' partitions that lie beside `__consumer_offsets`."""
    found = []
    for log in sorted(logs):
        try:
            partitions = _rota.DataLog(Path(log)).partitions()
        except OSError:
            continue  # what cannot be read is a row of its own
        found += [(log, topic, index, end) for topic, index, _, end in partitions if not topic.startswith("__")]
    return found


def write(
    spark: SparkSession,
    output: Target,
    store: Store,
    verdicts: list[Verdict],
    coverage: list[Line],
    causes: DataFrame,
    files: int = 1,
) -> None:
    """Write the tables beside `events`, each as at most so many files for each day; each stays a view of its name."""
    logs = {row.log for row in spark.sql("SELECT DISTINCT log FROM all_rows WHERE source = 'offsets'").collect()}
    spark.createDataFrame(end_offsets(logs), END_OFFSETS).createOrReplaceTempView("end_offsets")
    spark.sql(
        "SELECT DISTINCT place, gid, log, partition, `group`, partition_key, group_key FROM rows"
    ).createOrReplaceTempView("names")
    spark.sql(VERSIONS).createOrReplaceTempView("versions")
    kept = spark_path(output / KEPT_IN / "causes")
    causes.coalesce(1).write.mode("overwrite").parquet(kept)
    spark.read.parquet(kept).createOrReplaceTempView("causes")
    for name, sql in TABLES.items():
        store.replace(name, spark.sql(sql).coalesce(files)).createOrReplaceTempView(name)
    store.replace("verdicts", verdict_rows(spark, verdicts).coalesce(1))
    store.replace("coverage", spark.createDataFrame(coverage, COVERAGE).coalesce(1))


def verdict_rows(spark: SparkSession, verdicts: list[Verdict]) -> DataFrame:
    """Verdicts as their table has them."""
    return keyed(spark.createDataFrame(verdicts, VERDICTS))


VERDICTS = (
    "id string, name string, severity string, source string, log string, partition int, `group` string,"
    " generation int, first_offset bigint, last_offset bigint, at_ms bigint, members array<string>, witness string,"
    " reproduce string, also string"
)
COVERAGE = "source string, log string, id string, decided string, why string"
