#!/usr/bin/env python3
"""The part latency: the smallest all-reduce, and what a call puts into its stream."""
import json
import pathlib
import tempfile

import report
from ranks import Ranks
from report import row


def latency(what, arguments):
    if not report.has_time(f"all_reduce of 8 B, {what}"):
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "bench.json")
        done = report.run([report.program("all_reduce_perf"), "--device", "cuda", *arguments,
                           "-b", 8, "-e", 8, "-n", 100 if report.is_quick() else 2000, "-w", 50, "-T", 20, "--json", path], 15)
        try:
            line = json.loads(path.read_text())["results"][0]
        except (OSError, ValueError, LookupError):
            return row(f"all_reduce of 8 B, {what}", ok=False, note=done.ending())
    form = line["out_of_place"]
    return row(f"all_reduce of 8 B, {what}", round(form["p50"], 1), "us", ok=form["nwrong"] == 0,
        note=f"mean {form['time']:.1f}, p99 {form['p99']:.1f}; {line['algorithm']}")


def operations():
    with Ranks("operations", 2) as ranks:
        found = ranks.finish(min(20, report.seconds_left() - 1))[0]
    if "nodes" not in found:
        return row("operations of a stream, each call", verdict="unknown", note=found.get("ending", "no answer"))
    for size, kinds in found["nodes"].items():
        row(f"operations of a stream, all_reduce of {size} B", sum(kinds.values()),
            note=", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) + "; nodes of a graph")
    return None


def main():
    for n in (2,) if report.is_quick() else (2, 8):
        latency(f"{n} threads", ["-t", n])
        latency(f"{n} processes", ["--ranks", n])
        latency(f"{n} ranks of one thread", ["-g", n])
    operations()


main()
