"""Views over the rows of logs that the checks and tables are written in: answers with time and life.

`all_rows` are whole logs, `rows` those of the groups that are asked about, both as `numbered` makes them: whom and what
they are about are numbers, because rows are sorted and joined by them. The views that many queries use are kept.
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from rota.audit.checks import LIFE, PATIENCE_MS, SLACK_MS
from rota.audit.logs import JOURNAL

# The number is compared first when rows are sorted.
MEMBER = "mid, member"


def member_of(member: str) -> str:
    """The number of a member of the row's group."""
    return f"xxhash64(gid, {member})"


# Of a record of the journal's appends only what became durable counts.
RECORD_KINDS = "('group', 'member', 'assigned', 'subscribed', 'offset')"

OF_RECORD = """place, gid, mid, source, kind, offset, pos, at_ms, append_id, generation, leader, protocol, `count`,
          member, instance, client, topic, topic_partition, committed, payload"""

VIEWS: dict[str, str] = {
    # ---- where a group is no longer one of the classic protocol: from its first record of the newer one on. Its
    # classic members then have epochs for generations, and no leader.
    "newer": "SELECT gid, min(pos) AS since FROM rows WHERE kind LIKE 'consumer%' GROUP BY gid",
    "classic": """SELECT /*+ BROADCAST(n) */ r.* FROM rows r ANTI JOIN newer n
          ON r.gid = n.gid AND r.pos >= n.since""",
    # ---- records, as the log of groups has them or as the journal saw them become durable
    "entries": f"""SELECT * FROM all_rows WHERE source = '{JOURNAL}' AND part = 0 AND sequence IS NOT NULL""",
    "appends": """SELECT * FROM (
          SELECT place, gid, offset, pos, append_id, kind,
            lead(struct(kind, offset, error, pos)) OVER (PARTITION BY place, append_id ORDER BY pos) AS ended
          FROM all_rows WHERE kind IN ('append', 'appended'))
        WHERE kind = 'append'""",
    # Nearly all appends end well, and all that a failed one would have written is in its entry.
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
    "life_members": "SELECT * FROM lived WHERE kind = 'member'",
    "groups": "SELECT * FROM lives WHERE generation IS NOT NULL",
    "members": "SELECT * FROM life_members",
    "assigned": "SELECT * FROM records WHERE kind = 'assigned'",
    # A static member that is replaced gives its partitions to another id in the same generation.
    "owned": """SELECT a.*, g.until_offset FROM assigned a JOIN (
          SELECT gid, generation, offset, lead(offset) OVER (PARTITION BY gid, generation ORDER BY pos) AS until_offset
          FROM groups) g
          ON a.gid = g.gid AND a.generation = g.generation AND a.offset = g.offset""",
    "subscribed": "SELECT * FROM records WHERE kind = 'subscribed'",
    # Records that may have a static member that came back with another subscription: its assignment stays as it was.
    "standing": """SELECT gid, offset FROM (
          SELECT *, lag(generation) OVER (PARTITION BY gid ORDER BY pos) AS before FROM lives)
        WHERE before IS NULL OR before = generation""",
    "newer_held": f"""SELECT a.*, c.until_pos FROM rows a JOIN (
          SELECT gid, mid, member, offset, lead(pos) OVER (PARTITION BY {MEMBER} ORDER BY pos) AS until_pos
          FROM rows WHERE kind = 'consumer_current') c
          ON a.mid = c.mid AND a.member = c.member AND a.offset = c.offset
        WHERE a.kind = 'consumer_assigned'""",
    "durable_offsets": "SELECT * FROM durable WHERE kind = 'offset'",
    # ---- incarnations of a journal's coordinators
    # Entries that are numbered as they lie: an incarnation is one run, unless something is wrong with it. There are few
    # of them, so that most questions about the order of entries need not sort those.
    "runs": """SELECT place, run, min(offset) AS first_offset, max(offset) AS last_offset,
          max(mono_ms) AS last_mono_ms, count(*) AS count
        FROM entries GROUP BY place, run""",
    "disordered": """SELECT DISTINCT place FROM (
          SELECT *, min(first_offset) OVER (PARTITION BY place) AS beginning FROM runs)
        LEFT JOIN (SELECT place, offset AS first_offset, true AS began FROM entries WHERE kind = 'began')
          USING (place, first_offset)
        WHERE count <> last_offset - first_offset + 1 OR (began IS NULL AND first_offset <> beginning)""",
    "marks": """SELECT *, sum(CAST(kind = 'began' AS INT)) OVER
            (PARTITION BY place ORDER BY offset, kind <> 'began') AS incarnation
        FROM (SELECT place, run, kind, offset, offset AS last_offset, mono_ms, rebalance_timeout_ms FROM entries
              WHERE kind IN ('began', 'gap', 'loaded', 'snapshot', 'unloaded')
              UNION ALL
              SELECT place, run, 'run', first_offset, last_offset, last_mono_ms, NULL FROM runs)""",
    "incarnations": """SELECT place, incarnation, min(offset) AS first_offset, max(last_offset) AS last_offset,
          max(mono_ms) AS last_mono_ms, bool_or(kind = 'began') AS began, bool_or(kind = 'gap') AS has_gaps,
          min(CASE WHEN kind IN ('loaded', 'snapshot') THEN offset END) AS loaded_offset,
          min(CASE WHEN kind = 'unloaded' THEN offset END) AS unloaded_offset,
          bool_or(kind = 'unloaded') AS unloaded,
          coalesce(max(CASE WHEN kind = 'began' THEN rebalance_timeout_ms END), 0) AS delay_ms,
          min_by(run, offset) AS first_run
        FROM marks GROUP BY place, incarnation""",
    # Which of them an entry belongs to: its run says it.
    "places": """SELECT i.*, m.run FROM incarnations i JOIN marks m USING (place, incarnation) WHERE m.kind = 'run'""",
    "strays": "SELECT place, run, first_run AS begun FROM places WHERE run <> first_run",
    "loading": """SELECT *, coalesce(loaded_offset - 1, last_offset) AS until_offset FROM places WHERE began""",
    "over": "SELECT * FROM places WHERE unloaded_offset < last_offset",
    # ---- requests and their answers
    "asked": "SELECT * FROM rows WHERE kind = 'request'",
    # The answers, and the requests that have none.
    "tickets": """SELECT place, coalesce(gid, asked.gid) AS gid, kind, run, offset, pos, at_ms, mono_ms, api, ticket,
          error, member, generation, leader, protocol, payload, asked, before_kind
        FROM (SELECT *, lead(kind) OVER tickets AS next_kind, lag(kind) OVER tickets AS before_kind,
          last(CASE WHEN kind = 'request' THEN struct(pos, offset, mono_ms, gid, api, member, instance, generation,
            session_timeout_ms) END, true) OVER tickets_so_far AS asked
        FROM rows
        WHERE kind = 'answer' OR (kind = 'request' AND (error IS NULL OR api IN ('JoinGroup', 'SyncGroup')))
        WINDOW tickets AS (PARTITION BY ticket, place ORDER BY pos),
          tickets_so_far AS (PARTITION BY ticket, place ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW))
        WHERE kind = 'answer' OR (error IS NULL AND (next_kind IS NULL OR next_kind <> 'answer'))""",
    "answered": """SELECT /*+ BROADCAST(n) */ t.* FROM tickets t
        ANTI JOIN newer n ON t.gid = n.gid AND t.pos >= n.since
        WHERE t.kind = 'answer'""",
    "unanswered": """SELECT * FROM tickets WHERE kind = 'request'""",
    # While a coordinator loads, every Heartbeat is answered NONE (docs/protocol.md §3).
    "accepted": f"""SELECT /*+ BROADCAST(l) */ place, gid, mid, api, member, generation, run, offset, pos, mono_ms
          FROM classic r ANTI JOIN loading l ON r.place = l.place AND l.run = r.run AND r.api = 'Heartbeat'
            AND r.offset BETWEEN l.first_offset AND l.until_offset
          WHERE kind = 'request' AND error = 'NONE' AND api IN ('Heartbeat', 'OffsetCommit') AND member <> ''
        UNION ALL
        SELECT place, gid, {member_of("asked.member")}, api, asked.member, asked.generation, run, asked.offset,
            asked.pos, asked.mono_ms
          FROM answered WHERE error = 'NONE' AND api IN ('OffsetCommit', 'SyncGroup') AND asked.member <> ''""",
    # Records that a group's life begins or ends with, whatever becomes of them: tombstones, and generation 0 where the
    # log has no other one that is alive.
    "beginnings": f"""SELECT place, gid, run, offset, pos, mono_ms, generation FROM (
          SELECT *, max(durable) OVER (PARTITION BY gid ORDER BY pos
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS last
          FROM (SELECT place, gid, kind, run, offset, pos, mono_ms, generation, NULL AS durable
                FROM classic WHERE kind = 'group' AND source = '{JOURNAL}'
                UNION ALL
                SELECT place, l.gid, 'durable', NULL, offset, a.ended.pos, NULL, NULL, struct(offset, l.generation)
                FROM lives l JOIN appends a USING (place, offset, append_id)))
        WHERE kind = 'group' AND (generation IS NULL OR (generation = 0 AND coalesce(last.generation, 0) = 0))""",
    "told_and_committed": f"""SELECT /*+ BROADCAST(s) */ t.*, coalesce(s.begun, t.run) AS first_run
        FROM (SELECT *, {member_of("member")} AS mid,
                sum(CAST(kind = 'group' AS INT)) OVER (PARTITION BY gid ORDER BY pos) AS beginnings
              FROM (SELECT place, gid, kind, run, offset, pos, mono_ms, at_ms, member, asked.instance AS instance,
                      generation, leader, protocol, asked.session_timeout_ms AS session_timeout_ms,
                      struct(asked.mono_ms, asked.offset, asked.member) AS asked
                    FROM answered WHERE api = 'JoinGroup' AND error = 'NONE'
                    UNION ALL
                    SELECT place, gid, 'commit', run, offset, pos, mono_ms, NULL, member, NULL, generation, NULL, NULL,
                      NULL, NULL
                    FROM accepted WHERE api = 'OffsetCommit'
                    UNION ALL
                    SELECT place, gid, 'group', run, offset, pos, mono_ms, NULL, NULL, NULL, generation, NULL, NULL,
                      NULL, NULL
                    FROM beginnings
                    UNION ALL
                    SELECT place, gid, kind, run, offset, pos, mono_ms, NULL, member, instance, generation, NULL, NULL,
                      session_timeout_ms, NULL
                    FROM classic WHERE source = '{JOURNAL}' AND kind = 'held')) t
        LEFT JOIN strays s USING (place, run)""",
    "told_joins": "SELECT * FROM told_and_committed WHERE kind = 'answer'",
    "returns": f"""SELECT b.*, g.offset AS gone_offset, r.member IS NOT NULL AS was_replaced
        FROM (SELECT *, lag(version) OVER (PARTITION BY {MEMBER} ORDER BY pos) AS last_version
              FROM life_members) b
        JOIN lives g ON b.gid = g.gid AND g.version = b.last_version + 1
        LEFT JOIN life_members r ON b.gid = r.gid
          AND r.version = g.version AND r.instance = b.instance AND r.member <> b.member
        LEFT JOIN (SELECT {MEMBER} FROM told_joins WHERE instance IS NOT NULL
            UNION SELECT {MEMBER} FROM rows WHERE kind = 'held' AND note = 'loaded' AND instance IS NOT NULL) t
          ON r.mid = t.mid AND r.member = t.member
        WHERE b.version > b.last_version + 1
          AND (r.member IS NULL OR t.member IS NOT NULL OR b.source <> '{JOURNAL}')""",
    "accepted_commits": "SELECT * FROM told_and_committed WHERE kind = 'commit'",
    "told_syncs": """SELECT place, gid, offset, pos, mono_ms, asked.member AS member,
          asked.generation AS generation, payload
        FROM answered WHERE api = 'SyncGroup' AND error = 'NONE' AND asked IS NOT NULL""",
    "listed": "SELECT * FROM classic WHERE kind = 'listed'",
    "planned": """SELECT gid, generation, member, payload FROM classic
        WHERE kind IN ('plan', 'held') AND (error IS NULL OR error = 'NONE')
        UNION ALL SELECT gid, generation, member, payload FROM records WHERE kind = 'member'""",
    "durable_generations": """SELECT g.gid, g.generation, min(a.offset) AS append_offset,
          min_by(a.ended.offset, a.offset) AS offset
        FROM groups g JOIN appends a USING (place, offset, append_id)
        WHERE g.count > 0 GROUP BY g.gid, g.generation""",
    "patience": f"""SELECT gid, max(greatest(session_timeout_ms, rebalance_timeout_ms)) AS wait_ms
        FROM rows WHERE source = '{JOURNAL}'
          AND (kind IN ('held', 'member') OR (kind = 'request' AND api = 'JoinGroup'))
        GROUP BY gid""",
    # ---- members that are gone
    "lists": """SELECT place, gid, offset, max(pos) AS pos, collect_set(member) AS members
        FROM listed GROUP BY place, gid, offset""",
    "departures": f"""SELECT place, gid, mid, member, offset, pos, 'left' AS how FROM classic
          WHERE kind = 'leaver' AND error = 'NONE' AND member <> ''
        UNION ALL
        SELECT place, gid, {member_of("before")}, before, offset, pos, 'replaced'
          FROM (SELECT *, lag(member) OVER (PARTITION BY gid, instance ORDER BY pos) AS before
                FROM told_joins WHERE instance IS NOT NULL)
          WHERE before <> member
        UNION ALL
        SELECT place, gid, {member_of("member")}, member, offset, pos, 'not listed'
          FROM (SELECT place, gid, offset, pos, explode(array_except(before, members)) AS member
                FROM (SELECT *, lag(members) OVER (PARTITION BY gid ORDER BY pos) AS before FROM lists)
                WHERE before IS NOT NULL)""",
    # A state that is loaded may have a member again whose leaving had not become durable.
    "lasting": f"""SELECT * FROM (
          SELECT *, min(CASE WHEN how = 'held' THEN pos END) OVER (PARTITION BY {MEMBER} ORDER BY pos
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS back_pos
          FROM (SELECT * FROM departures
                UNION ALL SELECT place, gid, mid, member, offset, pos, 'held' FROM classic WHERE kind = 'held'))
        WHERE how <> 'held'""",
    "accepted_of_departed": """SELECT place, gid, generation, offset, member, api, how, gone_offset
        FROM (SELECT a.*, d.how, d.offset AS gone_offset, d.pos AS gone_pos,
                row_number() OVER (PARTITION BY a.pos, a.place ORDER BY d.how = 'replaced' DESC, d.pos) AS nth
              FROM accepted a JOIN lasting d
                ON a.mid = d.mid AND a.member = d.member
                  AND a.pos > d.pos AND (d.back_pos IS NULL OR a.pos < d.back_pos))
        WHERE nth = 1""",
    # ---- sessions
    # A completed join phase arms the session (docs/protocol.md §7.2): its generation is new. An answer with a known one
    # changes nothing; a static replacement has its predecessor's session, from its request on. Such a phase and a
    # snapshot give the session timeout for certain; since then it may have been any that was requested.
    "armed": f"""SELECT place, gid, mid, member, offset, pos, mono_ms,
          CASE WHEN begins THEN struct(mono_ms, offset)
            WHEN asked.member = '' THEN struct(asked.mono_ms, asked.offset) END AS armed,
          CASE WHEN begins THEN session_timeout_ms ELSE shortest_ms END AS session_timeout_ms
        FROM (SELECT *, min(session_timeout_ms) OVER (
                  PARTITION BY gid, who, certainties ORDER BY pos) AS shortest_ms
              FROM (SELECT *, sum(CAST(kind = 'held' OR (kind = 'answer' AND begins) AS INT)) OVER (
                        PARTITION BY gid, who ORDER BY pos) AS certainties
                    FROM (SELECT *, coalesce(instance, member) AS who,
                            generation > coalesce(max(generation) OVER (
                              PARTITION BY {LIFE} ORDER BY offset
                              RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), -1) AS begins
                          FROM told_and_committed WHERE kind <> 'commit')))
        WHERE kind = 'answer'""",
    "known_members": f"""SELECT gid, {MEMBER}, min(pos) AS pos FROM (
          SELECT gid, {MEMBER}, pos FROM told_joins
          UNION ALL SELECT gid, {MEMBER}, pos FROM classic WHERE kind = 'held')
        GROUP BY gid, {MEMBER}""",
    "expiring": """SELECT e.place, e.gid, k.mid, k.member, e.offset, e.pos, e.mono_ms
        FROM known_members k JOIN (SELECT * FROM classic WHERE kind = 'timer' AND timer = 'Session') e
          ON e.gid = k.gid AND k.pos < e.pos
        LEFT ANTI JOIN lasting d
          ON k.mid = d.mid AND k.member = d.member AND d.pos < e.pos AND (d.back_pos IS NULL OR e.pos < d.back_pos)""",
    "sessions_at_expiry": f"""SELECT * FROM (
          SELECT *, last(armed.mono_ms, true) OVER so_far AS armed_ms,
            last(armed.offset, true) OVER so_far AS armed_offset, last(session, true) OVER so_far AS session_timeout_ms
          FROM (SELECT place, gid, {MEMBER}, offset, pos, mono_ms, NULL AS armed, NULL AS session, true AS expires
                FROM expiring
                UNION ALL
                SELECT place, gid, {MEMBER}, offset, pos, mono_ms, struct(mono_ms, offset), NULL, false
                FROM accepted WHERE api = 'Heartbeat'
                UNION ALL
                SELECT place, gid, {MEMBER}, offset, pos, mono_ms, armed, session_timeout_ms, false FROM armed
                UNION ALL
                SELECT place, gid, {MEMBER}, offset, pos, mono_ms,
                  CASE WHEN note = 'loaded' THEN struct(mono_ms, offset) END, session_timeout_ms, false
                FROM classic WHERE kind = 'held')
          SEMI JOIN (SELECT DISTINCT {MEMBER} FROM expiring) x USING ({MEMBER})
          WINDOW so_far AS (PARTITION BY {MEMBER} ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW))
        WHERE expires""",
    # ---- silence
    "heard": f"""SELECT place, gid, {MEMBER}, generation, offset, pos, mono_ms, NULL AS session_timeout_ms,
          api = 'Heartbeat' AND error = 'NONE' AS is_well, CAST(api IN ('JoinGroup', 'SyncGroup') AS INT) AS parked
        FROM classic WHERE kind = 'request' AND member <> ''
        UNION ALL
        SELECT place, gid, {member_of("asked.member")}, asked.member, asked.generation, offset, pos, mono_ms, NULL,
          false, -CAST(api IN ('JoinGroup', 'SyncGroup') AS INT)
        FROM answered WHERE asked.member <> ''
        UNION ALL
        SELECT place, gid, {MEMBER}, generation, offset, pos, mono_ms, session_timeout_ms, false, 0 FROM told_joins
        UNION ALL
        SELECT place, gid, {MEMBER}, generation, offset, pos, mono_ms, session_timeout_ms, false, 0
        FROM classic WHERE kind = 'held'""",
    "silences": f"""SELECT * FROM (
          SELECT place, gid, member, generation, offset, pos, mono_ms, is_well,
            sum(parked) OVER so_far AS parked, last(session_timeout_ms, true) OVER so_far AS session_timeout_ms,
            lag(mono_ms) OVER heard AS before_ms, lag(offset) OVER heard AS before_offset
          FROM heard
          WINDOW heard AS (PARTITION BY {MEMBER} ORDER BY pos),
            so_far AS (PARTITION BY {MEMBER} ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW))
        WHERE is_well AND parked <= 0 AND mono_ms - before_ms > session_timeout_ms + {SLACK_MS}""",
    # ---- requests of a phase that were parked for longer than any member may be waited for
    "parked_long": f"""SELECT * FROM (
          SELECT a.*, greatest(p.wait_ms, i.delay_ms) AS limit_ms
          FROM (SELECT * FROM answered
                WHERE api IN ('JoinGroup', 'SyncGroup') AND mono_ms - asked.mono_ms > {SLACK_MS}) a
          JOIN patience p ON a.gid = p.gid
          JOIN places i ON a.place = i.place AND a.run = i.run
          WHERE a.asked.offset >= i.first_offset)
        WHERE mono_ms - asked.mono_ms > limit_ms + {SLACK_MS}""",
    # Silences and phases during which the coordinator got a time later than their end, and phases that
    # outlived it by so much that it must have been: a process that stands still does not see the time.
    "overlooked": f"""SELECT /*+ BROADCAST(s) */ DISTINCT s.place, s.pos
        FROM entries e JOIN (
          SELECT place, pos, before_offset, offset, before_ms + session_timeout_ms AS end_ms, mono_ms FROM silences
          UNION ALL
          SELECT place, pos, asked.offset, offset, asked.mono_ms + limit_ms, mono_ms FROM parked_long) s
        ON s.place = e.place
          AND e.offset BETWEEN s.before_offset AND s.offset AND e.mono_ms BETWEEN s.end_ms AND s.mono_ms - {SLACK_MS}
        UNION
        SELECT place, pos FROM parked_long WHERE mono_ms - asked.mono_ms > limit_ms + {PATIENCE_MS}""",
    # ---- generations, from whatever shows them
    "rounds": f"""SELECT place, gid, '{JOURNAL}' AS source, generation, min(offset) AS offset, min(pos) AS pos,
          min(at_ms) AS at_ms
          FROM told_joins GROUP BY place, gid, generation
        UNION ALL
        SELECT place, gid, source, generation, min(offset), min(pos), min(at_ms)
          FROM groups WHERE source <> '{JOURNAL}' GROUP BY place, gid, source, generation""",
}

KEPT_IN = "views"
"""The directory of the views that are written down."""

# Used by many queries and small beside the rows. They are kept: a query on what is computed is planned in no time, one
# on views of views is not.
KEPT = (
    "newer",
    "appends",
    "records",
    "lived",
    "runs",
    "marks",
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


def numbered(rows: DataFrame) -> DataFrame:
    """Rows with the numbers that the views know them by: `place` of the partition of a log, `gid` of the group, `run`
    of entries of a journal that are numbered as they lie, and `pos`, which orders the rows of a partition.

    `place` and `gid` are hashes of 64 bits, salted so that a client cannot choose names with equal hashes.
    """
    # There are names that xxhash64 maps to one number with any salt; none are known for SHA-256. What
    # `member_of` numbers is compared by its name, too.
    salt = secrets.randbits(62)
    return rows.selectExpr(
        "*",
        f"xxhash64({salt}L, partition, log, source) AS place",
        f"CASE WHEN `group` IS NOT NULL THEN xxhash64({salt}L, sha2(`group`, 256), log, source) END AS gid",
        "offset - sequence AS run",
        "offset * 1048576 + part AS pos",
    )


def with_members(rows: DataFrame) -> DataFrame:
    """Numbered rows with `mid`, the number of the member in its group."""
    return rows.selectExpr("*", f"{member_of('member')} AS mid")


def define(spark: SparkSession, output: Path, in_memory: bool = False) -> None:
    """Define the views over `all_rows` (whole logs) and `rows` (those of the groups that are asked about).

    Those that many queries use are kept: in memory, or as Parquet below `output`.
    """
    for name, sql in VIEWS.items():
        frame = spark.sql(sql)
        if name in KEPT and in_memory:
            frame = frame.localCheckpoint()
        elif name in KEPT:
            target = str(output / KEPT_IN / name)
            frame.write.mode("overwrite").parquet(target)
            frame = spark.read.schema(frame.schema).parquet(target)
        frame.createOrReplaceTempView(name)


def forget(output: Path) -> None:
    """Let go of what was kept."""
    shutil.rmtree(output / KEPT_IN, ignore_errors=True)
