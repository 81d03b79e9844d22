"""Looks at the page in a headless Chromium: `make page`. Not a part of `make test`, which should not need a browser.

A stuck group of real clients and its explanation; group names that are markup; 1,000 groups of 100 members while
a user scrolls. Screenshots go into the directory that is given. It fails with the first thing that does not hold.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import TopicPartition
from playwright.sync_api import Browser, CDPSession, ConsoleMessage, Dialog, Page, expect, sync_playwright

import rota
from rota.http import listen

from .asking import GROUP, SETTINGS, commit, stuck
from .many import MEMBERS, Many

WITHIN_MS = 30_000
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    '"><script>alert(2)</script>',
    "javascript:alert(3)",
    "</span></button><h1>big</h1>",
    "\u202etxt.gpj",
    "a" * 200,
    "%2e%2e%2f../..?x=1#y",
)

#: Collects what kept the page from answering for 50 ms or more.
OBSERVE = """() => {
  window.longTasks = [];
  new PerformanceObserver((seen) => window.longTasks.push(...seen.getEntries().map((task) => task.duration)))
    .observe({ entryTypes: ["longtask"] });
}"""

#: Scrolls by so many pixels a frame, for so many frames: the longest and the mean time between two of them.
FRAMES = """([frames, pixels]) => new Promise((done) => {
  const list = document.getElementById("list"), gaps = [];
  let last = performance.now();
  const step = (now) => {
    gaps.push(now - last);
    last = now;
    if (pixels) list.scrollTop = (list.scrollTop + pixels) % (list.scrollHeight - list.clientHeight);
    if (gaps.length < frames) requestAnimationFrame(step);
    else done([Math.max(...gaps), gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length]);
  };
  requestAnimationFrame(step);
})"""

TASK_MS_MAX = 50
"""A longer task is one that people notice. If all tasks between two looks take less together, none is as long."""
FRAME_MS = 1_000 / 60


@dataclass(frozen=True)
class Frames:
    """How the page was while frames were drawn: time between two of them, and what its thread had to do. The first is
    the machine's doing, too, the second only the page's."""

    longest_ms: float
    mean_ms: float
    cpu_ms_a_frame: float

    @property
    def cpu_ms_a_second(self) -> float:
        return self.cpu_ms_a_frame * 1_000 / self.mean_ms


def frames(page: Page, session: CDPSession, count: int, pixels: int) -> Frames:
    """Scroll by so many pixels a frame."""

    def cpu_ms() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return float(next(1_000 * one["value"] for one in metrics if one["name"] == "TaskDuration"))

    before = cpu_ms()
    longest_ms, mean_ms = page.evaluate(FRAMES, [count, pixels])
    return Frames(longest_ms, mean_ms, (cpu_ms() - before) / count)


def seen(name: str) -> str:
    """What turns text around is shown by its number."""
    return name.replace("\u202e", r"\u{202e}")


@contextmanager
def opened(browser: Browser, address: str) -> Iterator[Page]:
    """The page, in which nothing may go wrong."""
    faults: list[str] = []

    def complain(message: ConsoleMessage) -> None:
        # There is no icon, and no answer from a server that has been stopped.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            faults.append(message.text)

    def dismiss(dialog: Dialog) -> None:
        faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.set_default_timeout(WITHIN_MS)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", dismiss)
    page.on("console", complain)
    page.goto(f"http://{address}/")
    yield page
    assert not faults, faults
    page.close()


def a_stuck_group(browser: Browser, shots: Path) -> None:
    """The page explains what real clients did."""
    clock = rota.VirtualClock()
    with rota.Server(settings=SETTINGS, clock=clock, http=":0") as server:
        server.create_topic("t", partitions=12)
        with stuck(server, clock) as (left, missing):
            assert server.http_address is not None
            with opened(browser, server.http_address) as page:
                page.get_by_role("button", name=GROUP).click()
                why = page.locator("#why")
                expect(why).to_contain_text(f"waiting for {missing[:19]}… to rejoin, whose session ends in 14.0 s")
                expect(why).to_contain_text(f"it began because {left[:19]}… left")
                expect(page.locator("#members tbody tr")).to_have_count(2)
                expect(page.locator("#grid b")).to_have_count(8)
                expect(page.locator("#timeline li").first).to_contain_text("MemberLeft")
                expect(page.locator("#slack .bars path")).to_have_count(2)
                page.screenshot(path=shots / "stuck.png")


def hostile_names(browser: Browser, shots: Path) -> None:
    """Names that are markup are shown as they are, and do nothing."""
    with rota.Server(settings=SETTINGS, http=":0") as server:
        server.create_topic("t")
        for name in HOSTILE:
            commit(server, name, TopicPartition("t", 0, 0, metadata="<b>bold</b>"))
        assert server.http_address is not None
        with opened(browser, server.http_address) as page:
            for name in map(seen, HOSTILE):
                page.locator("button.row span:first-child").get_by_text(name, exact=True).click()
                expect(page.locator("#name")).to_have_text(name)
                expect(page.locator("#why")).to_contain_text("Empty for")
            assert page.locator("img, iframe, body script, #rows h1").count() == 0
            page.screenshot(path=shots / "hostile.png")


def very_many(browser: Browser, shots: Path) -> None:
    """A thousand groups of a hundred members: what is not seen is not drawn, and scrolling stays smooth."""
    listener = listen(":0")
    try:
        listener.subject.show(Many(1_000).as_server(), lambda: None)
        with opened(browser, listener.address) as page:
            expect(page.locator("#totals")).to_contain_text(f"1000 groups, {1_000 * MEMBERS} members")
            page.evaluate(OBSERVE)
            page.get_by_role("button", name="group-00003").click()
            expect(page.locator("#members tbody tr")).to_have_count(MEMBERS)
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            rest, scrolled = frames(page, session, 300, 0), frames(page, session, 600, 97)
            tasks = page.evaluate("() => window.longTasks")
            assert page.locator("button.row").count() < 100, "only what is seen is drawn"
            page.screenshot(path=shots / "many.png")
            page.locator("#troubled").check()
            page.locator("#find").fill("group-007")
            expect(page.locator("button.row")).to_have_count(1)
            listener.close()
            expect(page.locator("#totals.down")).to_contain_text("no answer", timeout=WITHIN_MS)
            print(
                f"1,000 groups x {MEMBERS} members: {rest.cpu_ms_a_second:.1f} ms of CPU a second, while scrolling "
                f"{scrolled.cpu_ms_a_frame:.1f} ms of CPU a frame. Frames came every "
                f"{rest.mean_ms:.1f} ms ({rest.longest_ms:.0f} the longest), while scrolling every "
                f"{scrolled.mean_ms:.1f} ms ({scrolled.longest_ms:.0f}); {len(tasks)} tasks took {TASK_MS_MAX} ms or "
                f"more of time, {max(tasks, default=0):.0f} ms the longest"
            )
            assert rest.cpu_ms_a_second < TASK_MS_MAX
            assert scrolled.cpu_ms_a_frame < FRAME_MS
    finally:
        listener.close()


def main() -> None:
    """All of it."""
    shots = Path(sys.argv[1] if len(sys.argv) > 1 else "build/page")
    shots.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for look in (a_stuck_group, hostile_names, very_many):
            look(browser, shots)
            print(f"{look.__name__.replace('_', ' ')}: well", flush=True)
        browser.close()
    print(f"screenshots are in {shots}")


if __name__ == "__main__":
    main()
