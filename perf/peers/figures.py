"""From every round's medians to medians, ratios and their intervals, and tables of them.

A ratio is a peer's time over Tutti's in the same round: above 1, Tutti is faster. Its figure is the
median over rounds, with an interval that holds the median whatever the distribution: between order
statistics, for few rounds from the least to the largest.
"""
import math
import statistics

from libraries import LIMITS, SHOWN, is_tutti
from sizes import size_text

CONFIDENCE = 0.95


def covered(rounds, cut):
    """How probable it is that the median lies between the ordered values but `cut` at each end."""
    return 1 - 2 * sum(math.comb(rounds, i) for i in range(cut + 1)) / 2**rounds


def median_interval(values, confidence=CONFIDENCE):
    """(low, high) that holds the median with this probability; from the least to the largest where
    the values are too few for it (5: 94 %, 3: 75 %)."""
    ordered = sorted(values)
    cut = 0
    while 2 * (cut + 1) < len(ordered) and covered(len(ordered), cut + 1) >= confidence:
        cut += 1
    return ordered[cut], ordered[-1 - cut]


def figure(values):
    low, high = median_interval(values)
    return {"median": statistics.median(values), "low": low, "high": high}


# -------------------------------------------------------------------------------------- phases

LEAST_STEP = 1.2  # between the phases; within one, hop times vary less


def phase_border(hops):
    """The hop time between the two phases that a machine may change between (hypervisors move a
    virtual CPU), or None where there is one: the widest step, unless it is small or sets a lone
    value apart."""
    ordered = sorted(hops)
    steps = [(ordered[i] / ordered[i - 1], i) for i in range(2, len(ordered) - 1)]
    step, at = max(steps, default=(1, 0))
    return math.sqrt(ordered[at - 1] * ordered[at]) if step >= LEAST_STEP else None


def mark_phases(conditions):
    """Adds `phase` to each round's conditions: fast, slow or mixed by the hops before and after."""
    border = phase_border([us for one in conditions for us in one["hop_us"]])
    for one in conditions:
        slow = {border is not None and us > border for us in one["hop_us"]}
        one["phase"] = "mixed" if len(slow) == 2 else "slow" if True in slow else "fast"


def by_phase(values, phases):
    """Medians of the rounds in each phase."""
    return {phase: statistics.median(v for v, p in zip(values, phases) if p == phase)
            for phase in sorted(set(phases))}


# ---------------------------------------------------------------------------------------- rows

def ratio_of(peer_us, tutti_us, phases):
    ratios = [peer / tutti for peer, tutti in zip(peer_us, tutti_us)]
    found = figure(ratios)
    if len(set(phases)) > 1:
        found["phases"] = by_phase(ratios, phases)
    return found


def rows_of(times, libraries, conditions):
    """`times`: (collective, ranks, bytes, library) -> us of each round. A row for each collective,
    rank count and size, with `ratio`: Tutti's library -> peer or limit -> figure. Who was not in
    every round is in none of its rows."""
    rows = []
    for collective, ranks, size in dict.fromkeys(key[:3] for key in times):
        phases = [one["phase"] for one in conditions
                  if (one["collective"], one["ranks"]) == (collective, ranks)]
        found = {library: times.get((collective, ranks, size, library), []) for library in libraries}
        rounds = {library: us for library, us in found.items() if len(us) == len(phases)}
        ratio = {tutti: {peer: ratio_of(rounds[peer], rounds[tutti], phases)
                         for peer in rounds if not is_tutti(peer)} for tutti in rounds if is_tutti(tutti)}
        rows.append({"collective": collective, "ranks": ranks, "bytes": size,
                     "median_us": {library: statistics.median(us) for library, us in rounds.items()},
                     "ratio": ratio, "rounds_us": rounds})
    return rows


# -------------------------------------------------------------------------------------- tables

def columns(rows):
    """Left-aligned text columns of a list of lists."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths))
                     for row in rows) + "\n"


def row_name(row):
    return [row["collective"], str(row["ranks"]), size_text(row["bytes"])]


def time_table(rows, libraries):
    """Medians in us, and for each of Tutti's libraries how much of the limit it reaches."""
    tuttis = [library for library in libraries if is_tutti(library)]
    limits = [(tutti, limit) for limit in LIMITS if limit in libraries for tutti in tuttis]
    lines = [["collective", "ranks", "size", *(f"{SHOWN[library]} us" for library in libraries),
              *(f"{SHOWN[tutti]} %{SHOWN[limit]}" for tutti, limit in limits)]]
    for row in rows:
        lines.append([*row_name(row), *(f"{row['median_us'][library]:.2f}" if library in row["median_us"] else "-"
                                        for library in libraries),
                      *(f"{100 * row['ratio'][tutti][limit]['median']:.0f}" for tutti, limit in limits)])
    return columns(lines)


def ratio_table(rows, tutti, peers):
    """Each ratio with its interval, and where rounds differ in phase the medians of each."""
    lines = [["collective", "ranks", "size", *(f"{SHOWN[p]}/{SHOWN[tutti]} [low .. high]" for p in peers)]]
    for row in rows:
        cells = []
        for peer in peers:
            found = row["ratio"][tutti].get(peer)
            if found is None:
                cells.append("-")
                continue
            cell = f"{found['median']:.2f} [{found['low']:.2f} .. {found['high']:.2f}]"
            if "phases" in found:
                cell += " " + " ".join(f"{p} {m:.2f}" for p, m in found["phases"].items())
            cells.append(cell)
        lines.append([*row_name(row), *cells])
    return columns(lines)


def best_ratio(row, tutti, peers):
    """(ratio, peer) of the fastest peer."""
    return min(((row["ratio"][tutti][peer]["median"], peer) for peer in peers if peer in row["ratio"][tutti]),
               default=None)


def summary_cell(ratios):
    """Of (ratio, bytes) pairs: the least, where it is, and the geometric mean."""
    if not ratios:
        return "-"
    least, at = min(ratios)
    mean = statistics.geometric_mean(ratio for ratio, _ in ratios)
    return f"{least:.2f} ({size_text(at)}), {mean:.2f}"


def summary(rows, tutti, peers):
    """Per rank count and collective, for each peer and for the fastest at each size."""
    names = [*(SHOWN[peer] for peer in peers), "fastest peer"]
    lines = [["collective", "ranks", *(f"{name}: least (at), mean" for name in names)]]
    for ranks, collective in dict.fromkeys((row["ranks"], row["collective"]) for row in rows):
        chosen = [r for r in rows if r["collective"] == collective and r["ranks"] == ranks]
        cells = [summary_cell([(row["ratio"][tutti][peer]["median"], row["bytes"]) for row in chosen
                               if peer in row["ratio"][tutti]]) for peer in peers]
        best = [(best_ratio(row, tutti, peers), row["bytes"]) for row in chosen]
        cells.append(summary_cell([(found[0], size) for found, size in best if found]))
        lines.append([collective, str(ranks), *cells])
    return columns(lines)


def slower_table(rows, tutti, peers):
    """Where the fastest peer beats Tutti, with the limit beside both."""
    limits = [limit for limit in LIMITS if any(limit in row["median_us"] for row in rows)]
    lines = [["collective", "ranks", "size", "ratio [low .. high]", "fastest peer", "its us",
              f"{SHOWN[tutti]} us", *(f"{SHOWN[limit]} us" for limit in limits)]]
    for row in rows:
        ratio, peer = best_ratio(row, tutti, peers) or (math.inf, None)
        if ratio >= 1:
            continue
        found = row["ratio"][tutti][peer]
        lines.append([*row_name(row), f"{ratio:.2f} [{found['low']:.2f} .. {found['high']:.2f}]", SHOWN[peer],
                      *(f"{row['median_us'][library]:.2f}" for library in (peer, tutti, *limits))])
    return columns(lines)


def phase_lines(conditions):
    """How the machine was in each round."""
    border = phase_border([us for one in conditions for us in one["hop_us"]])
    hops = sorted(us for one in conditions for us in one["hop_us"])
    if border is None:
        return f"one phase: a hop of 8 bytes took {hops[0]:.2f} to {hops[-1]:.2f} us\n"
    count = {phase: sum(one["phase"] == phase for one in conditions) for phase in ("fast", "slow", "mixed")}
    return (f"two phases: a hop of 8 bytes took {hops[0]:.2f} to {hops[-1]:.2f} us; {count['fast']} rounds "
            f"were below {border:.2f} us (fast), {count['slow']} above (slow), {count['mixed']} changed\n")


def all_tables(rows, libraries, conditions):
    peers = [library for library in libraries if not is_tutti(library) and library not in LIMITS]
    text = time_table(rows, libraries)
    for tutti in (library for library in libraries if is_tutti(library)):
        if peers:
            text += f"\nPeer's time / that of {SHOWN[tutti]}, median over rounds\n" + ratio_table(rows, tutti, peers)
            text += f"\nPeer's time / that of {SHOWN[tutti]}, over all sizes\n" + summary(rows, tutti, peers)
            text += f"\nWhere a peer is faster than {SHOWN[tutti]}\n" + slower_table(rows, tutti, peers)
    if conditions:
        text += "\nThe machine: " + phase_lines(conditions)
    return text
