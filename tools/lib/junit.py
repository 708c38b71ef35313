#!/usr/bin/env python3
"""Reads ctest's JUnit report: counts, failures, skips and the dearest tests.

junit.py REPORT            prints "PASSED FAILED SKIPPED" (three numbers)
junit.py REPORT --names    lists failed and skipped tests, and the ten that took longest, on stderr
"""
import sys
import xml.etree.ElementTree as ElementTree


def main(path, names):
    tests = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.get("status") == "fail":
            state = "failed"
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            state = "skipped"
        else:
            state = "passed"
        tests.append((case.get("name"), state, float(case.get("time") or 0)))
    if not names:
        print(*(sum(state == wanted for _, state, _ in tests) for wanted in ("passed", "failed", "skipped")))
        return
    for wanted in ("skipped", "failed"):
        for name, state, _ in tests:
            if state == wanted:
                print(f"{wanted.upper()}: {name}", file=sys.stderr)
    print("The ten dearest tests:", file=sys.stderr)
    for name, _, seconds in sorted(tests, key=lambda test: -test[2])[:10]:
        print(f"  {seconds:8.2f} s  {name}", file=sys.stderr)


main(sys.argv[1], "--names" in sys.argv[2:])
