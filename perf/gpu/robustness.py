#!/usr/bin/env python3
"""The part robustness: a rank that is killed, and a communicator that is aborted."""
import os
import signal
import time

import report
from ranks import Ranks
from report import row

RANKS, VICTIM = 4, 2
SECONDS = 10  # within which survivors must have an error


def kill_one():
    with Ranks("loop", RANKS, TUTTI_DEBUG="INFO") as ranks:
        if not ranks.have_met("running", 25):
            notes = [str(one.get("ending")) for one in ranks.finish(1)]
            return row("kill -9", ok=False, note="the ranks did not start: " + "; ".join(notes))
        time.sleep(0.5)
        killed = time.time()
        ranks.children[VICTIM].send_signal(signal.SIGKILL)
        found = ranks.finish(SECONDS + 5)
    for one in found:
        if one["rank"] == VICTIM:
            continue
        fault = one.get("fault", "")
        took = one.get("at", killed) - killed
        named = f"rank {VICTIM}" in fault
        row(f"kill -9 of rank {VICTIM} of {RANKS}: rank {one['rank']} knows after",
            round(took, 3) if fault else None, "s", ok=bool(fault) and named and took < SECONDS,
            note=fault[:300] or one.get("ending", "no error"))


def abort():
    with Ranks("abort", 2, TUTTI_DEBUG="INFO") as ranks:
        first, second = ranks.finish(min(40, report.seconds_left() - 2))
    if "abort_ms" not in first:
        row("ncclCommAbort while a peer never comes", ok=False, note=first.get("ending", "no answer"))
    else:
        row("ncclCommAbort while a peer never comes", round(first["abort_ms"], 1), "ms",
            ok=first["abort_ms"] < 5000, note=f"its stream was free {first['stream_ms']:.1f} ms later")
    fault = second.get("fault", "")
    row("the peer of who aborted", ok=bool(fault), note=fault[:300] or second.get("ending", "no error"))


def main():
    mps = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")
    row("MPS", "on" if os.path.exists(os.path.join(mps, "control")) else "off")
    kill_one()
    abort()


main()
