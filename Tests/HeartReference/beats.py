"""What heart-rate variability is, written once more: reads windows from standard input, one a line, as
`{"seconds": 300, "runs": [[870, 868, ...], ...]}` with intervals in 1/1024 s, and prints the figures of each."""

import json
import statistics
import sys
from fractions import Fraction

SHORTEST, LONGEST = 205, 3072


def is_normal(place, run):
    """Whether an interval is one between normal beats."""
    if not SHORTEST <= run[place] <= LONGEST:
        return False
    around = [run[other] for other in (place - 2, place - 1, place + 1, place + 2)
              if 0 <= other < len(run) and SHORTEST <= run[other] <= LONGEST]
    if len(around) < 2:
        return True
    median = statistics.median([Fraction(value) for value in around])
    return abs(run[place] - median) <= median / 5


def figures(window):
    """RMSSD and SDNN in milliseconds, with what they rest on."""
    normal, differences = [], []
    for run in window["runs"]:
        kept = [value if is_normal(place, run) else None for place, value in enumerate(run)]
        normal += [value for value in kept if value is not None]
        differences += [b - a for a, b in zip(kept, kept[1:]) if a is not None and b is not None]
    total = sum(len(run) for run in window["runs"])
    in_milliseconds = [value * 1000 / 1024 for value in normal]
    return {
        "rmssd": (sum((d * 1000 / 1024) ** 2 for d in differences) / len(differences)) ** 0.5 if differences else None,
        "sdnn": statistics.stdev(in_milliseconds) if len(normal) > 1 else None,
        "counted": len(normal), "left_out": total - len(normal),
        "coverage": min(100, int(Fraction(sum(normal) * 100, window["seconds"] * 1024))),
    }


for line in sys.stdin:
    print(json.dumps(figures(json.loads(line))))
