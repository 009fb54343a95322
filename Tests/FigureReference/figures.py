"""The figures of reports, written once more: reads cases from standard input, one JSON object a line, and prints the figures
of each. Fractions throughout, rounded once and half to even; days and hours by Python's own time zones."""

import json
import math
import sys
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from zoneinfo import ZoneInfo

MOLAR = Fraction(180156, 10000)
KILOPASCAL = Fraction(7500617, 10**6)
CLASSES = ["very_low", "low", "target", "high", "very_high"]
BOUNDS = {
    "standard": {"mg/dL": (54, 70, 180, 250), "mmol/L": ("3.0", "3.9", "10.0", "13.9")},
    "older": {"mg/dL": (None, 70, 180, 250), "mmol/L": (None, "3.9", "10.0", "13.9")},
    "pregnancy": {"mg/dL": (54, 63, 140, None), "mmol/L": ("3.0", "3.5", "7.8", None)},
}


def rounded(value, places):
    """A fraction as text with so many places, half to even."""
    if value is None:
        return None
    scaled = value * 10**places
    low = math.floor(scaled)
    rest = scaled - low
    digits = low + (1 if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2) else 0)
    sign, digits = ("-" if digits < 0 else ""), abs(digits)
    if places == 0:
        return f"{sign}{digits}"
    text = str(digits).rjust(places + 1, "0")
    return f"{sign}{text[:-places]}.{text[-places:]}"


def rooted(square, places):
    """The square root of a fraction as text, half to even."""
    if square is None:
        return None
    wanted = square * 100**places
    low = math.isqrt(wanted.numerator // wanted.denominator)
    middle = (Fraction(2 * low + 1, 2)) ** 2
    digits = low + (1 if wanted > middle or (wanted == middle and low % 2) else 0)
    text = str(digits).rjust(places + 1, "0")
    return text if places == 0 else f"{text[:-places]}.{text[-places:]}"


def deviation_square(values, weights=None):
    if len(values) < 2:
        return None
    weights = weights or [1] * len(values)
    mean = mean_of(values, weights)
    square = sum(weight * (value - mean) ** 2 for value, weight in zip(values, weights)) / sum(weights)
    return square * Fraction(len(values), len(values) - 1)


def mean_of(values, weights):
    return sum(weight * value for value, weight in zip(values, weights)) / Fraction(sum(weights))


def mass(point):
    """mg/dL; HI and LO are infinite."""
    if point["level"] == "hi":
        return math.inf
    if point["level"] == "lo":
        return -math.inf
    return Fraction(point["value"]) * (MOLAR if point["unit"] == "mmol/L" else 1)


def measured(text, unit):
    """A number and its unit as the device showed them. What is finer than a device shows and, to its last digit or to 0.015 %,
    what a number of the other unit comes to, is that number."""
    value, places, is_molar = Fraction(text), len(text.partition(".")[2]), unit == "mmol/L"
    if (value * (10 if is_molar else 1)).denominator == 1 or value <= 0:
        return value, unit
    origin = Fraction(rounded(value * MOLAR, 0) if is_molar else rounded(value / MOLAR, 1))
    back = origin / MOLAR if is_molar else origin * MOLAR
    if abs(back - value) <= max(Fraction(1, 2 * 10**places), value * Fraction(15, 10**5)):
        return origin, "mg/dL" if is_molar else "mmol/L"
    return value, unit


def place(text, unit, preset):
    value, unit = measured(text, unit)
    very_low, low, high, very_high = (None if b is None else Fraction(b) for b in BOUNDS[preset][unit])
    if value < low:
        return "very_low" if very_low is not None and value < very_low else "low"
    if value <= high:
        return "target"
    return "very_high" if very_high is not None and value > very_high else "high"


def class_of(point, preset):
    if point["level"] == "number":
        return place(point["value"], point["unit"], preset)
    limit = point.get("limit")
    if limit is not None:
        return place(limit, point["unit"], preset)
    unit_bounds = BOUNDS[preset][point["unit"]]
    if point["level"] == "hi":
        return "very_high" if unit_bounds[3] is not None else "high"
    return "very_low" if unit_bounds[0] is not None else "low"


def percentile(values, percent):
    """Type 7; None between LO and HI."""
    position = Fraction((len(values) - 1) * percent, 100)
    index, rest = math.floor(position), position - math.floor(position)
    low = values[index]
    if rest == 0:
        return low
    high = values[index + 1]
    if math.isinf(low) and math.isinf(high):
        return low if low == high else None
    if math.isinf(low) or math.isinf(high):
        return low if math.isinf(low) else high
    return low + (high - low) * rest


def shares(weights):
    total = sum(weights.values())
    if total == 0:
        return None
    whole = {kind: int(rounded(Fraction(weight * 100, total), 0)) for kind, weight in weights.items()}
    missing = 100 - sum(whole.values())
    taker = "high"
    if weights.get("high", 0) == 0 or whole.get("high", 0) + missing < min(whole.get("high", 0), 1):
        taker = max(CLASSES, key=lambda kind: (weights.get(kind, 0), -CLASSES.index(kind)))
    whole[taker] = whole.get(taker, 0) + missing
    return {kind: ("<1 %" if number == 0 and weights.get(kind, 0) else f"{number} %")
            for kind, number in whole.items()}


class Period:
    def __init__(self, first, last, zone, now):
        self.zone, self.now = ZoneInfo(zone), now
        self.dates, day = [], date.fromisoformat(first)
        while day <= date.fromisoformat(last):
            self.dates.append(day)
            day += timedelta(days=1)

    def midnight(self, day):
        """The first second that the clocks show the date."""
        return int(datetime(day.year, day.month, day.day, tzinfo=self.zone).timestamp())

    def wall(self, second):
        return datetime.fromtimestamp(second, timezone.utc).astimezone(self.zone)

    def possible(self, day):
        begin, end = self.midnight(day), self.midnight(day + timedelta(days=1))
        return max(0, min(end, self.now) - begin)


def episodes(values, preset, is_low):
    """values: (time, seconds stood for, whether a gap follows, point)"""
    found, run = [], None
    for time, stood, breaks, point in values:
        kind = CLASSES.index(class_of(point, preset)) - 2
        beyond = kind < 0 if is_low else kind > 0
        if beyond:
            run = run or {"begin": time, "beyond": 0, "worst": 0, "back": 0, "since": None}
            run["beyond"] += stood
            run["begun"] = run.get("begun") or run["beyond"] >= 900
            run["worst"] = min(run["worst"], kind) if is_low else max(run["worst"], kind)
            run["back"], run["since"] = 0, None
        elif run:
            if not run["begun"]:
                run = None
            else:
                run["since"] = time if run["since"] is None else run["since"]
                run["back"] += stood
                if run["back"] >= 900:
                    found.append([run["begin"], run["since"], CLASSES[run["worst"] + 2]])
                    run = None
        if breaks and run:
            if run["begun"]:
                end = time + stood if run["since"] is None else run["since"]
                found.append([run["begin"], end, CLASSES[run["worst"] + 2]])
            run = None
    return found


def glucose(case):
    period = Period(case["first"], case["last"], case["zone"], case["now"])
    unit, preset = case["unit"], case["preset"]
    places, divisor = (1, MOLAR) if unit == "mmol/L" else (0, Fraction(1))
    points = sorted(case["points"], key=lambda point: (point["time"], point["id"]))
    if case["sensor"]:
        # What a sensor keeps by itself is the series; what else it showed counts only behind the newest of that.
        own = [p for p in points if p["source"] in ("history", "sensor")]
        if own:
            points = [p for p in points if p["source"] in ("history", "sensor") or p["time"] > own[-1]["time"]]
        basis = own or points
        gaps = sorted(b["time"] - a["time"] for a, b in zip(basis, basis[1:]) if b["time"] - a["time"] >= 30)
        unknown = gaps[(len(gaps) - 1) // 2] if gaps else 300
        kept, following = [], -math.inf
        for point in points:
            if point["time"] >= following:
                kept.append(dict(point, pace={"history": 900, "trend": 60}.get(point["source"], unknown)))
                pace = kept[-1]["pace"]
                early = 10 if point["source"] in ("history", "trend") else max(10, pace // 4)
                following = point["time"] + max(1, pace - early)
        points = kept
        for place_, point in enumerate(points):
            point["stood"] = point["pace"]
            if point["source"] in ("sensor", "scan") and place_ + 1 < len(points):
                point["stood"] = min(points[place_ + 1]["time"] - point["time"], 2 * point["pace"])
    # A value counts by the time between two of its sensor: in percentiles it stands in the order as often.
    shared = math.gcd(*(p.get("pace", 1) for p in points)) or 1
    for point in points:
        point["weight"] = point.get("pace", 1) // shared
    finite = [mass(p) for p in points if p["level"] == "number"]
    counting = [p["weight"] for p in points if p["level"] == "number"]
    square = deviation_square(finite, counting)
    mean = mean_of(finite, counting) if finite else None
    enough = len(finite) >= 30
    counts = {}
    for point in points:
        kind = class_of(point, preset)
        counts[kind] = counts.get(kind, 0) + 1
    result = {
        "count": len(points),
        "mean": rounded(None if mean is None else mean / divisor, places),
        "deviation": rooted(square / divisor**2, places) if enough else None,
        "variation": rooted(square / mean**2 * 10_000, 1) if enough else None,
        "days": len({period.wall(p["time"]).date() for p in points}),
        "shares": shares(counts),
        "percentiles": [],
    }
    values = sorted(mass(p) for p in points)
    for percent in (0, 5, 25, 50, 75, 95, 100) if values else ():
        value = percentile(values, percent)
        result["percentiles"].append(shown(value, divisor, places))
    if not case["sensor"]:
        return result
    weights, of_day = {}, {}
    for point in points:
        kind = class_of(point, preset)
        weights[kind] = weights.get(kind, 0) + point["stood"]
        day = period.wall(point["time"]).date()
        # A value that is followed late stands for a longer time, and is no more data.
        of_day[day] = of_day.get(day, 0) + min(point["stood"], point["pace"])
    total = sum(of_day.values())
    possible = sum(period.possible(day) for day in period.dates)
    result["time_in_ranges"] = shares(weights)
    result["active_of_period"] = rounded(Fraction(min(total, possible) * 100, possible), 1) if possible else None
    result["active_of_span"] = None
    if points:
        span = points[-1]["time"] - points[0]["time"] + points[-1]["stood"]
        result["active_of_span"] = rounded(Fraction(min(total, span) * 100, span), 1)
    level = "full" if result["days"] >= 14 and total * 100 >= possible * 70 else "limited"
    result["sufficiency"] = "not_enough" if total < 86_400 else level
    is_full = result["sufficiency"] == "full"
    result["gmi"] = rounded(Fraction("3.31") + Fraction("0.02392") * mean, 1) if is_full and finite else None
    result["gmi_ifcc"] = (
        rounded(Fraction("12.71") + Fraction("4.70587") * mean / MOLAR, 0) if is_full and finite else None)
    stood = []
    for place_, point in enumerate(points):
        following = points[place_ + 1]["time"] if place_ + 1 < len(points) else None
        breaks = following is None or following - point["time"] > Fraction(5, 2) * point["pace"] + 60
        stood.append((point["time"], point["stood"] if breaks else following - point["time"], breaks, point))
    result["episodes"] = sorted(
        episodes(stood, preset, True) + episodes(stood, preset, False),
        key=lambda e: (e[0], CLASSES.index(e[2])))
    last = period.dates[-14:]
    shares_of_days = sorted(
        (Fraction(min(of_day.get(d, 0), period.possible(d)), period.possible(d))
         for d in last if of_day.get(d, 0) >= 3600 and period.possible(d)), reverse=True)[:7]
    result["pattern"] = None
    if len(shares_of_days) == 7 and sum(shares_of_days) / 7 >= Fraction(7, 10):
        hours = [[] for _ in range(24)]
        for point in points:
            if period.wall(point["time"]).date() >= last[0]:
                hours[period.wall(point["time"]).hour].append((mass(point), point["weight"]))
        pattern = {}
        for percent, least in ((5, 20), (25, 5), (50, 3), (75, 5), (95, 20)):
            raw = [
                percentile(sorted(value for value, often in values for _ in range(often)), percent)
                if len(values) >= least else None for values in hours]
            pattern[str(percent)] = [shown(smooth(raw, hour), divisor, places) for hour in range(24)]
        result["pattern"] = pattern
    return result


def smooth(raw, hour):
    own = raw[hour]
    if own is None:
        return None
    around = [value for value in (raw[hour - 1], raw[(hour + 1) % 24]) if value is not None]
    infinite = {value for value in [own] + around if math.isinf(value)}
    if len(infinite) == 2:
        return own
    if infinite:
        return infinite.pop()
    return (4 * own + sum(around)) / (4 + len(around))


def shown(value, divisor, places):
    if value is None:
        return None
    if math.isinf(value):
        return "HI" if value > 0 else "LO"
    return rounded(value / divisor, places)


def pressure(case):
    zone = ZoneInfo(case["zone"])
    sessions = []
    for point in sorted(case["points"], key=lambda point: (point["time"], point["id"])):
        same = [s for s in sessions if s["device"] == point["device"]]
        if (same and point["time"] - same[-1]["points"][-1]["time"] <= 600
                and point["time"] - same[-1]["points"][0]["time"] <= 3600):
            same[-1]["points"].append(point)
            continue
        wall = datetime.fromtimestamp(point["time"], timezone.utc).astimezone(zone)
        minute = wall.hour * 60 + wall.minute
        window, day = "other", wall.date()
        if 240 <= minute < 720:
            window = "morning"
        elif minute >= 1020:
            window = "evening"
        elif minute < 120:
            window, day = "evening", day - timedelta(days=1)
        sessions.append({"device": point["device"], "points": [point], "window": window, "day": day})
    first, last = date.fromisoformat(case["first"]), date.fromisoformat(case["last"])
    sessions = [session for session in sessions if first <= session["day"] <= last]

    def means(points):
        def number(point, name):
            return Fraction(point[name]) * (KILOPASCAL if point["unit"] == "kPa" else 1)
        result, divisor, places = {"count": len(points)}, Fraction(1), 0
        if case["unit"] == "kPa":
            divisor, places = KILOPASCAL, 1
        for name in ("systolic", "diastolic"):
            values = [number(point, name) / divisor for point in points]
            result[name] = rounded(sum(values) / len(values), places) if values else None
            square = deviation_square(values)
            result[name + "_deviation"] = rooted(square, places + 1)
        pulses = [Fraction(point["pulse"]) for point in points if point["pulse"] is not None]
        result["pulse"] = rounded(sum(pulses) / len(pulses), 0) if pulses else None
        return result

    def of(chosen):
        return [point for session in chosen for point in session["points"]]

    days = sorted({session["day"] for session in sessions})
    result = {"sessions": len(sessions), "days": len(days), "all": means(of(sessions))}
    for window in ("morning", "evening", "other"):
        result[window] = means(of([s for s in sessions if s["window"] == window]))
    for name, drops, least in (("esh", True, 3), ("aha", False, 3), ("nice", True, 4)):
        seen = [day for day in days if day > days[-1] - timedelta(days=7)] if days else []
        used = seen[1:] if drops else seen
        chosen = means(of([s for s in sessions if s["day"] in used]))
        chosen["sufficient"] = chosen["count"] >= 12 and len(seen) >= least
        chosen["first_day"] = len(of([s for s in sessions if drops and seen and s["day"] == seen[0]]))
        chosen["before"] = len(of([s for s in sessions if seen and s["day"] < seen[0]]))
        result[name] = chosen
    return result


def weight(case):
    zone, days = ZoneInfo(case["zone"]), {}
    for point in sorted(case["points"], key=lambda point: point["time"]):
        days.setdefault(datetime.fromtimestamp(point["time"], timezone.utc).astimezone(zone).date(), point)
    # Over all weighings there are: whatever the period, a day has one trend.
    trend, before, course = None, None, []
    for day, point in sorted(days.items()):
        value = float(Fraction(point["value"]))
        trend = value if trend is None else trend + (1 - 0.9 ** (day - before).days) * (value - trend)
        before = day
        course.append((day, trend))
    first, last = date.fromisoformat(case["first"]), date.fromisoformat(case["last"])
    until = [(day, trend) for day, trend in course if day <= last]
    shown = [trend for day, trend in until if day >= first]
    change = None
    if shown:
        end, newest = until[-1]
        begin, oldest = next((day, trend) for day, trend in until if (end - day).days <= 28)
        if (end - begin).days >= 14:
            change = {
                "first": begin.isoformat(), "last": end.isoformat(),
                "per_week": (newest - oldest) * 7 / (end - begin).days}
    return {"trends": shown, "change": change}


def pace(case):
    """Which of the values of several devices are in a row of twelve or more, each at most 16 minutes after the one before. Values
    less than half a minute after the last that counted are the same one again. A device that has such a row has measured its
    rows of two and more, too."""
    found = []
    for device in {value["device"] for value in case["values"]}:
        row, rows, own = [], [], [value for value in case["values"] if value["device"] == device]
        for value in sorted(own, key=lambda each: (each["time"], each["id"])) + [None]:
            if row and (value is None or value["time"] - row[-1]["time"] > 960):
                kept = []
                for each in row:
                    if not kept or each["time"] - kept[-1] >= 30:
                        kept.append(each["time"])
                rows.append((len(kept), [each["id"] for each in row]))
                row = []
            row.append(value)
        if any(count >= 12 for count, _ in rows):
            found += [each for count, ids in rows if count >= 2 for each in ids]
    return {"sensors": sorted(found)}


def vital(case):
    """Lowest and highest by day of readings, each with its samples; a reading counts once on each day."""
    period, days = Period(case["first"], case["last"], case["zone"], case["now"]), {}
    for number, samples in enumerate(case["readings"]):
        for second, value in samples:
            day = period.wall(second).date()
            if period.dates[0] <= day <= period.dates[-1]:
                days.setdefault(day, {}).setdefault(number, []).append(value)
    every = {number: values for day in days.values() for number, values in day.items()}
    return {"count": len(every), "days": [
        [day.isoformat(), len(of), min(map(min, of.values())), max(map(max, of.values()))]
        for day, of in sorted(days.items())]}


KINDS = {"glucose": glucose, "pressure": pressure, "weight": weight, "pace": pace, "vital": vital}
for line in sys.stdin:
    case = json.loads(line)
    print(json.dumps(KINDS[case["kind"]](case)))
