#!/usr/bin/env python3
"""The part bandwidth: plain copies of the driver, and all-reduce held to them.

An all-reduce of n ranks reads n inputs and writes n outputs at least. On one GPU that is 2 n S bytes
of its memory, and what plain copies reach there is the limit. Calls that pass through host memory
are held to copies over PCI Express too: n S bytes each way.
"""
import json
import pathlib
import tempfile
import time

import cuda_driver as cuda
import report
from report import row

ROUNDS = 5


def best_seconds(driver, streams, work, repeats):
    """Of one `work`, which enqueues something: the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(repeats):
            work()
        for stream in streams:
            driver.synchronize(stream)
        best = min(best, (time.perf_counter() - begin) / repeats)
    return best


def copies(size):
    """Bytes a second of copies within the device, and over PCI Express each way and both at once."""
    driver = cuda.Driver()
    stream, other = driver.stream(), driver.stream()
    first, second = driver.allocate(size), driver.allocate(size)
    driver.call("cuMemsetD8Async", first, 1, size, stream)

    def inside():
        driver.call("cuMemcpyDtoDAsync_v2", second, first, size, stream)
    within = best_seconds(driver, [stream], inside, 20)
    row("copies within the device, read and written", round(2 * size / within / 1e9, 1), "GB/s",
        note=f"{size >> 20} MiB, best of {ROUNDS} rounds")
    part = size // 4
    host, back = cuda.Pinned(driver, part), cuda.Pinned(driver, part)

    def down():
        driver.call("cuMemcpyAsync", host.device, first, part, stream)

    def up():
        driver.call("cuMemcpyAsync", second, back.device, part, other)

    def both():
        down()
        up()
    to_host = best_seconds(driver, [stream], down, 5)
    to_device = best_seconds(driver, [other], up, 5)
    at_once = best_seconds(driver, [stream, other], both, 5)
    for what, seconds in (("to the host", to_host), ("to the device", to_device),
                          ("both at once, each way", at_once)):
        row(f"copies {what}, pinned", round(part / seconds / 1e9, 1), "GB/s")
    driver.free(first)
    driver.free(second)
    return 2 * size / within, part / at_once


def all_reduce_seconds(arguments, size):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "bench.json")
        done = report.run([report.program("all_reduce_perf"), "--device", "cuda", *arguments,
                           "-b", size, "-e", size, "-n", 10, "-w", 3, "-c", 1, "--out-of-place", "-T", 20, "--json", path], 30)
        try:
            form = json.loads(path.read_text())["results"][0]["out_of_place"]
        except (OSError, ValueError, LookupError):
            return None, done.ending()
    if form["nwrong"]:
        return None, f"{form['nwrong']} elements are wrong"
    return form["time"] * 1e-6, ""


def main():
    quick = report.is_quick()
    size = 1 << 20 if quick else 256 << 20
    bandwidth, link = copies(1 << 24 if quick else 1 << 30)
    for n in (2,) if quick else (2, 4, 8):
        for what, arguments in ((f"{n} threads", ["-t", n]), (f"{n} processes", ["--ranks", n])):
            if not report.has_time(f"all_reduce, {what}"):
                continue
            seconds, problem = all_reduce_seconds(arguments, size)
            title = f"all_reduce of {size >> 20} MiB a rank, {what}"
            if problem:
                row(title, ok=False, note=problem)
                continue
            percent = 100 * 2 * n * size / bandwidth / seconds
            over_link = 100 * n * size / link / seconds
            row(title, round(percent, 1), "% of copies within the device",
                note=f"{seconds * 1e3:.3f} ms; {over_link:.1f} % of copies over PCI Express; "
                     f"{size / seconds / 1e9:.2f} GB/s algbw")


main()
