"""Looks at the page in a headless Chromium: `make page`. Not a part of `make test`, which should not need a browser.

A stuck group of real clients and its explanation; group names that are markup; 1,000 groups of 100 members while
somebody scrolls. Screenshots go into the directory that is given. It fails with the first thing that does not hold.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import TopicPartition
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, expect, sync_playwright

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

#: As SCROLL, without scrolling: what this machine can do at the moment.
REST = """(frames) => new Promise((done) => {
  const gaps = [];
  let last = performance.now();
  const step = (now) => {
    gaps.push(now - last);
    last = now;
    if (gaps.length < frames) requestAnimationFrame(step);
    else done([Math.max(...gaps), gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length]);
  };
  requestAnimationFrame(step);
})"""

#: Scrolls through the list for so many frames, and gives the longest and the mean time between two of them.
SCROLL = """(frames) => new Promise((done) => {
  const list = document.getElementById("list"), gaps = [];
  let last = performance.now();
  const step = (now) => {
    gaps.push(now - last);
    last = now;
    list.scrollTop = (list.scrollTop + 97) % (list.scrollHeight - list.clientHeight);
    if (gaps.length < frames) requestAnimationFrame(step);
    else done([Math.max(...gaps), gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length]);
  };
  requestAnimationFrame(step);
})"""


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
            rest_longest_ms, rest_mean_ms = page.evaluate(REST, 200)
            longest_ms, mean_ms = page.evaluate(SCROLL, 600)
            tasks = page.evaluate("() => window.longTasks")
            assert page.locator("button.row").count() < 100, "only what is seen is drawn"
            page.screenshot(path=shots / "many.png")
            page.locator("#troubled").check()
            page.locator("#find").fill("group-007")
            expect(page.locator("button.row")).to_have_count(1)
            listener.close()
            expect(page.locator("#totals.down")).to_contain_text("no answer", timeout=WITHIN_MS)
            print(
                f"1,000 groups x {MEMBERS} members, 600 frames: {mean_ms:.1f} ms a frame, {longest_ms:.0f} ms the "
                f"longest (at rest {rest_mean_ms:.1f} and {rest_longest_ms:.0f}); {len(tasks)} tasks of 50 ms "
                f"or more, {max(tasks, default=0):.0f} ms the longest"
            )
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
