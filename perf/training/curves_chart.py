"""Losses over time, a line for each way to train, as an SVG."""
from html import escape
from math import ceil, floor

COLOURS = ["#7f8c8d", "#1b6ca8", "#444", "#2a9d4a", "#d9822b", "#c0392b", "#8d5fbf", "#16a085", "#b8860b"]
WIDTH, HEIGHT = 940, 460
LEFT, TOP, RIGHT, BOTTOM = 56, 64, 260, 48
MOST_POINTS = 300


def thinned(points):
    step = max(1, len(points) // MOST_POINTS)
    return points[::step] + ([points[-1]] if (len(points) - 1) % step else [])


def svg(lines, title, across="seconds", low=None, high=None):
    """`lines`: by name, `points` of (x, loss), and `validation` and `steps` to name."""
    last = max(points["points"][-1][0] for points in lines.values())
    values = [value for line in lines.values() for _, value in line["points"][len(line["points"]) // 20:]]
    low = floor(min(values) * 5) / 5 if low is None else low
    high = ceil(min(max(values), 4.0) * 5) / 5 if high is None else high

    def x(value):
        return LEFT + (WIDTH - LEFT - RIGHT) * value / last

    def y(value):
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - min(max(value, low), high)) / (high - low)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
             f'viewBox="0 0 {WIDTH} {HEIGHT}">',
             '<style>text{font:12px sans-serif;fill:#333}.title{font-weight:bold;font-size:15px}'
             '.right{text-anchor:end}.middle{text-anchor:middle}.grid{stroke:#e3e7eb}</style>',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             f'<text x="{LEFT}" y="26" class="title">{escape(title)}</text>',
             f'<text x="{LEFT}" y="46">loss in training, nats a byte, averaged over steps</text>']
    ticks = round((high - low) * 5)
    for tick in range(0, ticks + 1, max(1, ticks // 8)):
        value = low + tick / 5
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" class="grid"/>'
                     f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" class="right">{value:.1f}</text>')
    for tick in range(7):
        value = last * tick / 6
        parts.append(f'<text x="{x(value):.1f}" y="{HEIGHT - BOTTOM + 20}" class="middle">{value:.0f}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" class="middle">{across}</text>')
    for at, (name, line) in enumerate(lines.items()):
        colour = COLOURS[at % len(COLOURS)]
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in thinned(line["points"]))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
                     f'stroke-linejoin="round"/>')
        top = TOP + 34 * at
        validation = f', validation {line["validation"]:.3f}' if line.get("validation") else ""
        parts.append(f'<rect x="{WIDTH - RIGHT + 18}" y="{top}" width="11" height="11" fill="{colour}"/>'
                     f'<text x="{WIDTH - RIGHT + 36}" y="{top + 10}">{escape(name)}</text>'
                     f'<text x="{WIDTH - RIGHT + 36}" y="{top + 25}" style="fill:#777">'
                     f'{line["steps"]} steps{validation}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
