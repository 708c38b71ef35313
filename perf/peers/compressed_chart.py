"""How much faster compressed calls are than plain ones, and how far off, as an SVG: over sizes a panel
for each link, and one of errors."""
from math import ceil, floor, log10

COLOURS = {"bf16": "#1b6ca8", "int8": "#2a9d4a", "fp8": "#8d5fbf", "int4": "#d9822b", "topk:k=1%": "#c0392b"}
OTHERS = "#555"
SHOWN = {"100mbit": "100 Mbit/s", "1gbit": "1 Gbit/s", "10gbit": "10 Gbit/s", "shm": "shared memory"}
WIDTH, HEIGHT = 300, 210
LEFT, TOP, RIGHT, BOTTOM = 44, 28, 12, 30


def size_text(size):
    return f"{size >> 20}M" if size >= 1 << 20 else f"{size >> 10}K"


class Panel:
    """Values over sizes, both logarithmic, from 10^low to 10^high."""

    def __init__(self, x, y, sizes, low, high):
        self.x, self.y, self.sizes, self.low, self.high = x, y, sizes, low, high

    def across(self, size):
        span = WIDTH - LEFT - RIGHT
        return self.x + LEFT + span * self.sizes.index(size) / max(1, len(self.sizes) - 1)

    def down(self, value):
        span = HEIGHT - TOP - BOTTOM
        return self.y + TOP + span * (self.high - log10(value)) / (self.high - self.low)

    def frame(self, title, ticks):
        left, right = self.across(self.sizes[0]), self.across(self.sizes[-1])
        parts = [f'<text x="{left:.1f}" y="{self.y + 16}" class="title">{title}</text>']
        for value, text in ticks:
            y, kind = self.down(value), "one" if text == "1 x" else "grid"
            parts.append(f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{y:.1f}" y2="{y:.1f}" class="{kind}"/>')
            parts.append(f'<text x="{left - 5:.1f}" y="{y + 3.5:.1f}" class="right">{text}</text>')
        for size in self.sizes:
            parts.append(f'<text x="{self.across(size):.1f}" y="{self.y + HEIGHT - 12}" class="middle">'
                         f'{size_text(size)}</text>')
        return parts

    def line(self, name, points):
        text = " ".join(f"{self.across(size):.1f},{self.down(value):.1f}" for size, value in points)
        return (f'<polyline points="{text}" fill="none" stroke-width="2" stroke-linejoin="round" '
                f'stroke="{COLOURS.get(name, OTHERS)}"/>')


def chart(rows):
    """Of one collective and number of ranks: the first that there are."""
    rows = [row for row in rows if row["format"] != "plain" and row["collective"] == rows[0]["collective"]
            and row["ranks_per_host"] == rows[0]["ranks_per_host"]]
    links = list(dict.fromkeys(row["rate"] for row in rows))
    formats = list(dict.fromkeys(row["format"] for row in rows))
    sizes = sorted({row["bytes"] for row in rows})
    panels = len(links) + 1
    across = min(3, panels)
    width, height = 20 + WIDTH * across, 60 + HEIGHT * ceil(panels / across)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}">',
             '<style>text{font:11px sans-serif;fill:#333}.title{font-weight:bold;font-size:12px}'
             '.right{text-anchor:end}.middle{text-anchor:middle}.grid{stroke:#ddd}.one{stroke:#888}</style>',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             f'<text x="20" y="22" class="title">Compressed {rows[0]["collective"]}: how many times as fast as '
             'plain, and how far off</text>']
    for index, name in enumerate(formats):
        parts.append(f'<line x1="{20 + 110 * index}" x2="{42 + 110 * index}" y1="40" y2="40" stroke-width="2" '
                     f'stroke="{COLOURS.get(name, OTHERS)}"/><text x="{48 + 110 * index}" y="44">{name}</text>')

    def place(index):
        return 10 + WIDTH * (index % across), 55 + HEIGHT * (index // across)
    speeds = [row["faster"] for row in rows]
    low, high = min(-1, floor(log10(min(speeds)))), ceil(log10(max(speeds)))
    for index, link in enumerate(links):
        panel = Panel(*place(index), sizes, low, high)
        parts += panel.frame(SHOWN.get(link, link), [(10.0**e, f"{10.0**e:g} x") for e in range(low, high + 1)])
        for name in formats:
            parts.append(panel.line(name, sorted((row["bytes"], row["faster"]) for row in rows
                                                 if row["rate"] == link and row["format"] == name)))
    errors = [row["error"]["mean"] for row in rows]
    low, high = floor(log10(min(errors))), ceil(log10(max(errors)))
    panel = Panel(*place(len(links)), sizes, low, max(high, low + 1))
    parts += panel.frame("mean error, relative", [(10.0**e, f"{10.0**e:g}") for e in range(low, high + 1)])
    for name in formats:
        parts.append(panel.line(name, sorted((row["bytes"], row["error"]["mean"]) for row in rows
                                             if row["rate"] == links[0] and row["format"] == name)))
    return "\n".join(parts + ["</svg>"]) + "\n"
