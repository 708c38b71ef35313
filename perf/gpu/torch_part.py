#!/usr/bin/env python3
"""The part torch: unmodified PyTorch with Tutti in NCCL's place, 2, 4 and 8 ranks on one device.

A check in which a rank dies or hangs is reported, left out, and the ranks begin anew behind it.
"""
import argparse
import collections
import importlib.util
import os
import pathlib
import selectors
import sys
import tempfile
import time

import report
from report import row

START_S = 75  # to the first check; the first import of PyTorch on a machine reads gigabytes
SILENCE_S = 30  # nothing heard for so long after that: it hangs
DEAD_S = 5  # nothing heard for so long after a rank has died: the others wait for it
ATTEMPTS = 4
LAST = "destroy_process_group"  # which torch_ranks.py reports like a check


class Attempt:
    """One start of all ranks: what each of them said of each check."""

    def __init__(self, ranks, backend, skip, arguments):
        self.verdicts = collections.defaultdict(dict)  # of a check: rank -> (verdict, note)
        self.under_way = {}  # rank -> check
        self.order = []  # of the checks
        self.hung = False
        self.tails = [collections.deque(maxlen=8) for _ in range(ranks)]
        with tempfile.TemporaryDirectory() as folder:
            self._children = [report.start(
                [sys.executable, report.HERE / "torch_ranks.py", "--backend", backend, "--skip", "\t".join(skip),
                 *arguments], self._environment(backend, ranks, rank, folder)) for rank in range(ranks)]
            try:
                self._listen()
            finally:
                for child in self._children:
                    report.kill_group(child)
                    child.wait()
        self.codes = [child.returncode for child in self._children]

    @staticmethod
    def _environment(backend, ranks, rank, folder):
        more = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks,
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 20000 + os.getpid() % 10000,
                     "OMP_NUM_THREADS": 1, "TORCH_NCCL_ASYNC_ERROR_HANDLING": 1, "TMPDIR": folder}
        if backend == "nccl":
            more["LD_PRELOAD"] = report.library()
        return report.environment(**more)

    def _listen(self):
        selector = selectors.DefaultSelector()
        partial = [b""] * len(self._children)
        for rank, child in enumerate(self._children):
            selector.register(child.stdout.buffer.raw, selectors.EVENT_READ, rank)
        heard = time.monotonic()
        while selector.get_map():
            for key, _ in selector.select(0.5):
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                heard = time.monotonic()
                *lines, partial[key.data] = (partial[key.data] + data).split(b"\n")
                for line in lines:
                    self._hear(key.data, line.decode(errors="replace"))
            # When one rank is gone in the middle, the others get the time to say what they think of it.
            gone = any(child.poll() not in (None, 0) for child in self._children)
            patience_s = DEAD_S if gone else SILENCE_S if self.order else START_S
            if time.monotonic() - heard > patience_s or report.seconds_left() < 2:
                self.hung = not gone
                return

    def _hear(self, rank, line):
        words = line.split("\t")
        if words[0] == "begin":
            self.under_way[rank] = words[1]
            if words[1] not in self.order:
                self.order.append(words[1])
        elif words[0] == "end":
            self.verdicts[words[1]][rank] = (words[2], words[3])
            self.under_way.pop(rank, None)
        else:
            self.tails[rank].append(line)
        print(f"[{rank}] {line}", flush=True)

    def culprit(self):
        """The first check that a rank did not get through, or ended with an error; "" where all did.
        What came after it says nothing."""
        names = [*self.under_way.values(), *(name for name in self.order if self.error_in(name))]
        return min(names, key=self.order.index) if names else ""

    def error_in(self, name):
        return next((f"rank {rank}: {note}" for rank, (verdict, note) in sorted(self.verdicts[name].items())
                     if verdict == "ERROR"), "")

    def verdict_of_culprit(self):
        """Of that check, or of the start and the end of the ranks where there is none."""
        if error := self.error_in(self.culprit()):
            return "FAILED", error
        if self.hung:
            return "HUNG", f"killed, since nothing more was heard; {self.last_words()}"
        return "FAILED", f"the ranks ended with {self.codes}; {self.last_words()}"

    def last_words(self):
        said = [f"rank {rank}: {list(tail)[-1]}" for rank, tail in enumerate(self.tails) if tail]
        return "; ".join(said)[:300]


def judged(by_rank, ranks):
    """One verdict of all ranks': the worst."""
    for verdict in ("FAILED", "refused"):
        for rank, (said, note) in sorted(by_rank.items()):
            if said == verdict:
                return verdict, f"rank {rank}: {note}"
    return ("ok", "") if len(by_rank) == ranks else ("FAILED", "not all ranks ended it")


def run_all(ranks, backend, arguments, skip):
    """check -> (verdict, note)"""
    found = {}
    for _ in range(ATTEMPTS):
        attempt = Attempt(ranks, backend, [*skip, *found], arguments)
        culprit = attempt.culprit()
        through = attempt.order[:attempt.order.index(culprit)] if culprit else attempt.order
        found.update({name: judged(attempt.verdicts[name], ranks) for name in through})
        if culprit:
            found[culprit] = attempt.verdict_of_culprit()
        elif any(attempt.codes):
            found["start and end"] = attempt.verdict_of_culprit()
        if culprit in ("", LAST):
            return found
        if report.seconds_left() < 15:
            break
    found["what comes after"] = ("skipped", "")
    return found


def report_rows(ranks, what, found, seconds):
    good = sum(verdict == "ok" for verdict, _ in found.values())
    refused = [name for name, (verdict, _) in found.items() if verdict == "refused"]
    bad = {name: one for name, one in found.items() if one[0] not in ("ok", "refused")}
    row(f"{ranks} ranks{what}: checks", good, f"of {len(found)}", ok=bool(good) and not bad,
        note=f"{seconds:.1f} s" + (f", {len(refused)} refused" if refused else ""))
    for name, (verdict, note) in found.items():
        if verdict != "ok":
            row(f"{ranks} ranks{what}: {name}", verdict=verdict, note=note)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["nccl", "gloo"],
                        default=os.environ.get("TUTTI_PART_BACKEND", "nccl"))
    parser.add_argument("--ranks", default="2" if report.is_quick() else "4,2,8", help="default %(default)s")
    parser.add_argument("--skip", default="", help="names of checks, separated by commas")
    options = parser.parse_args()
    if not importlib.util.find_spec("torch"):
        return row("PyTorch", verdict="skipped", note="not installed")
    if options.backend == "nccl" and not pathlib.Path(report.library()).exists():
        return row("PyTorch", ok=False, note=f"no {report.library()}")
    for ranks in map(int, options.ranks.split(",")):
        if report.seconds_left() < 20:
            row(f"{ranks} ranks: checks", verdict="skipped", note="no time left")
            continue
        begin = time.monotonic()
        with_device = ranks == 4 and options.backend == "nccl"
        found = run_all(ranks, options.backend, ["--device-id"] if with_device else [],
                        [name for name in options.skip.split(",") if name])
        report_rows(ranks, ", device_id given" if with_device else "", found, time.monotonic() - begin)
    return None


if __name__ == "__main__":
    sys.exit(main())
