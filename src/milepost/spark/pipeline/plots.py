"""Plots as SVG, drawn by hand: bars over time and bars by name. No script, no font, no server: they open wherever HTML opens."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 760, 220, 70, 46, 12
COLOUR = "#2f6f8f"


def short(number: float) -> str:
    """1,250,000 as 1.25M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= limit:
            return f"{number / limit:.3g}{unit}"
    return f"{number:.3g}"


def bars(values: Sequence[tuple[str, float]], unit: str) -> str:
    """Upright bars, left to right; every few labels are written where all would not fit."""
    if not values:
        return "<p>nothing to draw</p>"
    most = max(value for _, value in values) or 1
    room, high = WIDTH - LEFT - 10, HEIGHT - TOP - BOTTOM
    step = room / len(values)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" width="{WIDTH}">']
    for share in (0, 0.5, 1):
        y = TOP + high * (1 - share)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(short(most * share))}</text>')
    every = max(1, -(-len(values) // 8))
    for number, (name, value) in enumerate(values):
        tall = high * value / most
        x = LEFT + number * step
        parts.append(
            f'<rect x="{x + step * 0.1:.1f}" y="{TOP + high - tall:.1f}" width="{step * 0.8:.1f}" height="{tall:.1f}" fill="{COLOUR}">'
            f"<title>{escape(name)}: {value:,.0f} {escape(unit)}</title></rect>"
        )
        if number % every == 0:
            middle = x + step / 2
            parts.append(f'<text x="{middle:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{escape(name)}</text>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 6}">{escape(unit)}</text></svg>')
    return "".join(parts)


def lying_bars(values: Sequence[tuple[str, float]], unit: str) -> str:
    """One bar a line, with its name before it and its number behind."""
    if not values:
        return "<p>nothing to draw</p>"
    most = max(value for _, value in values) or 1
    line, names = 24, 220
    high = line * len(values) + 8
    parts = [f'<svg viewBox="0 0 {WIDTH} {high}" role="img" width="{WIDTH}">']
    for number, (name, value) in enumerate(values):
        y = number * line + 4
        long = (WIDTH - names - 110) * value / most
        parts.append(f'<text x="{names - 8}" y="{y + 15}" text-anchor="end">{escape(name[:34])}</text>')
        parts.append(f'<rect x="{names}" y="{y + 3}" width="{long:.1f}" height="{line - 8}" fill="{COLOUR}"/>')
        parts.append(f'<text x="{names + long + 6:.1f}" y="{y + 15}">{escape(short(value))} {escape(unit)}</text>')
    return "".join([*parts, "</svg>"])
