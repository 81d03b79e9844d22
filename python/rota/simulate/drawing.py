"""A world as a picture: processes as rows, generations as bands, ownership as bars, faults as marks. SVG."""

from __future__ import annotations

from html import escape
from itertools import groupby

from rota.simulate import World

WIDTH, LEFT, RIGHT, TOP = 1_200, 96, 16, 96
LANE, ROW_MIN, ROW_GAP, GROUP_GAP = 3, 14, 6, 22
STEPS_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600)
TICKS_MAX = 14
NAME_WIDTH = 13
LEGEND = (
    "row: a process · bar: a partition that it has · band: a generation · red: what goes wrong · point at it for more"
)


def svg(world: World, title: str, from_ms: int = 0, to_ms: int | None = None) -> str:
    """The picture of a world from one time to another; to its end if none is given."""
    end_ms = max(world.figures["simulated_ms"] if to_ms is None else to_ms, from_ms + 1)
    picture = _Picture(world, from_ms, end_ms)
    body = [*picture.groups(), *picture.faults(), *picture.axis()]
    height = picture.bottom + 30
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
            f'<text x="8" y="18" font-size="14">{escape(title)}</text>',
            f'<text x="{WIDTH - RIGHT}" y="18" font-size="10" fill="#567" text-anchor="end">{LEGEND}</text>',
            *body,
            "</svg>",
            "",
        ]
    )


class _Picture:
    """Where things are: `bottom` is the lowest row so far."""

    def __init__(self, world: World, from_ms: int, to_ms: int) -> None:
        self.world, self.from_ms, self.to_ms = world, from_ms, to_ms
        self.bottom = TOP

    def x(self, at_ms: int) -> float:
        """Where a time is, within the picture."""
        within = min(max(at_ms, self.from_ms), self.to_ms) - self.from_ms
        return round(LEFT + within * (WIDTH - LEFT - RIGHT) / (self.to_ms - self.from_ms), 2)

    def groups(self) -> list[str]:
        """One section for each group."""
        numbers = sorted({life["group"] for life in self.world.lives})
        return [line for number in numbers for line in self._group(number)]

    def _group(self, group: int) -> list[str]:
        lives = sorted((life for life in self.world.lives if life["group"] == group), key=lambda life: life["process"])
        processes = {tuple(life["process"]) for life in lives}
        owned = [one for one in self.world.owned if tuple(one["process"]) in processes and one["to_ms"] > self.from_ms]
        lanes = {name: lane for lane, name in enumerate(sorted({one["partition"] for one in owned}, key=_numbered))}
        height = max(ROW_MIN, LANE * len(lanes))
        top = self.bottom
        rows: dict[int, float] = {}
        lines: list[str] = []
        for seat, of_seat in groupby(lives, key=lambda life: life["process"][0]):
            y = self.bottom + ROW_GAP
            rows[seat] = y
            self.bottom = y + height
            for at, life in enumerate(of_seat):
                if not at:
                    name = escape(life["name"])
                    lines.append(f'<text x="8" y="{y + height / 2 + 4}" font-size="11">{name}</text>')
                lines.append(self._box(life, y, height, 'fill="none" stroke="#999"'))
        for one in owned:
            lane = lanes[one["partition"]]
            words = f"{one['partition']}, generation {one['generation']}, {one['from_ms']} to {one['to_ms']} ms"
            color = f"hsl({round(360 * lane / len(lanes))} 65% 50%)"
            lines.append(self._box(one, rows[one["process"][0]] + lane * LANE, LANE, f'fill="{color}"', words))
        bands = self._bands(owned, top)
        self.bottom += GROUP_GAP
        return [*bands, *lines]

    def _bands(self, owned: list[dict[str, object]], top: float) -> list[str]:
        began: dict[int, int] = {}
        for one in owned:
            generation, from_ms = one["generation"], one["from_ms"]
            assert isinstance(generation, int)
            assert isinstance(from_ms, int)
            began[generation] = min(began.get(generation, from_ms), from_ms)
        starts = sorted((at_ms, generation) for generation, at_ms in began.items())
        ends = [at_ms for at_ms, _ in starts[1:]] + [self.to_ms]
        height = self.bottom - top + GROUP_GAP - 4
        lines = []
        for at, ((from_ms, generation), to_ms) in enumerate(zip(starts, ends, strict=True)):
            shade = "#eef2f7" if at % 2 else "#e0e7f0"
            lines.append(self._box({"from_ms": from_ms, "to_ms": to_ms}, top, height, f'fill="{shade}"'))
            if self.x(to_ms) - self.x(from_ms) > 24:
                y = top + height - 5
                lines.append(f'<text x="{self.x(from_ms) + 3}" y="{y}" font-size="9" fill="#567">g{generation}</text>')
        return lines

    def _box(self, span: dict[str, object], y: float, height: float, style: str, words: str = "") -> str:
        from_ms, to_ms = span["from_ms"], span["to_ms"]
        assert isinstance(from_ms, int)
        assert isinstance(to_ms, int)
        x, width = self.x(from_ms), max(self.x(to_ms) - self.x(from_ms), 0.5)
        inner = f"><title>{escape(words)}</title></rect>" if words else "/>"
        return f'<rect x="{x}" y="{y}" width="{width:.2f}" height="{height}" {style}{inner}'

    def faults(self) -> list[str]:
        """A line for each, with its name; names that would lie on each other move to the right."""
        lines = []
        free = 0.0
        for fault in self.world.faults:
            at_ms, kind = int(fault["at_ms"]), escape(str(fault["kind"]))
            if self.from_ms <= at_ms <= self.to_ms:
                x = self.x(at_ms)
                lines.append(f'<path d="M{x} {TOP - 4}V{self.bottom}" stroke="#c00" stroke-dasharray="2 3"/>')
                at = round(max(x, free), 2)
                free = at + NAME_WIDTH
                place = f'x="{at}" y="{TOP - 8}" transform="rotate(-55 {at} {TOP - 8})"'
                lines.append(f'<text {place} font-size="10" fill="#c00">{kind}</text>')
        return lines

    def axis(self) -> list[str]:
        """Seconds."""
        span_s = (self.to_ms - self.from_ms) / 1_000
        step_s = next((step for step in STEPS_S if span_s / step <= TICKS_MAX), STEPS_S[-1])
        first = -(-self.from_ms // (step_s * 1_000)) * step_s
        ticks = range(first, self.to_ms // 1_000 + 1, step_s)
        y = self.bottom + 14
        return [
            f'<text x="{self.x(tick * 1_000)}" y="{y}" font-size="10" text-anchor="middle">{tick} s</text>'
            for tick in ticks
        ]


def _numbered(partition: str) -> tuple[str, int]:
    topic, _, index = partition.rpartition("-")
    return topic, int(index)
