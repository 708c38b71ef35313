#!/usr/bin/env python3
"""The part sanitizer: small cases of the bench under NVIDIA's compute-sanitizer."""
import re
import shutil

import report
from report import row

CASES = {"4 threads": ["-t", 4], "2 processes": ["--ranks", 2], "2 ranks of one thread": ["-g", 2]}


def main():
    tool = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if not tool:
        return row("compute-sanitizer", note="not installed", verdict="skipped")
    # Without kernels of Tutti's own racecheck and initcheck see the copies alone.
    for check, cases in (("memcheck", CASES), ("racecheck", {"4 threads": CASES["4 threads"]}),
                         ("synccheck", {"4 threads": CASES["4 threads"]})):
        for what, arguments in cases.items():
            if not report.has_time(f"{check}, {what}", 10):
                continue
            # That the driver has no handles for the fabric is an answer, and no error.
            done = report.run([tool, "--tool", check, "--target-processes", "all", "--report-api-errors", "no",
                               report.program("tutti"), "bench", "all", "--device", "cuda", *arguments, "-b", 8, "-e", "512K", "-f", 256, "-n", 1,
                               "-w", 0, "-T", 30], min(25, report.seconds_left() - 1))
            errors = [int(count) for count in
                      re.findall(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+)", done.output)]
            row(f"{check}, {what}", sum(errors) if errors else None, "errors",
                ok=done.code == 0 and bool(errors) and sum(errors) == 0, 
                note="" if done.code == 0 and errors else done.ending())
    return None


main()
