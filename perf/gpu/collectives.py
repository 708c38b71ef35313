#!/usr/bin/env python3
"""The part collectives: every collective on GPU memory, checked, with ranks as threads, as processes,
and all driven by one thread. Time columns are in the log and the JSON."""
import json
import os
import pathlib
import tempfile

import report
from report import row

# What says how the ranks run -> their arguments for n ranks.
SHAPES = {"threads": lambda n: ["-t", n], "processes": lambda n: ["--ranks", n],
          "ranks of one thread": lambda n: ["-g", n]}


def bench(what, collective, arguments, seconds, kept=None):
    """One run of `tutti bench` with its row: how many elements were wrong, of how many lines."""
    if not report.has_time(what):
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "bench.json")
        done = report.run([report.program("tutti"), "bench", collective, "--device", "cuda", *arguments,
                           "-T", 20, "--json", path], seconds)
        try:
            results = json.loads(path.read_text())["results"]
        except (OSError, ValueError):
            results = []
    forms = [line[form] for line in results for form in ("in_place", "out_of_place")]
    wrong = sum(form["nwrong"] or 0 for form in forms if form)
    row(what, wrong, "wrong", ok=done.code == 0 and bool(results) and wrong == 0,
        note=f"{len(results)} lines, {done.seconds:.1f} s" if done.code == 0 else done.ending())
    if kept:
        kept_folder = os.environ.get("TUTTI_PART_OUT")
        if kept_folder:
            pathlib.Path(kept_folder, kept).write_text(done.output)
    return results


def latency_row(what, results):
    for line in results:
        if line["collective"] == "all_reduce" and line["size"] == 8:
            form = line["out_of_place"]
            row(f"all_reduce of 8 B, {what}", round(form["p50"], 1), "us", note=f"p99 {form['p99']:.1f} us")


def main():
    quick = report.is_quick()
    counts = [2] if quick else [2, 4, 8]
    most, middle, large, huge = counts[-1], *(("4K", "1M", "1M") if quick else ("64K", "64M", "1G"))
    bench(f"all_reduce, {most} threads, 8 B to {large}", "all_reduce",
          ["-t", most, "-b", 8, "-e", large, "-f", 8, "-n", 5, "-w", 1], 40, kept="all_reduce_threads.txt")
    bench(f"all_reduce, {most} processes, 8 B to {large}", "all_reduce",
          ["--ranks", most, "-b", 8, "-e", large, "-f", 8, "-n", 5, "-w", 1], 40,
          kept="all_reduce_processes.txt")
    bench("all_reduce, 2 processes of 2 threads, every type and operator", "all_reduce",
          ["--ranks", 4, "-t", 2, "-b", "8K", "-e", "8K", "-d", "all", "-o", "all", "-n", 2, "-w", 0], 30)
    for n in counts:
        for shape, arguments in SHAPES.items():
            small = bench(f"all, {n} {shape}, 8 B to {middle}", "all",
                          [*arguments(n), "-b", 8, "-e", middle, "-f", 64, "-n", 20, "-w", 2], 25)
            latency_row(f"{n} {shape}", small)
            bench(f"all, {n} {shape}, 1M to {large}", "all",
                  [*arguments(n), "-b", "1M", "-e", large, "-f", 64, "-n", 3, "-w", 1], 25)
    for n in dict.fromkeys((2, most)):
        bench(f"all_reduce, {n} threads, {huge}", "all_reduce",
              ["-t", n, "-b", huge, "-e", huge, "-n", 2, "-w", 1, "-c", 1, "--out-of-place"], 40)
    bench(f"all, 2 threads, {huge}", "all",
          ["-t", 2, "-b", huge, "-e", huge, "-n", 1, "-w", 0, "--out-of-place"], 60)


main()
