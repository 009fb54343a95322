"""The figures of a year's page from a plain SQLite table, with pandas: what somebody would write who has the rows.

  figures.py ROWS ZONE      prints the processor's time without the imports, and some of the figures
"""
import json
import sqlite3
import sys
import time

import pandas as pd

began = time.process_time()
rows, zone = sys.argv[1], sys.argv[2]
database = sqlite3.connect(rows)
sensor = pd.read_sql_query("SELECT time, value FROM glucose ORDER BY time", database)
pressure = pd.read_sql_query("SELECT time, systolic, diastolic, pulse FROM pressure ORDER BY time", database)
newest = pd.read_sql_query("SELECT * FROM pressure ORDER BY time DESC LIMIT 25", database)
for frame in (sensor, pressure):
    frame["time"] = pd.to_datetime(frame["time"], unit="s", utc=True).dt.tz_convert(zone)
    frame["day"] = frame["time"].dt.date
    frame["minute"] = frame["time"].dt.hour * 60 + frame["time"].dt.minute

# A sensor's: mean, deviation, GMI, time in ranges, how much of the time it wore, the daily pattern, and each day's range.
value = sensor["value"]
shares = pd.cut(value, [0, 54, 70, 181, 251, 1000], right=False).value_counts(normalize=True, sort=False)
pattern = value.groupby(sensor["minute"] // 15).quantile([0.05, 0.25, 0.5, 0.75, 0.95]).unstack()
days = value.groupby(sensor["day"]).agg(["count", "mean", "std", "min", "max"])
bands = value.groupby([sensor["day"], sensor["minute"] // 60]).agg(["min", "max", "mean"])
deviation = value.std()
wear = len(sensor) / (365 * 96)
gaps = (sensor["time"].diff() > pd.Timedelta(minutes=30)).sum()

# A cuff's: morning and evening of each day, their means, deviations and the means of the days.
pressure["part"] = pd.cut(pressure["minute"], [0, 720, 1440], right=False, labels=["morning", "evening"])
figures = ["systolic", "diastolic", "pulse"]
parts = pressure.groupby("part", observed=True)[figures].agg(["count", "mean", "std", "min", "max"])
daily = pressure.groupby(["day", "part"], observed=True)[figures].mean()
means = daily.groupby("part", observed=True).mean()
weeks = pressure.set_index("time")[figures].resample("W").agg(["mean", "min", "max"])

spent = time.process_time() - began
print(json.dumps({
    "seconds": spent, "sensor": len(sensor), "mean": round(value.mean(), 1), "deviation": round(deviation, 1),
    "gmi": round(3.31 + 0.02392 * value.mean(), 1), "target": round(100 * shares.iloc[2], 1), "wear": round(100 * wear),
    "gaps": int(gaps), "pressures": len(pressure), "systolic": round(pressure["systolic"].mean(), 1),
    "rows": len(pattern) + len(days) + len(bands) + len(parts) + len(means) + len(weeks) + len(newest)}))
