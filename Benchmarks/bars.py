#!/usr/bin/env python3
"""One table of every bar about age: work, size, ours, floor, peers, ratio, bar, and whether it is kept.

  bars.py

Each part that is measured leaves its rows in .build-bench/bars.jsonl, in place of those that it left before. Of the sizes that
were measured, a bar has the one that is nearest to it, or furthest beyond.
"""
import datetime
import json
import pathlib
import re

NONE = "–"
FILE = pathlib.Path(__file__).resolve().parents[1] / ".build-bench" / "bars.jsonl"


class Bars:
    """The rows of one part; `leave` writes them."""

    def __init__(self, part):
        self.part, self.rows = part, []

    def add(self, work, size, ours, floor=NONE, peers=NONE, ratio=None, bar=None, unit="", value=None):
        """A row. `value`, by default the ratio, is what must not exceed the bar; both have the unit."""
        value = ratio if value is None else value
        self.rows.append({
            "part": self.part, "date": datetime.date.today().isoformat(), "work": work,
            "size": f"{size:,}" if isinstance(size, int) else size, "ours": ours, "floor": floor, "peers": peers,
            "ratio": NONE if ratio is None else f"{ratio:.2f}", "bar": NONE if bar is None else f"{bar:g}{unit}",
            "value": value, "most": bar})

    def leave(self, file=FILE):
        file.parent.mkdir(parents=True, exist_ok=True)
        others = [each for each in rows(file) if each["part"] != self.part]
        partial = file.with_suffix(".partial")
        partial.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in others + self.rows))
        partial.replace(file)


def rows(file=FILE):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def share(row):
    """How much of its bar a row takes; a bar of nothing is kept by nothing alone."""
    if row["most"] is None or row["value"] is None:
        return 0
    return row["value"] / row["most"] if row["most"] else float(row["value"] > 0) * 2


def decisive(found):
    """A row for each bar, and for what peers do, in the order in which they were measured."""
    bars = {}
    for row in found:
        if row["most"] is None and row["peers"] == NONE:
            continue
        # Beside another size, it is one bar whatever that size is.
        name = row["part"], row["work"], row["bar"], *(re.sub("^[0-9].*|:.*", "", row[each]) for each in ("floor", "peers"))
        if name not in bars or share(row) >= share(bars[name]):
            bars[name] = row
    return list(bars.values())


def main():
    found = rows()
    print("| work | size | ours | floor | peers | ratio | bar | kept |")
    print("|---|---|---|---|---|---|---|---|")
    kept = []
    for row in decisive(found):
        is_kept = None if row["most"] is None else row["value"] is not None and share(row) <= 1
        kept.append(is_kept)
        print(f"| {row['work']} | {row['size']} | {row['ours']} | {row['floor']} | {row['peers']} | {row['ratio']} | {row['bar']} | "
              f"{NONE if is_kept is None else 'yes' if is_kept else 'no'} |")
    dates = sorted({row["date"] for row in found})
    print(f"{kept.count(True)} bars kept, {kept.count(False)} not; measured "
          + ("on " + dates[0] if len(dates) == 1 else f"from {dates[0]} to {dates[-1]}" if dates else "never"))


if __name__ == "__main__":
    main()
