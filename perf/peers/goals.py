"""Goals as data, and whether a run met them.

A goals file is JSON: {"goals": [GOAL ...]}. A GOAL has
  collectives, ranks   lists; each pair of them is judged by itself
  sizes                "8..512": from and to, both included
  peer                 openmpi, mpich, gloo, openmpi5, mpich5, intelmpi, limit or bulk; or fastest:
                       whichever peer is the fastest at each size
  least                the least ratio (peer's time / Tutti's) at each size
  mean                 the least geometric mean of the ratios over the sizes
  buffers              malloc (when left out), mapped or threads
  link                 host (when left out); veth; veth and a rate, as in "veth 1gbit"
and least or mean or both.
"""
import json
import statistics

from figures import best_ratio, columns
from libraries import COLLECTIVES, LIMITS, PEERS, TUTTI
from sizes import parse_size, size_text

REQUIRED = {"collectives", "ranks", "sizes", "peer"}
OPTIONAL = {"least", "mean", "buffers", "link"}
MET, MISSED = "met", "missed"
FASTEST = "fastest"


class BadGoals(Exception):
    """The text names the file, the goal and what is wrong."""


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            goals = json.load(file)["goals"]
    except OSError as error:
        raise BadGoals(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise BadGoals(f"{path} holds no goals ({type(error).__name__}: {error}); "
                       "perf/peers/targets.json is an example") from None
    return [judge for number, goal in enumerate(goals, 1)
            for judge in expand(goal, f"{path}, goal {number}")]


def expand(goal, where):
    """One goal for each collective and rank count, with defaults filled in."""
    if not isinstance(goal, dict):
        raise BadGoals(f"{where}: `{goal}` is no object")
    unknown, missing = set(goal) - REQUIRED - OPTIONAL, REQUIRED - set(goal)
    if unknown or missing:
        raise BadGoals(f"{where}: " + ", ".join([f"unknown `{key}`" for key in sorted(unknown)] +
                                                [f"`{key}` is missing" for key in sorted(missing)]))
    if "least" not in goal and "mean" not in goal:
        raise BadGoals(f"{where}: needs `least` or `mean`")
    for key, values, legal in (("collectives", goal["collectives"], COLLECTIVES),
                               ("peer", [goal["peer"]], [*PEERS, *LIMITS, FASTEST]),
                               ("buffers", [goal.get("buffers", "malloc")], list(TUTTI))):
        for value in values:
            if value not in legal:
                raise BadGoals(f"{where}: {key}: unknown `{value}`; legal are {' '.join(legal)}")
    for key, values, kind in (("ranks", goal["ranks"], "a list of numbers"),
                              ("least", [goal.get("least", 1)], "a number"),
                              ("mean", [goal.get("mean", 1)], "a number")):
        if not isinstance(values, list) or not all(isinstance(value, (int, float)) for value in values):
            raise BadGoals(f"{where}: {key}: `{goal[key]}` is not {kind}")
    try:
        first, last = (parse_size(text) for text in goal["sizes"].split(".."))
    except (ValueError, AttributeError) as error:
        raise BadGoals(f"{where}: sizes: `{goal['sizes']}` is not like 8..64M ({error})") from None
    return [{**goal, "buffers": goal.get("buffers", "malloc"), "link": goal.get("link", "host"),
             "collective": collective, "count": ranks, "first": first, "last": last}
            for collective in goal["collectives"] for ranks in goal["ranks"]]


def judged_rows(goal, rows):
    """(row, figure) of each size that the goal is about."""
    tutti = TUTTI[goal["buffers"]]
    for row in rows:
        if (row["collective"], row["ranks"]) != (goal["collective"], goal["count"]):
            continue
        ratios = row["ratio"].get(tutti, {})
        peer = goal["peer"]
        if peer == FASTEST and ratios:
            peer = (best_ratio(row, tutti, [other for other in ratios if other in PEERS]) or (None, None))[1]
        found = ratios.get(peer)
        if found and goal["first"] <= row["bytes"] <= goal["last"]:
            yield row, found


def judge(goal, rows, link):
    """What was measured of one goal, or None where nothing was."""
    found = list(judged_rows(goal, rows)) if goal["link"] == link else []
    if not found:
        return None
    wanted = goal.get("least", 0)
    row, least = min(found, key=lambda pair: pair[1]["median"])
    mean = statistics.geometric_mean(figure["median"] for _, figure in found)
    missed = [(row["bytes"], figure) for row, figure in found if figure["median"] < wanted]
    mean_met = mean >= goal.get("mean", 0)
    # The intervals would allow the other verdict, too.
    unsure = (mean_met and all(figure["high"] >= wanted for _, figure in missed) if missed
              else mean_met and any(figure["low"] < wanted for _, figure in found))
    return {"verdict": MISSED if missed or not mean_met else MET, "within_noise": unsure,
            "least": least, "at": row["bytes"], "mean": mean, "sizes": len(found),
            "sizes_missed": [size for size, _ in missed]}


def judge_all(goals, rows, link):
    """The goals of which something was measured, each with `measured`."""
    judged = [{**goal, "measured": judge(goal, rows, link)} for goal in goals]
    return [goal for goal in judged if goal["measured"]]


def number(goal, key):
    return f"{goal[key]:.2f}" if key in goal else "-"


def table(judged, goals):
    """A line for each goal that was judged."""
    lines = [["collective", "ranks", "sizes", "buffers", "peer", "link", "goal: least", "mean",
              "measured: least (at) [low .. high]", "mean", "sizes missed", "verdict"]]
    for goal in judged:
        found = goal["measured"]
        least = found["least"]
        verdict = found["verdict"] + (", within noise" if found["within_noise"] else "")
        lines.append([
            goal["collective"], str(goal["count"]), goal["sizes"], goal["buffers"], goal["peer"], goal["link"],
            number(goal, "least"), number(goal, "mean"),
            f"{least['median']:.2f} ({size_text(found['at'])}) [{least['low']:.2f} .. {least['high']:.2f}]",
            f"{found['mean']:.2f}",
            f"{len(found['sizes_missed'])} of {found['sizes']}", verdict])
    met = sum(goal["measured"]["verdict"] == MET for goal in judged)
    return (columns(lines) if judged else "") + (
        f"{met} goals met, {len(judged) - met} missed, {len(goals) - len(judged)} not measured\n")
