"""An audit as one HTML file: verdicts, all groups, and of some who owned what when, their rebalances, their lag.

A script looks groups up; without it the page is the same list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import Row, SparkSession

from rota.audit.audit import Audit
from rota.audit.command import findings, shown_time
from rota.why import words

GROUPS_SHOWN, BARS_SHOWN, VERDICTS_SHOWN = 20, 2_000, 500
GROUPS_LISTED = 10_000
WIDTH, LABEL, LINE = 960, 220, 18
MEMBERS_NAMED, LEGEND_COLUMNS = 24, 3
# What there is to see of the last generation.
BEHIND_SHARE = 0.05
COLOURS = ("#4878a8", "#c8743c", "#5a9a5a", "#a85a8c", "#8c8c3c", "#3c9a9a", "#9a5a5a", "#6a6ab8")

STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; }
td, th { border: 1px solid #ccc; padding: .2em .6em; text-align: left; vertical-align: top; }
th { background: #f2f2f2; } .violation { background: #fbe3e0; } td:nth-child(2) { white-space: nowrap; }
[hidden] { display: none; } input { font: inherit; width: 24em; }
svg { display: block; margin: .5em 0 1.5em; } svg text { font: 11px system-ui, sans-serif; fill: #333; }
"""


SEARCH = (
    "<p id='search' hidden='hidden'><label>Group: <input type='search' placeholder='part of its id'/></label>"
    " <output></output></p>"
)
# Without the characters that are markup.
SCRIPT = """
const search = document.getElementById("search");
const [field, count] = [search.querySelector("input"), search.querySelector("output")];
const filter = () => {
  const wanted = field.value.trim().toLowerCase();
  for (const one of document.querySelectorAll("[data-group]"))
    one.hidden = !one.dataset.group.toLowerCase().includes(wanted);
  const listed = Array.from(document.querySelectorAll("tr.group"));
  count.textContent = `${listed.filter((one) => !one.hidden).length} of ${listed.length}`;
};
field.addEventListener("input", filter);
search.hidden = false;
filter();
"""


class Span(NamedTuple):
    """The time that a plot shows, wall milliseconds."""

    from_ms: int
    to_ms: int

    def x(self, at_ms: int) -> float:
        """Where an instant is drawn."""
        share = (at_ms - self.from_ms) / max(1, self.to_ms - self.from_ms)
        return LABEL + min(1.0, max(0.0, share)) * (WIDTH - LABEL)


def _clock(at_ms: int | None) -> str:
    """An instant without what is the same for all."""
    return shown_time(at_ms).replace("T", " ").removesuffix("+00:00")


def _table(head: Iterable[str], rows: Iterable[tuple[str, Sequence[object]]], group_in: int | None = None) -> str:
    """`group_in`: the column of the group's id, by which rows are looked up."""
    cells = "".join(
        f"<tr class='{kind}'{'' if group_in is None else _of_group(str(row[group_in]))}>"
        f"{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>"
        for kind, row in rows
    )
    return f"<table><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>{cells}</table>"


def _of_group(name: str) -> str:
    return f" data-group='{escape(name)}'"


def _svg(lines: int, body: str, title: str) -> str:
    height = lines * LINE + LINE
    return f"<svg width='{WIDTH}' height='{height}' role='img' aria-label='{escape(title, quote=True)}'>{body}</svg>"


def _axis(span: Span, lines: int) -> str:
    y = lines * LINE + LINE - 4
    ends = ((LABEL, "start", span.from_ms), (WIDTH, "end", span.to_ms))
    return "".join(f"<text x='{x}' y='{y}' text-anchor='{anchor}'>{_clock(at)}</text>" for x, anchor, at in ends)


def _legend(colours: list[tuple[str, str]], line: int) -> list[str]:
    """Who is which colour, from this line on."""
    found = []
    for at, (member, colour) in enumerate(colours):
        x = LABEL + at % LEGEND_COLUMNS * (WIDTH - LABEL) // LEGEND_COLUMNS
        y = (line + at // LEGEND_COLUMNS) * LINE
        name = f"<text x='{x + 14}' y='{y + 13}'>{escape(words.short(member))}</text>"
        found.append(f"<rect x='{x}' y='{y + 4}' width='10' height='10' fill='{colour}'/>{name}")
    return found


def ownership_plot(rows: list[Row], span: Span) -> str:
    """A line for each partition, a bar for each time that a member owned it."""
    places = sorted({(row.topic, row.topic_partition) for row in rows})
    colours = {member: COLOURS[at % len(COLOURS)] for at, member in enumerate(sorted({row.member for row in rows}))}
    body = [
        f"<text x='0' y='{at * LINE + 13}'>{escape(f'{topic}-{index}')[:34]}</text>"
        for at, (topic, index) in enumerate(places)
    ]
    for row in rows:
        left, right = span.x(row.from_ms), span.x(span.to_ms if row.to_ms is None else row.to_ms)
        y = places.index((row.topic, row.topic_partition)) * LINE + 2
        says = escape(f"{row.member}, generation {row.generation}, from {_clock(row.from_ms)}")
        body.append(
            f"<rect x='{left:.1f}' y='{y}' width='{max(1.0, right - left):.1f}' height='{LINE - 4}'"
            f" fill='{colours[row.member]}'><title>{says}</title></rect>"
        )
    legend = _legend(list(colours.items())[:MEMBERS_NAMED], len(places) + 1)
    lines = len(places) + -(-len(legend) // LEGEND_COLUMNS)
    return _svg(lines, "".join(body) + _axis(span, len(places)) + "".join(legend), "who owned which partition")


def rebalances_plot(rows: list[Row], span: Span) -> str:
    """A stroke for each generation; pointing at it tells who came and who went."""
    body = [f"<text x='0' y='{LINE - 4}'>generations</text>"]
    for row in rows:
        x = span.x(row.from_ms)
        says = escape(f"generation {row.generation} at {_clock(row.from_ms)}: {cause(row)}")
        body.append(
            f"<rect x='{x:.1f}' y='2' width='3' height='{LINE - 4}' fill='#b03030'><title>{says}</title></rect>"
        )
    return _svg(1, "".join(body) + _axis(span, 1), "rebalances")


def cause(row: Row) -> str:
    """Why a generation came to be, if a journal says it, and who came and went with it."""
    parts = [(name, list(row[name])) for name in ("joined", "gone")]
    named = [
        f"{name} {words.listed([words.short(member) for member in members])}" for name, members in parts if members
    ]
    said = "; ".join(named) or ("the same members" if row.members else "no members")
    return said if row.cause is None else f"{words.cause(row.cause, row.cause_member, row.cause_reason)}: {said}"


def _group(row: Row, generations: list[Row], owned: list[Row], lags: list[Row]) -> str:
    times = [shown.from_ms for shown in (*generations, *owned)]
    first_ms, last_ms = min(times), max([*times, *(owner.to_ms or 0 for owner in owned)])
    span = Span(first_ms, last_ms + max(1, int((last_ms - first_ms) * BEHIND_SHARE)))
    shown = [
        ("", [each.generation, _clock(each.from_ms), words.short(each.leader or ""), each.protocol or "", cause(each)])
        for each in generations[-50:]
    ]
    parts = [f"<section{_of_group(row.group)}><h3>{escape(row.group)} ({row.source})</h3>"]
    parts.append(rebalances_plot(generations, span))
    if owned:
        parts.append(ownership_plot(owned, span))
    parts.append(_table(("generation", "from (UTC)", "leader", "protocol", "why, and who came and went"), shown))
    if lags:
        far = [("", [f"{at.topic}-{at.topic_partition}", at.committed, at.end_offset, at.lag]) for at in lags]
        parts.append(_table(("partition", "committed", "end", "lag"), far))
    return "".join([*parts, "</section>"])


def write(spark: SparkSession, found: Audit, target: Path) -> None:
    """Write the report; needs the views that `tables.write` leaves. Raises OSError."""
    verdicts = [
        (verdict.severity, [verdict.id, verdict.name, verdict.group or "", verdict.generation or "",
                            f"{verdict.partition}: {verdict.first_offset} to {verdict.last_offset}",
                            ", ".join(verdict.members), verdict.witness[:400], verdict.reproduce])
        for verdict in found.verdicts[:VERDICTS_SHOWN]
    ]  # fmt: skip
    troubles = [
        (trouble.kind, [trouble.kind, trouble.log, trouble.offset, trouble.reason]) for trouble in found.unreadable
    ]
    known = [("", [line.source, line.log, line.id, line.decided, line.why]) for line in found.coverage]
    body = [
        "<h1>Audit</h1>",
        f"<p>{findings(found)}: {words.counted(found.rows, 'row')} read,"
        f" {words.counted(found.groups, 'group')} audited.</p>",
        SEARCH,
        "<h2>Verdicts</h2>",
        _table(("id", "name", "group", "generation", "offsets", "members", "witness", "command"), verdicts, 2)
        if verdicts
        else "<p>None.</p>",
    ]
    if troubles:
        body += ["<h2>Not readable</h2>", _table(("kind", "log", "offset", "reason"), troubles)]
    body.append("<h2>Groups</h2>")
    body += _groups(spark, found)
    body += ["<h2>What could be decided</h2>", _table(("source", "log", "id", "decided by", "unknown"), known)]
    head = f"<!doctype html><html lang='en'><meta charset='utf-8'><title>rota audit</title><style>{STYLE}</style>"
    body.append(f"<script>{SCRIPT}</script>")
    target.write_text(f"{head}<body>{''.join(body)}</body></html>\n", encoding="utf-8")


def _last(spark: SparkSession, table: str, order: Sequence[str], key: dict[str, Any]) -> list[Row]:
    """The last rows of a group that a plot has room for, oldest first."""
    where = "source = :source AND log = :log AND `group` = :name"
    latest = ", ".join(f"{column} DESC" for column in order)
    rows = spark.sql(f"SELECT * FROM {table} WHERE {where} ORDER BY {latest} LIMIT {BARS_SHOWN}", args=key).collect()
    return rows[::-1]


def _groups(spark: SparkSession, found: Audit) -> list[str]:
    """All of them, and some in full: those with verdicts first, then those with the most generations."""
    spark.createDataFrame(
        [(verdict.source, verdict.log, verdict.group) for verdict in found.verdicts if verdict.group],
        "source string, log string, `group` string",
    ).createOrReplaceTempView("blamed")
    order = "ORDER BY blamed DESC, generations DESC, source, log, `group`"
    each = "count(*) AS {} FROM {} GROUP BY source, log, `group`"
    listed = spark.sql(f"""SELECT source, log, `group`, coalesce(generations, 0) AS generations,
          coalesce(blamed, 0) AS blamed
        FROM (SELECT DISTINCT source, log, `group` FROM rows WHERE `group` IS NOT NULL)
          LEFT JOIN (SELECT source, log, `group`, {each.format("generations", "generations")})
            USING (source, log, `group`)
          LEFT JOIN (SELECT source, log, `group`, {each.format("blamed", "blamed")}) USING (source, log, `group`)
        {order} LIMIT {GROUPS_LISTED + 1}""").collect()
    rows = [("group", [row.group, row.source, row.log, row.generations, row.blamed]) for row in listed[:GROUPS_LISTED]]
    parts = [_table(("group", "source", "log", "generations", "verdicts"), rows, 0)]
    if len(listed) > GROUPS_LISTED:
        parts.append(f"<p>The first {GROUPS_LISTED}; --group chooses others.</p>")
    # Groups of the newer protocol have no generations.
    for row in [row for row in listed if row.generations][:GROUPS_SHOWN]:
        key: dict[str, Any] = {"source": row.source, "log": row.log, "name": row.group}
        where = "log = :log AND `group` = :name"
        parts.append(
            _group(
                row,
                _last(spark, "generations", ["offset"], key),
                _last(spark, "ownership", ["from_ms", "topic", "topic_partition", "member"], key),
                spark.sql(f"SELECT * FROM lag WHERE {where} ORDER BY topic, topic_partition", args=key).collect(),
            )
        )
    return parts
