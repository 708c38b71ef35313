#!/usr/bin/env python3
"""Reads ctest's JUnit report: counts, failures, skips and the dearest tests.

junit.py REPORT            prints "PASSED FAILED SKIPPED" (three numbers)
junit.py REPORT --names    lists failed and skipped tests, and the ten that took longest, on stderr
junit.py REPORT --again R  takes over what failed tests came to when they ran once more, which R reports,
                           and names those that passed then, on stderr
"""
import sys
import xml.etree.ElementTree as ElementTree


def state_of(case):
    if case.find("failure") is not None or case.get("status") == "fail":
        return "failed"
    if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "passed"


def take_over(path, again):
    """Puts the test cases of `again` in the place of those of `path` that failed."""
    tree = ElementTree.parse(path)
    later = {case.get("name"): case for case in ElementTree.parse(again).getroot().iter("testcase")}
    for parent in tree.getroot().iter():
        for at, case in enumerate(list(parent)):
            if case.tag == "testcase" and state_of(case) == "failed" and case.get("name") in later:
                parent[at] = later[case.get("name")]
                if state_of(parent[at]) == "passed":
                    print(f"PASSED ONLY ALONE, at the second try: {case.get('name')}", file=sys.stderr)
    tree.write(path)


def main(path, names):
    tests = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        tests.append((case.get("name"), state_of(case), float(case.get("time") or 0)))
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


if sys.argv[2:3] == ["--again"]:
    take_over(sys.argv[1], sys.argv[3])
else:
    main(sys.argv[1], "--names" in sys.argv[2:])
