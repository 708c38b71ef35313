#!/usr/bin/env python3
"""The part memory: what 8 ranks take, and the time to the end of the first call."""
import os
import pathlib

import report
from ranks import Ranks
from report import row

RANKS = 8
FIRST_MS = 300  # at most, from the end of init to the end of the first call


def library_sizes():
    folder = pathlib.Path(report.library()).parent
    for name in ("libnccl.so.2", "libtutti.so.0"):
        size = os.stat(folder / name).st_size
        row(f"size of {name}", round(size / 2**20, 2), "MiB")


def main():
    library_sizes()
    with Ranks("memory", RANKS) as ranks:
        found = ranks.finish(min(25, report.seconds_left() - 2))
    failed = [one for one in found if "ending" in one]
    if failed:
        return row(f"{RANKS} ranks", ok=False,
                   note="; ".join(f"rank {one['rank']}: {one['ending']}" for one in failed))
    row(f"ncclCommInitRank, {RANKS} ranks, slowest", round(max(one["init_ms"] for one in found), 1), "ms")
    first = max(one["first_ms"] for one in found)
    row(f"first call, {RANKS} ranks, slowest", round(first, 1), "ms", ok=first < FIRST_MS,
        note=f"an all-reduce of 1 MiB, from the end of init to its own; below {FIRST_MS} ms is the aim")
    # Every rank saw what all of them took together.
    row("device memory a rank, after every collective of 1 MiB",
        round(max(one["device_bytes"] for one in found) / RANKS / 2**20, 2), "MiB")
    for name, what in (("VmRSS", "resident"), ("VmPin", "pinned, as the kernel counts it"),
                       ("RssShmem", "shared, resident")):
        most = max(one["host_kib"].get(name, 0) for one in found)
        row(f"host memory a rank: {what}", round(most / 1024, 2), "MiB", note=f"growth of {name}, largest")


main()
