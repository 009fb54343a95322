"""Slopes of what was sampled every day."""
import math

DAYS = 365
# How many days of each life of the gateway are left out, while caches fill: fewer in runs of less than so many days.
WARM_UPS = [(1, 21), (3, 60), (14, math.inf)]
# What may grow: (name, unit, the most a year that counts as flat, the days below which its slope says nothing). Caches and the
# allocator fill for a month.
FLAT = [("resident", "MiB", 8, 60), ("private dirty", "MiB", 8, 60), ("descriptors", "", 2, 0), ("threads", "", 2, 0)]


def slope(lives):
    """The common slope of several series of (day, value), each with a level of its own, and its standard error."""
    across = along = rest = 0
    count = 0
    parts = []
    for series in lives:
        if len(series) < 2:
            continue
        day, value = (sum(each[place] for each in series) / len(series) for place in (0, 1))
        parts.append([(x - day, y - value) for x, y in series])
        across += sum(x * x for x, _ in parts[-1])
        along += sum(x * y for x, y in parts[-1])
        count += len(series) - 1
    if across == 0 or count < 3:
        return None
    found = along / across
    rest = sum((y - found * x) ** 2 for series in parts for x, y in series)
    return found, math.sqrt(rest / (count - 1) / across)


def behind(lives, first_day=0):
    """What comes after each life's warm-up, and after a day."""
    last = max(day for life in lives for day, _ in life)
    warm_up = next(days for days, shorter in WARM_UPS if last < shorter)
    return [[(day, sample) for day, sample in life if day >= max(life[0][0] + warm_up, first_day)] for life in lives if life]


def table(lives, horizon, readings_a_day, disk_bar, bars):
    """Lines for people, what is not flat, and whether there were days enough to know. `bars` takes a row for each bar."""
    lines, grown = [f"{'':<18}{'first':>10}{'last':>10}{'a year':>12}{'± (2 s.e.)':>12}{'flat up to':>12}"], []

    days = max(day for life in lives for day, _ in life)

    def row(name, unit, bar, least=0, first_day=0):
        series = [[(day, sample[name]) for day, sample in life] for life in behind(lives, first_day)]
        series = [each for each in series if each]
        found = slope(series)
        if found is None:
            lines.append(f"{name:<18}{'too few days':>20}")
            return None
        a_year, error = found[0] * DAYS, 2 * found[1] * DAYS
        lines.append(f"{name:<18}{series[0][0][1]:>10.1f}{series[-1][-1][1]:>10.1f}{a_year:>12.2f}{error:>12.2f}{bar:>12.2f} {unit}")
        bars.add(f"a simulated year: {name}, growth a year", f"{days} days", f"{a_year:.1f} ± {error:.1f} {unit}".strip(), bar=round(bar, 1),
                 unit=unit and f" {unit}", value=a_year - error)
        if days < least:
            return None
        if a_year - error > bar:
            grown.append(f"{name} grows by {a_year:.1f} {unit} a year")
        return a_year
    slopes = [row(*each) for each in FLAT]
    bar = disk_bar * readings_a_day * DAYS / 2 ** 20
    growth = row("store", "MiB", bar, first_day=horizon)
    slopes += [growth, row("state directory", "MiB", bar, first_day=horizon)]
    if growth is not None:
        lines.append(f"{'':<18}behind the horizon the store grows by {growth * 2 ** 20 / DAYS / readings_a_day:.0f} octets a reading")
    work = [[(day, {key: after[key] - before[key] for key in ("processor", "switches")})
             for (_, before), (day, after) in zip(life, life[1:])] for life in behind(lives)]
    for name, unit in (("processor", "s a day"), ("switches", "a day")):
        values = [each[name] for life in work for _, each in life]
        found = slope([[(day, each[name]) for day, each in life] for life in work if life])
        if not values or found is None:
            continue
        mean = sum(values) / len(values)
        lines.append(f"{name:<18}{values[0]:>10.1f}{values[-1]:>10.1f}{found[0] * DAYS:>12.2f}{2 * found[1] * DAYS:>12.2f}"
                     f"{mean:>12.1f} {unit} (mean)")
        if (found[0] - 2 * found[1]) * DAYS > mean:
            grown.append(f"{name} doubles within a year")
    return lines, grown, None not in slopes
