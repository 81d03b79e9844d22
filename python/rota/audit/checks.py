"""What is looked for: one query for each thing that must not be, and for a few that are worth knowing.

Each query gives the columns of `FOUND` over the views of `rota.audit.views`. Nothing here is shared with the
coordinator: the same promises, said again in SQL.
"""

from __future__ import annotations

from typing import NamedTuple

from rota.audit.logs import JOURNAL, OFFSETS

VIOLATION, OBSERVATION = "violation", "observation"

# A group in one life of it that a journal shows.
LIFE = "gid, first_run, beginnings"

FOUND = ("place", "gid", "generation", "first_offset", "last_offset", "members", "witness")

# What a log cannot be compared more exactly than: a busy server tells its coordinators the time a little late.
SLACK_MS = 1_000
# A request that no member sent waits for the log at most: no coordinator is that patient.
PATIENCE_MS = 60_000
STORM_GENERATIONS, STORM_MS = 10, 60_000
UNSETTLED_GENERATIONS = 3


class Check(NamedTuple):
    """One thing to look for."""

    name: str
    id: str
    """The invariant's, or "" if none forbids it."""
    severity: str
    sources: tuple[str, ...]
    says: str
    """In words, for a report."""
    sql: str


BOTH, ONLY_JOURNAL = (JOURNAL, OFFSETS), (JOURNAL,)


def _check(
    name: str, identifier: str, says: str, sql: str, sources: tuple[str, ...] = BOTH, severity: str = VIOLATION
) -> Check:
    return Check(name, identifier, severity, sources, says, sql)


def _late(api: str) -> str:
    """Requests of a phase that were parked for longer than any member may be waited for."""
    return f"""SELECT place, gid, generation, asked.offset AS first_offset,
             offset AS last_offset, array(asked.member) AS members,
             concat(api, ' waited ', mono_ms - asked.mono_ms, ' ms') AS witness
           FROM parked_long SEMI JOIN overlooked USING (place, pos) WHERE api = '{api}'"""


# ---- what every log of groups shows

OF_RECORDS = (
    _check(
        "two owners",
        "S12",
        "one partition is assigned to two members",
        """SELECT place, gid, generation, offset AS first_offset, offset AS last_offset,
             collect_set(member) AS members, concat(topic, '-', topic_partition) AS witness
           FROM assigned
           GROUP BY place, gid, generation, offset, topic, topic_partition
           HAVING count(DISTINCT member) > 1""",
    ),
    _check(
        "held by two",
        "S12",
        "one partition is held by two members of the newer consumer protocol at the same time",
        """SELECT h.place, h.gid, h.generation, h.offset AS first_offset,
             o.offset AS last_offset, array(h.member, o.member) AS members,
             concat(h.topic, '-', h.topic_partition) AS witness
           FROM newer_held h JOIN newer_held o
             ON h.gid = o.gid AND h.topic = o.topic AND h.topic_partition = o.topic_partition AND h.member <> o.member
           WHERE o.pos > h.pos AND (h.until_pos IS NULL OR o.pos < h.until_pos)""",
        (OFFSETS,),
    ),
    _check(
        "not subscribed",
        "S12",
        "a member is assigned a partition of a topic to which it does not subscribe",
        """SELECT place, gid, generation, offset AS first_offset, offset AS last_offset,
             array(member) AS members, first(concat(topic, '-', topic_partition)) AS witness
           FROM (SELECT a.* FROM assigned a ANTI JOIN standing s
                   ON a.instance IS NOT NULL AND a.gid = s.gid AND a.offset = s.offset)
           SEMI JOIN subscribed USING (gid, offset, member)
           ANTI JOIN subscribed USING (gid, offset, member, topic)
           GROUP BY place, gid, generation, offset, member""",
    ),
    _check(
        "leader not a member",
        "S3",
        "the leader is not one of the members, or there is no leader",
        """SELECT g.place, g.gid, g.generation, g.offset AS first_offset,
             g.offset AS last_offset, array(coalesce(g.leader, '')) AS members,
             concat('leader ', coalesce(g.leader, 'none'), ' of ', g.count, ' members') AS witness
           FROM groups g LEFT JOIN members m
             ON g.gid = m.gid AND g.offset = m.offset
               AND g.append_id <=> m.append_id AND g.leader = m.member
           WHERE (g.count > 0 AND m.member IS NULL) OR (g.count = 0 AND g.leader IS NOT NULL)""",
    ),
    _check(
        "no protocol",
        "S6",
        "a group with members has no protocol",
        """SELECT place, gid, generation, offset AS first_offset, offset AS last_offset,
             array() AS members, concat(count, ' members and no protocol') AS witness
           FROM groups WHERE count > 0 AND protocol IS NULL""",
    ),
    _check(
        "instance twice",
        "S16",
        "two members have the same group.instance.id",
        """SELECT place, gid, generation, offset AS first_offset, offset AS last_offset,
             collect_set(member) AS members, concat('instance ', instance) AS witness
           FROM members WHERE instance IS NOT NULL
           GROUP BY place, gid, generation, offset, append_id, instance
           HAVING count(DISTINCT member) > 1""",
    ),
    _check(
        "generation back",
        "S4",
        "a group's generation went back",
        """SELECT place, gid, generation, greatest_offset AS first_offset, offset AS last_offset,
             array() AS members, concat('generation ', generation, ' after ', greatest) AS witness
           FROM (SELECT *, max(generation) OVER before AS greatest,
                   max_by(offset, generation) OVER before AS greatest_offset
                 FROM lives WHERE generation IS NOT NULL
                 WINDOW before AS (PARTITION BY gid, life ORDER BY pos
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
           WHERE generation < greatest""",
    ),
    _check(
        "generation reused",
        "S4",
        "one generation has two different assignments",
        """SELECT place, gid, generation, min(offset) AS first_offset, max(offset) AS last_offset,
             array(first(member)) AS members,
             concat(count(DISTINCT payload), ' assignments for ', first(coalesce(instance, member))) AS witness
           FROM life_members
           GROUP BY place, gid, life, generation, coalesce(instance, member)
           HAVING count(DISTINCT payload) > 1""",
    ),
    _check(
        "resurrected",
        "S29",
        "a member that was gone is back",
        """SELECT place, gid, generation, gone_offset AS first_offset, offset AS last_offset,
             array(member) AS members, concat('gone at offset ', gone_offset, ', back at ', offset) AS witness
           FROM returns WHERE NOT was_replaced""",
    ),
    _check(
        "replacement lost",
        "S17",
        "a static member that was replaced is back under its old member id",
        """SELECT place, gid, generation, gone_offset AS first_offset, offset AS last_offset,
             array(member) AS members, concat('replaced at offset ', gone_offset, ', back at ', offset) AS witness
           FROM returns WHERE was_replaced""",
    ),
    _check(
        "offset went back",
        "",
        "a committed offset is smaller than the one before; that may be meant",
        """SELECT place, gid, CAST(NULL AS INT) AS generation, before_offset AS first_offset,
             offset AS last_offset, array() AS members,
             concat(topic, '-', topic_partition, ': ', committed, ' after ', before) AS witness
           FROM (SELECT *, lag(committed) OVER commits AS before, lag(offset) OVER commits AS before_offset
                 FROM durable_offsets
                 WINDOW commits AS (PARTITION BY gid, topic, topic_partition ORDER BY pos))
           WHERE committed < before""",
        severity=OBSERVATION,
    ),
    _check(
        "storm",
        "",
        f"{STORM_GENERATIONS} generations within {STORM_MS // 1000} s",
        f"""SELECT place, gid, max(generation) AS generation, min(earlier_offset) AS first_offset,
             max(offset) AS last_offset, array() AS members,
             concat(max(generation) - min(earlier_generation), ' generations up to ', max(generation)) AS witness
           FROM (SELECT *, lag(at_ms, {STORM_GENERATIONS - 1}) OVER rounds AS earlier_ms,
                   lag(offset, {STORM_GENERATIONS - 1}) OVER rounds AS earlier_offset,
                   lag(generation, {STORM_GENERATIONS - 1}) OVER rounds AS earlier_generation
                 FROM rounds WINDOW rounds AS (PARTITION BY gid ORDER BY pos))
           WHERE at_ms - earlier_ms <= {STORM_MS}
           GROUP BY place, gid""",
        severity=OBSERVATION,
    ),
)

# ---- what only a journal shows: requests and answers

OF_ANSWERS = (
    _check(
        "two leaders",
        "S1",
        "two members got answers that name them leader of one generation",
        f"""SELECT place, gid, generation, min(offset) AS first_offset, max(offset) AS last_offset,
             collect_set(member) AS members, concat(count(DISTINCT member), ' leaders') AS witness
           FROM told_joins WHERE leader = member
           GROUP BY place, {LIFE}, generation
           HAVING count(DISTINCT coalesce(instance, member)) > 1""",
        ONLY_JOURNAL,
    ),
    _check(
        "different answers",
        "S9",
        "members of one round got different generations, protocols or leaders",
        """SELECT place, gid, max(generation) AS generation, offset AS first_offset,
             offset AS last_offset, collect_set(member) AS members,
             concat(count(DISTINCT generation), ' generations, ', count(DISTINCT protocol), ' protocols, ',
               count(DISTINCT leader), ' leaders') AS witness
           FROM told_joins GROUP BY place, gid, offset
           HAVING count(DISTINCT generation) > 1 OR count(DISTINCT protocol) > 1 OR count(DISTINCT leader) > 1""",
        ONLY_JOURNAL,
    ),
    _check(
        "generation told back",
        "S4",
        "a member got an older generation than another member before",
        f"""SELECT place, gid, generation, greatest_offset AS first_offset, offset AS last_offset,
             array(member) AS members, concat('generation ', generation, ' after ', greatest) AS witness
           FROM (SELECT *, max(generation) OVER before AS greatest,
                   max_by(offset, generation) OVER before AS greatest_offset
                 FROM told_joins
                 WINDOW before AS (PARTITION BY {LIFE} ORDER BY pos
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
           WHERE generation < greatest""",
        ONLY_JOURNAL,
    ),
    _check(
        "list is not the group",
        "S34",
        "a member is in the generation but not in its leader's list",
        """SELECT place, gid, generation, offset AS first_offset, offset AS last_offset,
             array(member) AS members, concat(member, ' is not listed') AS witness
           FROM told_joins SEMI JOIN listed USING (gid, offset)
           ANTI JOIN listed USING (gid, offset, member)""",
        ONLY_JOURNAL,
    ),
    _check(
        "not relayed",
        "S11",
        "a member got another assignment than its leader gave for it",
        """SELECT t.place, t.gid, t.generation, t.offset AS first_offset,
             t.offset AS last_offset, array(first(t.member)) AS members,
             concat('told ', substr(hex(first(t.payload)), 1, 64)) AS witness
           FROM (SELECT * FROM told_syncs ANTI JOIN planned USING (gid, generation, member, payload)) t JOIN planned p
             ON t.gid = p.gid AND t.generation = p.generation
           WHERE length(t.payload) > 0
           GROUP BY t.place, t.gid, t.generation, t.pos, t.offset
           HAVING NOT bool_or(p.payload = t.payload)
             OR (bool_or(p.member = t.member) AND NOT bool_or(p.member = t.member AND p.payload = t.payload))""",
        ONLY_JOURNAL,
    ),
    _check(
        "told before durable",
        "S26",
        "an assignment or a commit was acknowledged before its record was durable",
        """SELECT t.place, t.gid, t.generation, min(t.offset) AS first_offset,
             d.offset AS last_offset, collect_set(t.member) AS members,
             concat('told at ', min(t.offset), ', durable at ', d.offset) AS witness
           FROM told_syncs t JOIN durable_generations d
             ON t.gid = d.gid AND t.generation = d.generation
           WHERE t.offset BETWEEN d.append_offset AND d.offset - 1
           GROUP BY t.place, t.gid, t.generation, d.offset
           UNION ALL
           SELECT place, gid, generation, offset AS first_offset, offset AS last_offset,
             array(member) AS members, 'a commit was acknowledged at once' AS witness
           FROM (SELECT DISTINCT q.* FROM appends a JOIN (
                   SELECT place, gid, generation, offset, member FROM asked
                   WHERE api = 'OffsetCommit' AND error = 'NONE') q
                   ON q.place = a.place AND q.offset = a.offset)""",
        ONLY_JOURNAL,
    ),
    _check(
        "commit of an old generation",
        "S15",
        "a commit of an older generation was accepted",
        f"""SELECT place, gid, generation, greatest_offset AS first_offset, offset AS last_offset,
             array(member) AS members, concat('generation ', generation, ' after ', greatest) AS witness
           FROM (SELECT *, max(told) OVER before AS greatest, max_by(offset, told) OVER before AS greatest_offset
                 FROM (SELECT *, CASE WHEN kind = 'answer' THEN generation END AS told FROM told_and_committed)
                 WINDOW before AS (PARTITION BY {LIFE} ORDER BY pos
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
           WHERE kind = 'commit' AND generation >= 0 AND generation < greatest""",
        ONLY_JOURNAL,
    ),
    _check(
        "commit of a departed member",
        "S15",
        "a commit of a member that had left was accepted",
        """SELECT place, gid, generation, gone_offset AS first_offset, offset AS last_offset,
             array(member) AS members, concat(how, ' at offset ', gone_offset) AS witness
           FROM accepted_of_departed WHERE api = 'OffsetCommit' AND how <> 'replaced'""",
        ONLY_JOURNAL,
    ),
    _check(
        "answer to a departed member",
        "S14",
        "a member that had left was answered NONE",
        """SELECT place, gid, generation, gone_offset AS first_offset, offset AS last_offset,
             array(member) AS members, concat(how, ' at offset ', gone_offset) AS witness
           FROM accepted_of_departed WHERE api <> 'OffsetCommit' AND how <> 'replaced'""",
        ONLY_JOURNAL,
    ),
    _check(
        "replaced and not fenced",
        "S17",
        "a replaced static member was answered NONE",
        """SELECT place, gid, generation, gone_offset AS first_offset, offset AS last_offset,
             array(member) AS members, concat(how, ' at offset ', gone_offset) AS witness
           FROM accepted_of_departed WHERE how = 'replaced'""",
        ONLY_JOURNAL,
    ),
    _check(
        "answered twice",
        "S18",
        "a request was answered more than once",
        """SELECT place, gid, max(generation) AS generation,
             min(offset) AS first_offset, max(offset) AS last_offset, array(first(asked.member)) AS members,
             concat(count(*), ' answers to the ', first(asked.api), ' at ', asked.offset) AS witness
           FROM (SELECT place, coalesce(asked.gid, gid) AS gid, generation, offset, asked, asked.pos AS asked_pos
                 FROM tickets WHERE kind = 'answer' AND asked IS NOT NULL)
           SEMI JOIN (
             SELECT place, asked.pos AS asked_pos FROM tickets
             WHERE kind = 'answer' AND before_kind = 'answer' AND asked IS NOT NULL)
             USING (place, asked_pos)
           GROUP BY place, gid, asked_pos, asked.offset""",
        ONLY_JOURNAL,
    ),
    _check(
        "never answered",
        "S18",
        "a request was not answered although its time had passed, or its coordinator was unloaded",
        f"""SELECT q.place, q.gid, q.generation, q.offset AS first_offset,
             i.last_offset AS last_offset, array(q.member) AS members,
             concat('the ', q.api, ' at ', q.offset, ' has no answer') AS witness
           FROM unanswered q JOIN places i ON q.place = i.place AND i.run = q.run
           LEFT JOIN patience p ON q.gid = p.gid
           WHERE NOT i.has_gaps AND (i.unloaded OR q.api = 'Heartbeat'
             OR i.last_mono_ms > q.mono_ms + greatest(p.wait_ms, i.delay_ms, {PATIENCE_MS}) + {SLACK_MS})""",
        ONLY_JOURNAL,
    ),
    *(
        _check(name, identifier, f"the {phase} phase outlived its deadline", _late(api), ONLY_JOURNAL)
        for name, identifier, phase, api in (
            ("late phase", "L1", "join", "JoinGroup"),
            ("late sync", "L2", "sync", "SyncGroup"),
        )
    ),
    _check(
        "silent and still there",
        "L3",
        "a member was answered NONE although its session had long expired",
        """SELECT s.place, s.gid, s.generation, s.before_offset AS first_offset,
             s.offset AS last_offset, array(s.member) AS members,
             concat('silent for ', s.mono_ms - s.before_ms, ' ms, its session ends after ', s.session_timeout_ms)
               AS witness
           FROM silences s JOIN incarnations i ON s.place = i.place
             AND s.offset BETWEEN i.first_offset AND i.last_offset
           SEMI JOIN overlooked o
             ON s.place = o.place AND s.pos = o.pos
           WHERE NOT i.has_gaps AND s.before_offset >= i.first_offset""",
        ONLY_JOURNAL,
    ),
    _check(
        "early expiry",
        "S20",
        "a session ended although every member had been heard of in time",
        """SELECT place, gid, CAST(NULL AS INT) AS generation, max(armed_offset) AS first_offset,
             offset AS last_offset, collect_set(member) AS members,
             concat('the next session ends in ', min(armed_ms + session_timeout_ms - mono_ms), ' ms') AS witness
           FROM sessions_at_expiry
           GROUP BY place, gid, offset, pos
           HAVING min(coalesce(armed_ms + session_timeout_ms - mono_ms, -1)) > 0""",
        ONLY_JOURNAL,
    ),
    _check(
        "answer while loading",
        "S33",
        "a request other than a Heartbeat succeeded before its coordinator had loaded",
        """SELECT a.place, a.gid, a.generation, i.first_offset, a.offset AS last_offset,
             array(a.member) AS members,
             concat(a.api, ' before offset ', coalesce(CAST(i.loaded_offset AS STRING), 'the end')) AS witness
           FROM asked a JOIN loading i ON a.place = i.place
             AND i.run = a.run AND a.offset BETWEEN i.first_offset AND i.until_offset
           WHERE a.error = 'NONE' AND a.api <> 'Heartbeat' AND NOT i.has_gaps""",
        ONLY_JOURNAL,
    ),
    _check(
        "answer after unloading",
        "S28",
        "a request succeeded after its coordinator had been unloaded",
        """SELECT a.place, a.gid, a.generation, i.unloaded_offset AS first_offset,
             a.offset AS last_offset, array(a.member) AS members,
             concat(a.api, ' after offset ', i.unloaded_offset) AS witness
           FROM asked a JOIN over i ON a.place = i.place
             AND i.run = a.run AND a.offset BETWEEN i.unloaded_offset + 1 AND i.last_offset
           WHERE a.error = 'NONE'""",
        ONLY_JOURNAL,
    ),
    _check(
        "entries out of order",
        "S23",
        "entries of the journal are missing, repeated or in the wrong place",
        """SELECT place, gid, CAST(NULL AS INT) AS generation, before_offset AS first_offset,
             offset AS last_offset, array() AS members,
             concat('entry ', sequence, ' after ', before) AS witness
           FROM (SELECT /*+ BROADCAST(d) */ e.*, lag(sequence) OVER entries AS before,
                   lag(offset) OVER entries AS before_offset
                 FROM entries e SEMI JOIN disordered d ON e.place = d.place
                 WINDOW entries AS (PARTITION BY e.place ORDER BY pos))
           WHERE kind <> 'began' AND before IS NOT NULL
             AND sequence <> before + CASE WHEN kind = 'gap' THEN count ELSE 1 END""",
        ONLY_JOURNAL,
    ),
    _check(
        "zombie commit",
        "",
        "a member committed for a partition that is assigned to another one",
        """SELECT c.place, c.gid, c.generation, a.offset AS first_offset,
             c.offset AS last_offset, array(c.member, a.member) AS members,
             concat(c.topic, '-', c.topic_partition, ' of ', a.member) AS witness
           FROM (SELECT * FROM rows WHERE kind = 'commit') c JOIN owned a
             ON c.gid = a.gid AND c.generation = a.generation
               AND c.topic = a.topic AND c.topic_partition = a.topic_partition AND a.offset < c.offset
               AND (a.until_offset IS NULL OR c.offset < a.until_offset) AND c.member <> a.member
           SEMI JOIN accepted_commits t ON c.place = t.place AND c.offset = t.offset""",
        ONLY_JOURNAL,
        OBSERVATION,
    ),
    _check(
        "never settles",
        "L5",
        f"{UNSETTLED_GENERATIONS} generations in a row ended without an assignment",
        f"""SELECT place, gid, max(generation) AS generation, min(offset) AS first_offset,
             max(offset) AS last_offset, array() AS members, concat(count(*), ' generations') AS witness
           FROM (SELECT r.*, s.generation AS settled_generation,
                   lead(r.generation) OVER (PARTITION BY r.gid ORDER BY r.pos) AS following,
                   count(s.generation) OVER (PARTITION BY r.gid ORDER BY r.pos) AS settled
                 FROM rounds r LEFT JOIN (SELECT DISTINCT gid, generation FROM told_syncs) s
                   ON r.gid = s.gid AND r.generation = s.generation
                 WHERE r.source = 'journal')
           WHERE settled_generation IS NULL AND following IS NOT NULL
           GROUP BY place, gid, settled
           HAVING count(*) >= {UNSETTLED_GENERATIONS}""",
        ONLY_JOURNAL,
        OBSERVATION,
    ),
)

CHECKS = OF_RECORDS + OF_ANSWERS

# What no query finds.
REPLAY = Check("replay", "S23", VIOLATION, ONLY_JOURNAL, "the coordinator does something else with the same events", "")
MODEL = Check("model", "S23", VIOLATION, ONLY_JOURNAL, "the model answers otherwise when it is asked the same", "")

CHECK_OF = {check.name: check for check in (*CHECKS, REPLAY, MODEL)}

# About a partition: the group is that of the entry that is found in the wrong place.
OF_PARTITIONS = frozenset({REPLAY.name, MODEL.name, "entries out of order"})
