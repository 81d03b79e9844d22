"""Views over the rows of logs that the checks and tables are written in: who was told what, when, in which life.

`rows` are all rows with their `pos`, which orders those of one partition. The views that many queries use are kept.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from rota.audit.checks import PATIENCE_MS, SLACK_MS, STRETCH
from rota.audit.logs import JOURNAL

# What differs most comes first: that is what rows are compared by when they are sorted.
KEY = "partition, log, source"
GROUP = "`group`, log, source"
MEMBER = f"member, {GROUP}"

# Of a record of the journal's appends only what became durable counts.
RECORD_KINDS = "('group', 'member', 'assigned', 'subscribed', 'offset')"

OF_RECORD = f"""{KEY}, `group`, kind, offset, pos, at_ms, append_id, generation, leader, protocol, `count`, member,
          instance, client, topic, topic_partition, committed, payload"""

VIEWS: dict[str, str] = {
    # ---- records, as the log of groups has them or as the journal saw them become durable
    "entries": f"""SELECT * FROM all_rows WHERE source = '{JOURNAL}' AND part = 0 AND sequence IS NOT NULL""",
    "appends": f"""SELECT * FROM (
          SELECT {KEY}, `group`, offset, pos, append_id, kind, lead(struct(kind, offset, error, pos)) OVER
            (PARTITION BY {KEY}, append_id ORDER BY pos) AS ended
          FROM rows WHERE kind IN ('append', 'appended'))
        WHERE kind = 'append'""",
    "records": f"""SELECT {OF_RECORD} FROM rows r SEMI JOIN (
            SELECT * FROM appends WHERE ended.kind = 'appended' AND ended.error = 'NONE') a
          ON r.source = a.source AND r.log = a.log AND r.partition = a.partition AND r.offset = a.offset
            AND r.append_id = a.append_id
        WHERE r.kind IN {RECORD_KINDS} AND r.source = '{JOURNAL}'
        UNION ALL SELECT {OF_RECORD} FROM rows WHERE kind IN {RECORD_KINDS} AND source <> '{JOURNAL}'""",
    "lived": f"""SELECT *,
          sum(CAST(kind = 'group' AND generation IS NULL AS INT)) OVER so_far AS life,
          sum(CAST(kind = 'group' AS INT)) OVER so_far AS version
        FROM records WHERE kind IN ('group', 'member')
        WINDOW so_far AS (PARTITION BY {GROUP} ORDER BY pos)""",
    "lives": "SELECT * FROM lived WHERE kind = 'group'",
    "life_members": "SELECT * FROM lived WHERE kind = 'member'",
    "groups": "SELECT * FROM lives WHERE generation IS NOT NULL",
    "members": "SELECT * FROM life_members",
    "assigned": "SELECT * FROM records WHERE kind = 'assigned'",
    # A static member that is replaced gives its partitions to another id in the same generation.
    "owned": f"""SELECT a.*, g.until_offset FROM assigned a JOIN (
          SELECT source, log, `group`, generation, offset,
            lead(offset) OVER (PARTITION BY {GROUP}, generation ORDER BY pos) AS until_offset
          FROM groups) g
          ON a.source = g.source AND a.log = g.log AND a.`group` = g.`group` AND a.generation = g.generation
            AND a.offset = g.offset""",
    "subscribed": "SELECT * FROM records WHERE kind = 'subscribed'",
    # Records that may have a static member that came back with another subscription: its assignment stays as it was.
    "standing": f"""SELECT source, log, `group`, offset FROM (
          SELECT *, lag(generation) OVER (PARTITION BY {GROUP} ORDER BY pos) AS before FROM lives)
        WHERE before IS NULL OR before = generation""",
    "newer_held": f"""SELECT a.*, c.until_pos FROM rows a JOIN (
          SELECT source, log, `group`, member, offset,
            lead(pos) OVER (PARTITION BY {MEMBER} ORDER BY pos) AS until_pos
          FROM rows WHERE kind = 'consumer_current') c
          ON a.source = c.source AND a.log = c.log AND a.`group` = c.`group` AND a.member = c.member
            AND a.offset = c.offset
        WHERE a.kind = 'consumer_assigned'""",
    "durable_offsets": "SELECT * FROM records WHERE kind = 'offset'",
    # ---- incarnations of a journal's coordinators
    # Entries that are numbered as they lie: an incarnation is one run, unless something is wrong with it. There are few
    # of them, so that most questions about the order of entries need not sort those.
    "runs": f"""SELECT {KEY}, min(offset) AS first_offset, max(offset) AS last_offset, max(mono_ms) AS last_mono_ms,
          count(*) AS count
        FROM entries GROUP BY {KEY}, offset - sequence""",
    "disordered": f"""SELECT DISTINCT {KEY} FROM (
          SELECT *, min(first_offset) OVER (PARTITION BY {KEY}) AS beginning FROM runs)
        LEFT JOIN (SELECT {KEY}, offset AS first_offset, true AS began FROM entries WHERE kind = 'began')
          USING ({KEY}, first_offset)
        WHERE count <> last_offset - first_offset + 1 OR (began IS NULL AND first_offset <> beginning)""",
    "incarnations": f"""SELECT {KEY}, incarnation, min(offset) AS first_offset, max(last_offset) AS last_offset,
          max(mono_ms) AS last_mono_ms, bool_or(kind = 'began') AS began, bool_or(kind = 'gap') AS has_gaps,
          min(CASE WHEN kind IN ('loaded', 'snapshot') THEN offset END) AS loaded_offset,
          min(CASE WHEN kind = 'unloaded' THEN offset END) AS unloaded_offset,
          bool_or(kind = 'unloaded') AS unloaded,
          coalesce(max(CASE WHEN kind = 'began' THEN rebalance_timeout_ms END), 0) AS delay_ms
        FROM (SELECT *, sum(CAST(kind = 'began' AS INT)) OVER
                (PARTITION BY {KEY} ORDER BY offset, kind <> 'began') AS incarnation
              FROM (SELECT {KEY}, kind, offset, offset AS last_offset, mono_ms, rebalance_timeout_ms FROM entries
                    WHERE kind IN ('began', 'gap', 'loaded', 'snapshot', 'unloaded')
                    UNION ALL
                    SELECT {KEY}, 'run', first_offset, last_offset, last_mono_ms, NULL FROM runs))
        GROUP BY {KEY}, incarnation""",
    # Which of them an entry belongs to: a join by numbers that are equal, and not by all pairs of one partition.
    "places": f"""SELECT *, explode(sequence(first_offset DIV {STRETCH}, last_offset DIV {STRETCH})) AS stretch
        FROM incarnations""",
    "loading": f"""SELECT *, explode(sequence(first_offset DIV {STRETCH}, until_offset DIV {STRETCH})) AS stretch
        FROM (SELECT *, coalesce(loaded_offset - 1, last_offset) AS until_offset FROM incarnations WHERE began)""",
    "over": f"""SELECT *, explode(sequence(unloaded_offset DIV {STRETCH}, last_offset DIV {STRETCH})) AS stretch
        FROM incarnations WHERE unloaded_offset < last_offset""",
    # ---- requests and their answers
    "asked": "SELECT * FROM rows WHERE kind = 'request'",
    # The answers, and the requests that have none.
    "tickets": f"""SELECT {KEY}, `group`, kind, offset, pos, at_ms, mono_ms, api, ticket, error, member, generation,
          leader, protocol, payload, asked
        FROM (SELECT *, lead(kind) OVER tickets AS next_kind,
          last(CASE WHEN kind = 'request' THEN struct(pos, offset, mono_ms, `group`, api, member, instance, generation,
            session_timeout_ms) END, true) OVER tickets_so_far AS asked
        FROM rows
        WHERE kind = 'answer' OR (kind = 'request' AND (error IS NULL OR api IN ('JoinGroup', 'SyncGroup')))
        WINDOW tickets AS (PARTITION BY ticket, {KEY} ORDER BY pos),
          tickets_so_far AS (PARTITION BY ticket, {KEY} ORDER BY pos
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW))
        WHERE kind = 'answer' OR (error IS NULL AND (next_kind IS NULL OR next_kind <> 'answer'))""",
    "answered": "SELECT * FROM tickets WHERE kind = 'answer'",
    "unanswered": """SELECT * FROM tickets WHERE kind = 'request'""",
    # While a coordinator loads, every Heartbeat is told that all is well (docs/protocol.md §3).
    "accepted": f"""SELECT {KEY}, `group`, api, member, generation, offset, pos, mono_ms FROM rows r
          LEFT ANTI JOIN loading l ON r.source = l.source AND r.log = l.log AND r.partition = l.partition
            AND l.stretch = r.offset DIV {STRETCH} AND r.offset BETWEEN l.first_offset AND l.until_offset
            AND r.api = 'Heartbeat'
          WHERE kind = 'request' AND error = 'NONE' AND api IN ('Heartbeat', 'OffsetCommit') AND member <> ''
        UNION ALL
        SELECT {KEY}, asked.`group`, api, asked.member, asked.generation, asked.offset, asked.pos, asked.mono_ms
          FROM answered WHERE error = 'NONE' AND api IN ('OffsetCommit', 'SyncGroup') AND asked.member <> ''""",
    # Records that a group's life begins or ends with, whatever becomes of them: tombstones, and generation 0 where the
    # log has no other one that is alive.
    "beginnings": f"""SELECT {KEY}, `group`, offset, pos, mono_ms, generation FROM (
          SELECT *, max(durable) OVER (PARTITION BY {GROUP} ORDER BY pos
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS last
          FROM (SELECT {KEY}, `group`, kind, offset, pos, mono_ms, generation, NULL AS durable
                FROM rows WHERE kind = 'group' AND source = '{JOURNAL}'
                UNION ALL
                SELECT {KEY}, `group`, 'durable', offset, a.ended.pos, NULL, NULL, struct(offset, generation)
                FROM lives JOIN appends a USING (source, log, partition, offset, append_id, `group`)))
        WHERE kind = 'group' AND (generation IS NULL OR (generation = 0 AND coalesce(last.generation, 0) = 0))""",
    "told_and_committed": f"""SELECT t.*, concat(i.incarnation, '.', t.beginnings) AS life
        FROM (SELECT *, sum(CAST(kind = 'group' AS INT)) OVER (PARTITION BY {GROUP} ORDER BY pos) AS beginnings
              FROM (SELECT {KEY}, `group`, kind, offset, pos, mono_ms, at_ms, member, asked.instance AS instance,
                      generation, leader, protocol, asked.session_timeout_ms AS session_timeout_ms,
                      struct(asked.mono_ms, asked.offset, asked.member) AS asked
                    FROM answered WHERE api = 'JoinGroup' AND error = 'NONE'
                    UNION ALL
                    SELECT {KEY}, `group`, 'commit', offset, pos, mono_ms, NULL, member, NULL, generation, NULL, NULL,
                      NULL, NULL
                    FROM accepted WHERE api = 'OffsetCommit'
                    UNION ALL
                    SELECT {KEY}, `group`, 'group', offset, pos, mono_ms, NULL, NULL, NULL, generation, NULL, NULL,
                      NULL, NULL
                    FROM beginnings
                    UNION ALL
                    SELECT {KEY}, `group`, kind, offset, pos, mono_ms, NULL, member, instance, generation, NULL, NULL,
                      session_timeout_ms, NULL
                    FROM rows WHERE source = '{JOURNAL}' AND kind = 'held')) t
        JOIN places i ON t.source = i.source AND t.log = i.log AND t.partition = i.partition
          AND i.stretch = t.offset DIV {STRETCH} AND t.offset BETWEEN i.first_offset AND i.last_offset""",
    "told_joins": "SELECT * FROM told_and_committed WHERE kind = 'answer'",
    "returns": f"""SELECT b.*, g.offset AS gone_offset, r.member IS NOT NULL AS was_replaced
        FROM (SELECT *, lag(version) OVER (PARTITION BY {MEMBER} ORDER BY pos) AS last_version
              FROM life_members) b
        JOIN lives g ON b.source = g.source AND b.log = g.log AND b.`group` = g.`group`
          AND g.version = b.last_version + 1
        LEFT JOIN life_members r ON b.source = r.source AND b.log = r.log AND b.`group` = r.`group`
          AND r.version = g.version AND r.instance = b.instance AND r.member <> b.member
        LEFT JOIN (SELECT {MEMBER} FROM told_joins WHERE instance IS NOT NULL
            UNION SELECT {MEMBER} FROM rows WHERE kind = 'held' AND note = 'loaded' AND instance IS NOT NULL) t
          ON r.source = t.source AND r.log = t.log AND r.`group` = t.`group` AND r.member = t.member
        WHERE b.version > b.last_version + 1
          AND (r.member IS NULL OR t.member IS NOT NULL OR b.source <> '{JOURNAL}')""",
    "accepted_commits": "SELECT * FROM told_and_committed WHERE kind = 'commit'",
    "commit_rows": """SELECT r.* FROM rows r SEMI JOIN accepted_commits c
          ON r.source = c.source AND r.log = c.log AND r.partition = c.partition AND r.offset = c.offset
        WHERE r.kind = 'commit'""",
    "told_syncs": f"""SELECT {KEY}, `group`, offset, pos, mono_ms, asked.member AS member,
          asked.generation AS generation, payload
        FROM answered WHERE api = 'SyncGroup' AND error = 'NONE' AND asked IS NOT NULL""",
    "listed": "SELECT * FROM rows WHERE kind = 'listed'",
    "planned": f"""SELECT {GROUP}, generation, member, payload FROM rows
        WHERE kind IN ('plan', 'held') AND (error IS NULL OR error = 'NONE')
        UNION ALL SELECT {GROUP}, generation, member, payload FROM records WHERE kind = 'member'""",
    "durable_generations": f"""SELECT {GROUP}, generation, min(a.offset) AS append_offset,
          min_by(a.ended.offset, a.offset) AS offset
        FROM groups JOIN appends a USING (source, log, partition, offset, append_id, `group`)
        WHERE count > 0 GROUP BY {GROUP}, generation""",
    "patience": f"""SELECT {GROUP}, max(greatest(session_timeout_ms, rebalance_timeout_ms)) AS wait_ms
        FROM rows WHERE source = '{JOURNAL}'
          AND (kind IN ('held', 'member') OR (kind = 'request' AND api = 'JoinGroup'))
        GROUP BY {GROUP}""",
    # ---- members that are gone
    "lists": f"""SELECT {KEY}, `group`, offset, max(pos) AS pos, collect_set(member) AS members
        FROM listed GROUP BY {KEY}, `group`, offset""",
    "departures": f"""SELECT {KEY}, `group`, member, offset, pos, 'left' AS how FROM rows
          WHERE kind = 'leaver' AND error = 'NONE' AND member <> ''
        UNION ALL
        SELECT {KEY}, `group`, before, offset, pos, 'replaced'
          FROM (SELECT *, lag(member) OVER (PARTITION BY {GROUP}, instance ORDER BY pos) AS before
                FROM told_joins WHERE instance IS NOT NULL)
          WHERE before <> member
        UNION ALL
        SELECT {KEY}, `group`, explode(array_except(before, members)), offset, pos, 'not listed'
          FROM (SELECT *, lag(members) OVER (PARTITION BY {GROUP} ORDER BY pos) AS before FROM lists)
          WHERE before IS NOT NULL""",
    # A state that is loaded may have a member again whose leaving had not become durable.
    "lasting": f"""SELECT * FROM (
          SELECT *, min(CASE WHEN how = 'held' THEN pos END) OVER (PARTITION BY {MEMBER} ORDER BY pos
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS back_pos
          FROM (SELECT * FROM departures
                UNION ALL SELECT {KEY}, `group`, member, offset, pos, 'held' FROM rows WHERE kind = 'held'))
        WHERE how <> 'held'""",
    "accepted_of_departed": f"""SELECT {KEY}, `group`, generation, offset, member, api, how, gone_offset
        FROM (SELECT a.*, d.how, d.offset AS gone_offset, d.pos AS gone_pos,
                row_number() OVER (PARTITION BY a.source, a.log, a.partition, a.pos
                  ORDER BY d.how = 'replaced' DESC, d.pos) AS nth
              FROM accepted a JOIN lasting d
                ON a.source = d.source AND a.log = d.log AND a.`group` = d.`group` AND a.member = d.member
                  AND a.pos > d.pos AND (d.back_pos IS NULL OR a.pos < d.back_pos))
        WHERE nth = 1""",
    # ---- sessions
    # What arms a session is a join phase that is completed (docs/protocol.md §7.2): its generation is new. Who is told
    # of one that is known changes nothing; a static newcomer has its predecessor's session, from when it asked. Such a
    # phase and a whole state say for certain what a session timeout is; since then it may have been any that was asked.
    "armed": f"""SELECT {KEY}, `group`, member, offset, pos, mono_ms,
          CASE WHEN begins THEN struct(mono_ms, offset)
            WHEN asked.member = '' THEN struct(asked.mono_ms, asked.offset) END AS armed,
          CASE WHEN begins THEN session_timeout_ms ELSE shortest_ms END AS session_timeout_ms
        FROM (SELECT *, min(session_timeout_ms) OVER (
                  PARTITION BY {GROUP}, who, certainties ORDER BY pos) AS shortest_ms
              FROM (SELECT *, sum(CAST(kind = 'held' OR (kind = 'answer' AND begins) AS INT)) OVER (
                        PARTITION BY {GROUP}, who ORDER BY pos) AS certainties
                    FROM (SELECT *, coalesce(instance, member) AS who,
                            generation > coalesce(max(CASE WHEN kind <> 'commit' THEN generation END) OVER (
                              PARTITION BY {GROUP}, life ORDER BY offset
                              RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), -1) AS begins
                          FROM told_and_committed)))
        WHERE kind = 'answer'""",
    "known_members": f"""SELECT {GROUP}, member, min(pos) AS pos FROM (
          SELECT {GROUP}, member, pos FROM told_joins
          UNION ALL SELECT {GROUP}, member, pos FROM rows WHERE kind = 'held')
        GROUP BY {GROUP}, member""",
    "expiring": """SELECT e.source, e.log, e.partition, e.`group`, k.member, e.offset, e.pos, e.mono_ms
        FROM rows e JOIN known_members k
          ON e.source = k.source AND e.log = k.log AND e.`group` = k.`group` AND k.pos < e.pos
        LEFT ANTI JOIN lasting d
          ON e.source = d.source AND e.log = d.log AND e.`group` = d.`group` AND k.member = d.member AND d.pos < e.pos
            AND (d.back_pos IS NULL OR e.pos < d.back_pos)
        WHERE e.kind = 'timer' AND e.timer = 'Session'""",
    "sessions_at_expiry": f"""SELECT * FROM (
          SELECT *, last(armed.mono_ms, true) OVER so_far AS armed_ms,
            last(armed.offset, true) OVER so_far AS armed_offset, last(session, true) OVER so_far AS session_timeout_ms
          FROM (SELECT {KEY}, `group`, member, offset, pos, mono_ms, NULL AS armed, NULL AS session, true AS expires
                FROM expiring
                UNION ALL
                SELECT {KEY}, `group`, member, offset, pos, mono_ms, struct(mono_ms, offset), NULL, false
                FROM accepted SEMI JOIN (SELECT DISTINCT {MEMBER} FROM expiring) USING ({MEMBER})
                WHERE api = 'Heartbeat'
                UNION ALL
                SELECT {KEY}, `group`, member, offset, pos, mono_ms, armed, session_timeout_ms, false FROM armed
                UNION ALL
                SELECT {KEY}, `group`, member, offset, pos, mono_ms,
                  CASE WHEN note = 'loaded' THEN struct(mono_ms, offset) END, session_timeout_ms, false
                FROM rows WHERE kind = 'held')
          WINDOW so_far AS (PARTITION BY {MEMBER} ORDER BY pos
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW))
        WHERE expires""",
    # ---- silence
    "heard": f"""SELECT {KEY}, `group`, member, generation, offset, pos, mono_ms, NULL AS session_timeout_ms,
          api = 'Heartbeat' AND error = 'NONE' AS is_well, CAST(api IN ('JoinGroup', 'SyncGroup') AS INT) AS parked
        FROM rows WHERE kind = 'request' AND member <> ''
        UNION ALL
        SELECT {KEY}, asked.`group`, asked.member, asked.generation, offset, pos, mono_ms, NULL, false,
          -CAST(api IN ('JoinGroup', 'SyncGroup') AS INT)
        FROM answered WHERE asked.member <> ''
        UNION ALL
        SELECT {KEY}, `group`, member, generation, offset, pos, mono_ms, session_timeout_ms, false, 0 FROM told_joins
        UNION ALL
        SELECT {KEY}, `group`, member, generation, offset, pos, mono_ms, session_timeout_ms, false, 0
        FROM rows WHERE kind = 'held'""",
    "silences": f"""SELECT * FROM (
          SELECT {KEY}, `group`, member, generation, offset, pos, mono_ms, is_well,
            sum(parked) OVER so_far AS parked, last(session_timeout_ms, true) OVER so_far AS session_timeout_ms,
            lag(mono_ms) OVER heard AS before_ms, lag(offset) OVER heard AS before_offset
          FROM heard
          WINDOW heard AS (PARTITION BY {MEMBER} ORDER BY pos),
            so_far AS (PARTITION BY {MEMBER} ORDER BY pos
              ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW))
        WHERE is_well AND parked <= 0 AND mono_ms - before_ms > session_timeout_ms + {SLACK_MS}""",
    # ---- requests of a phase that were parked for longer than any member may be waited for
    "parked_long": f"""SELECT * FROM (
          SELECT a.*, greatest(p.wait_ms, i.delay_ms) AS limit_ms
          FROM answered a JOIN patience p ON a.source = p.source AND a.log = p.log AND a.`group` = p.`group`
          JOIN places i ON a.source = i.source AND a.log = i.log AND a.partition = i.partition
            AND i.stretch = a.offset DIV {STRETCH} AND a.offset BETWEEN i.first_offset AND i.last_offset
          WHERE a.api IN ('JoinGroup', 'SyncGroup') AND a.asked.offset >= i.first_offset)
        WHERE mono_ms - asked.mono_ms > limit_ms + {SLACK_MS}""",
    # Silences and phases during which the coordinator was told that it is later than their end, and phases that
    # outlived it by so much that it must have been: a process that stands still is not told the time.
    "overlooked": f"""SELECT /*+ BROADCAST(s) */ DISTINCT s.partition, s.log, s.source, s.pos
        FROM entries e JOIN (
          SELECT {KEY}, pos, before_offset, offset, before_ms + session_timeout_ms AS end_ms, mono_ms FROM silences
          UNION ALL
          SELECT {KEY}, pos, asked.offset, offset, asked.mono_ms + limit_ms, mono_ms FROM parked_long) s
        ON s.partition = e.partition AND s.log = e.log AND s.source = e.source
          AND e.offset BETWEEN s.before_offset AND s.offset AND e.mono_ms BETWEEN s.end_ms AND s.mono_ms - {SLACK_MS}
        UNION
        SELECT {KEY}, pos FROM parked_long WHERE mono_ms - asked.mono_ms > limit_ms + {PATIENCE_MS}""",
    # ---- generations, from whatever shows them
    "rounds": f"""SELECT {KEY}, `group`, generation, min(offset) AS offset, min(pos) AS pos, min(at_ms) AS at_ms
          FROM told_joins GROUP BY {KEY}, `group`, generation
        UNION ALL
        SELECT {KEY}, `group`, generation, min(offset), min(pos), min(at_ms)
          FROM groups WHERE source <> '{JOURNAL}' GROUP BY {KEY}, `group`, generation""",
}

PLACE = "views"
"""The directory of the views that are written down."""

# Used by many queries and small beside the rows. They are written down: a query on a file is planned in no time, one on
# views of views is not.
KEPT = (
    "appends",
    "records",
    "lived",
    "runs",
    "incarnations",
    "tickets",
    "told_and_committed",
    "returns",
    "lasting",
    "accepted_of_departed",
    "expiring",
    "silences",
    "parked_long",
    "overlooked",
)


def define(spark: SparkSession, output: Path) -> None:
    """Define the views over `all_rows` (whole logs) and `rows` (those of the groups that are asked about)."""
    for name, sql in VIEWS.items():
        frame = spark.sql(sql)
        if name in KEPT:
            target = str(output / PLACE / name)
            frame.write.mode("overwrite").parquet(target)
            frame = spark.read.schema(frame.schema).parquet(target)
        frame.createOrReplaceTempView(name)


def forget(output: Path) -> None:
    """Let go of what was kept."""
    shutil.rmtree(output / PLACE, ignore_errors=True)
