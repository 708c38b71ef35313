#!/usr/bin/env python3
"""The part formats: whether the GPU encodes and decodes every format bit for bit as the host does."""
import os

import report
from report import row


def main():
    program, kernels = report.program("codec_on_device"), report.build_folder() / "lib/codec_kernels.fatbin"
    if not os.path.exists(program) or not kernels.exists():
        return row("formats", note="a build without tests, or without nvcc", verdict="skipped")
    done = report.run([program, kernels], report.seconds_left() - 1)
    found = [line.split(maxsplit=1) for line in done.output.splitlines() if " values, " in line]
    for name, what in found:
        row(name, ok=what.endswith("the same bits"), note=what)
    if done.code != 0 or not found:
        row("formats", ok=False, note=done.ending())
    return None


main()
