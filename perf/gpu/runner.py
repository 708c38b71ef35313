"""Runs the parts of perf/gpu/run one after another, each a program with a time limit of its own.

A part prints its results as it gets them, a line each (report.py); all else that it prints goes to
the log. So a part that hangs or dies keeps what it had found. When a part is over, however it ended,
every process that it left behind is killed: this process adopts the orphans.
"""
import ctypes
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from report import MARK

PR_SET_CHILD_SUBREAPER = 36
LEAST_S = 3  # a part that would have less is not begun
REAP_S = 3  # a process in the kernel's hands may outlast even SIGKILL; nobody waits longer for it


@dataclasses.dataclass
class Part:
    name: str
    about: str
    limit_s: float
    command: list
    needs_build: bool = True


def adopt_orphans():
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def children_of(pid):
    found = []
    for tasks in pathlib.Path("/proc", str(pid), "task").glob("*/children"):
        try:
            found += [int(word) for word in tasks.read_text().split()]
        except OSError:
            continue  # the thread has ended meanwhile
    return found


def descendants(pid):
    found, new = [], children_of(pid)
    while new:
        found += new
        new = [child for parent in new for child in children_of(parent)]
    return found


def is_gone(pid):
    """Whether nothing but an exit status is left of this process, or not even that."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def end_descendants():
    """Kills whatever descends from this process; how many are still there REAP_S later."""
    deadline = time.monotonic() + REAP_S
    while left := [pid for pid in descendants(os.getpid()) if not is_gone(pid)]:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if time.monotonic() > deadline:
            return len(left)
        time.sleep(0.01)
    return 0


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass


def rows_in(text):
    """What a part has reported; a line that the end of the part cut off is left out."""
    rows = []
    for line in text.splitlines():
        if line.startswith(MARK):
            try:
                rows.append(json.loads(line[len(MARK):]))
            except ValueError:
                continue
    return rows


def ended(state, seconds, limit_s, said):
    """The row that says how a part ended, where that was not as it should; `said` is its output."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = f": {lines[-1].removeprefix(MARK)[:300]}" if lines else ""
    if state == "HUNG":
        return {"what": "the part", "verdict": "HUNG",
                "note": f"killed after {seconds:.0f} s, its limit is {limit_s:.0f} s{last}"}
    return {"what": "the part", "verdict": "FAILED", "note": f"{state} after {seconds:.0f} s{last}"}


def run_part(part, limit_s, log):
    """The rows of a part. `log` is open for appending, and gets what the part prints."""
    log.write(f"\n===== {part.name}: {' '.join(map(str, part.command))}\n")
    log.flush()
    begin, start = log.tell(), time.monotonic()
    child = subprocess.Popen(part.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                             env={**os.environ, "TUTTI_PART_SECONDS": str(limit_s)})
    try:
        code = child.wait(timeout=limit_s)
        state = "" if code == 0 else f"exit {code}" if code > 0 else signal.Signals(-code).name
    except subprocess.TimeoutExpired:
        state = "HUNG"
    seconds = time.monotonic() - start
    left = end_descendants()
    child.poll()
    reap()
    with open(log.name, encoding="utf-8", errors="replace") as file:
        file.seek(begin)
        said = file.read()
    rows = rows_in(said)
    if state:
        rows.append(ended(state, seconds, limit_s, said))
    if left:
        rows.append({"what": "processes", "value": left, "verdict": "FAILED",
                     "note": "not even SIGKILL ends them"})
    return [{"part": part.name, **row} for row in rows], seconds


def run_parts(parts, seconds, log, has_build, show):
    """Ends within `seconds` (and REAP_S), whatever the parts do. `show(rows, took)` gets each part's
    rows as soon as it is over. Returns how many seconds each took."""
    deadline = time.monotonic() + seconds
    adopt_orphans()
    took = {}
    for part in parts:
        limit_s = min(part.limit_s, deadline - time.monotonic() - REAP_S)
        if part.needs_build and not has_build:
            rows = [skipped(part, "no build")]
        elif limit_s < LEAST_S:
            rows = [skipped(part, "no time left")]
        else:
            print(f"# {part.name}: at most {limit_s:.0f} s", file=sys.stderr, flush=True)
            rows, took[part.name] = run_part(part, limit_s, log)
        show(rows, took)
    return took


def skipped(part, why):
    return {"part": part.name, "what": "the part", "verdict": "skipped", "note": why}
