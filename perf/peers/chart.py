"""Time over message size as an SVG: a panel for each collective and rank count."""
from math import ceil, floor, log10

from libraries import COLOURS, LIMITS, SHOWN, is_tutti
from sizes import size_text


def time_text(us):
    for unit, scale in (("s", 1e6), ("ms", 1e3)):
        if us >= scale:
            return f"{us / scale:g} {unit}"
    return f"{us:g} µs"


def stroke(library):
    width = 2.4 if is_tutti(library) else 1.6
    dashes = ' stroke-dasharray="4 3"' if library in LIMITS else ""
    return f'stroke="{COLOURS[library]}" stroke-width="{width}"{dashes}'


def ticks(low, high):
    """Powers of ten from low to high."""
    return [10.0**e for e in range(low, high + 1)]


class Panel:
    """One collective at one rank count: time over size, both logarithmic."""
    WIDTH, HEIGHT = 300, 200
    LEFT, TOP, RIGHT, BOTTOM = 46, 26, 10, 30

    def __init__(self, x, y, sizes, low, high):
        self.x, self.y, self.sizes, self.low, self.high = x, y, sizes, low, high

    def across(self, index):
        span = self.WIDTH - self.LEFT - self.RIGHT
        return self.x + self.LEFT + span * index / max(1, len(self.sizes) - 1)

    def down(self, us):
        span = self.HEIGHT - self.TOP - self.BOTTOM
        return self.y + self.TOP + span * (self.high - log10(us)) / (self.high - self.low)

    def frame(self, title):
        left, right = self.across(0), self.across(len(self.sizes) - 1)
        parts = [f'<text x="{left:.1f}" y="{self.y + 16}" class="title">{title}</text>']
        for us in ticks(self.low, self.high):
            y = self.down(us)
            parts.append(f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
            parts.append(f'<text x="{left - 5:.1f}" y="{y + 3.5:.1f}" class="right">{time_text(us)}</text>')
        every = max(1, -(-len(self.sizes) // 6))
        for index in range(0, len(self.sizes), every):
            parts.append(f'<text x="{self.across(index):.1f}" y="{self.y + self.HEIGHT - 12}" '
                         f'class="middle">{size_text(self.sizes[index])}</text>')
        return parts

    def line(self, library, medians):
        points = " ".join(f"{self.across(i):.1f},{self.down(us):.1f}" for i, us in enumerate(medians))
        return f'<polyline points="{points}" fill="none" stroke-linejoin="round" {stroke(library)}/>'


def chart(rows, libraries):
    ranks_shown = list(dict.fromkeys(row["ranks"] for row in rows))
    collectives = list(dict.fromkeys(row["collective"] for row in rows))
    sizes = list(dict.fromkeys(row["bytes"] for row in rows))
    every = [us for row in rows for us in row["median_us"].values()]
    low, high = floor(log10(min(every))), ceil(log10(max(every)))
    high = max(high, low + 1)
    width = max(20 + Panel.WIDTH * len(ranks_shown), 20 + 118 * len(libraries))
    height = 60 + Panel.HEIGHT * len(collectives)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}">',
             '<style>text{font:11px sans-serif;fill:#333}.title{font-weight:bold;font-size:12px}'
             '.right{text-anchor:end}.middle{text-anchor:middle}.grid{stroke:#ddd}</style>',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             '<text x="20" y="22" class="title">Time over message bytes, '
             'slowest rank (lower is better)</text>']
    for index, library in enumerate(libraries):
        x = 20 + 118 * index
        parts.append(f'<line x1="{x}" x2="{x + 22}" y1="40" y2="40" {stroke(library)}/>'
                     f'<text x="{x + 28}" y="44">{SHOWN[library]}</text>')
    for i, collective in enumerate(collectives):
        for j, ranks in enumerate(ranks_shown):
            panel = Panel(10 + j * Panel.WIDTH, 55 + i * Panel.HEIGHT, sizes, low, high)
            parts += panel.frame(f"{collective}, {ranks} ranks")
            chosen = [r for r in rows if r["collective"] == collective and r["ranks"] == ranks]
            for library in reversed(libraries):  # Tutti on top
                if any(library not in row["median_us"] for row in chosen):
                    continue
                parts.append(panel.line(library, [row["median_us"][library] for row in chosen]))
    return "\n".join(parts + ["</svg>"]) + "\n"
