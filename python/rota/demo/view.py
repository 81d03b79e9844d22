"""Three ways to watch the demo: a live table, plain lines, JSON lines."""

from __future__ import annotations

import json
import sys
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rota.demo.cast import Actor
from rota.demo.stage import Audience, News, Result, Stage

NEWS_SHOWN = 12
# Heading, share of the width (the same whatever is in it, so that nothing jumps), side.
COLUMNS: tuple[tuple[str, int, Literal["left", "right"]], ...] = (
    ("member", 2, "left"),
    ("is", 2, "left"),
    ("subscribes to", 3, "left"),
    ("owns", 6, "left"),
    ("generation", 2, "right"),
    ("commits", 2, "right"),
)
COLOURS = {"member": "green", "joining": "yellow", "left": "dim", "killed": "red", "leaving": "yellow", "stuck": "red"}


class View(Audience):
    """What all three have in common: they take the news as it comes, and end with the result."""

    def look(self, stage: Stage) -> None:
        """Show what is new."""
        while stage.news:
            self.show(stage.news.popleft())

    @abstractmethod
    def show(self, news: News) -> None:
        """Show one line of news."""

    @abstractmethod
    def end(self, result: Result) -> None:
        """Say how it went."""


class PlainView(View):
    """One line for each thing that happened."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def show(self, news: News) -> None:
        """`  12.3 s  cleo    assigned: owns orders 0-2`"""
        print(f"{news.at_s:6.1f} s  {news.who:<7} {news.text}", file=self._out, flush=True)

    def end(self, result: Result) -> None:
        """The verdict, and what it rests on."""
        for line in closing(result):
            print(line, file=self._out, flush=True)


class JsonView(View):
    """One JSON object for each thing that happened, and the summary as the last line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def show(self, news: News) -> None:
        """{"at_s": 12.3, "who": "cleo", "text": "assigned: owns orders 0-2"}"""
        self._write({"at_s": round(news.at_s, 3), "who": news.who, "text": news.text})

    def end(self, result: Result) -> None:
        """The summary object."""
        self._write(result.summary)

    def _write(self, value: object) -> None:
        print(json.dumps(value, ensure_ascii=False), file=self._out, flush=True)


class LiveView(View):
    """A table that is redrawn in place, with the last news below it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=8)
        self._news: deque[News] = deque(maxlen=NEWS_SHOWN)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def look(self, stage: Stage) -> None:
        """Take the news and draw everything anew."""
        super().look(stage)
        self._live.update(self.draw(stage))

    def show(self, news: News) -> None:
        """Keep it for the next drawing."""
        self._news.append(news)

    def end(self, result: Result) -> None:
        """The verdict stays below the last picture."""
        self._live.stop()
        for line in closing(result):
            style = "bold green" if result.ok else "bold red"
            self._console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)

    def draw(self, stage: Stage) -> RenderableType:
        """The whole picture."""
        table = Table(title=heading(stage), title_justify="left", caption_justify="left", expand=True)
        for column, width, justify in COLUMNS:
            table.add_column(column, justify=justify, ratio=width)
        for actor in stage.cast.actors.values():
            table.add_row(*row(stage, actor), style=COLOURS.get(actor.status, ""))
        lines = [Text(f"{news.at_s:6.1f} s  {news.who:<7} {news.text}", overflow="ellipsis") for news in self._news]
        doing = Text(stage.doing, style="yellow")
        return Group(table, doing, *lines)


def heading(stage: Stage) -> str:
    """`group roster: Stable, generation 4 · ben leaves · 16 s of 30`"""
    state = stage.snapshot.state if stage.snapshot else "not there yet"
    if stage.explanation:
        state = f"{stage.explanation.state}, generation {stage.explanation.generation}"
    return f"group {stage.group}: {state} · {stage.step} · {stage.elapsed_s:.0f} s of {stage.settings.duration_s:.0f}"


def row(stage: Stage, actor: Actor) -> list[str]:
    """One line of the table."""
    topics = ", ".join(sorted(stage.cast.short[name] for name in actor.topics))
    generation = "" if actor.generation is None else str(actor.generation)
    return [actor.name, actor.status, topics, stage.cast.compact(actor.owned), generation, str(actor.commits)]


def closing(result: Result) -> Iterator[str]:
    """The verdict in words."""
    if not result.ok:
        yield f"FAILED, {len(result.failures)} thing{'s' if len(result.failures) > 1 else ''} went wrong:"
        yield from (f"  {failure}" for failure in result.failures)
        return
    of = result.summary
    yield (
        f"OK: {len(of['generations'])} generations, none with two owners for a partition; all {of['partitions']}"
        f" partitions owned once the group settled; {of['commits_acknowledged']} acknowledged commits, none lost."
    )


@contextmanager
def view(as_json: bool, out: TextIO | None = None) -> Iterator[View]:
    """The view that fits: JSON if asked for, a live table on a terminal, plain lines elsewhere."""
    out = sys.stdout if out is None else out
    console = Console(file=out)
    if as_json:
        yield JsonView(out)
    elif console.is_terminal:
        with LiveView(console) as live:
            yield live
    else:
        yield PlainView(out)
