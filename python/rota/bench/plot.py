"""How long answers took, as a small picture: one line per server, the rarest to the right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from rota.bench.serving import Points, Result

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 320, 64, 24, 40, 40
COLOURS = ("#6b7280", "#0f766e", "#b45309", "#1d4ed8", "#be123c", "#6d28d9")
SHARES = (0.5, 0.9, 0.99, 0.999, 0.9999)
RAREST = 1 - SHARES[-1]


def along(share: float) -> float:
    """Where a share is: each step to the right is ten times rarer."""
    rare = max(1 - share, RAREST)
    return LEFT + (WIDTH - LEFT - RIGHT) * math.log10(rare) / math.log10(RAREST)


def curve(results: Result) -> Points:
    """The round in the middle, by its rate."""
    return sorted(results.rounds, key=lambda one: one.per_s)[len(results.rounds) // 2].points


def svg(results: Sequence[Result], title: str) -> str:
    """The picture as a file of its own."""
    curves = [[(share, ns / 1e6) for share, ns in curve(result) if share <= SHARES[-1]] for result in results]
    least = min(ms for points in curves for _, ms in points if ms > 0)
    low = math.floor(math.log10(least))
    high = max(math.ceil(math.log10(max(ms for points in curves for _, ms in points))), low + 1)

    def up(ms: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log10(max(ms, 10**low)) - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        ' font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="16" font-size="12">{escape(title)}</text>',
    ]
    for power in range(low, high + 1):
        y = up(10**power)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e7eb"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10**power:g} ms</text>')
    for share in SHARES:
        text = f"{share * 100:g}%"
        parts.append(f'<text x="{along(share):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{text}</text>')
    for at, (result, points) in enumerate(zip(results, curves, strict=True)):
        colour = COLOURS[at % len(COLOURS)]
        path = " ".join(f"{along(share):.1f},{up(ms):.1f}" for share, ms in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x = LEFT + 120 * at
        parts.append(f'<text x="{x}" y="{HEIGHT - 8}" fill="{colour}">{escape(result.served.name)}</text>')
    return "\n".join([*parts, "</svg>", ""])
