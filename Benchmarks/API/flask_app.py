"""The same readings from a plain SQLite table, as documents of the same shape: what a Python gateway does for a page."""
import json
import os
import sqlite3

from flask import Flask, Response, request

app = Flask(__name__)
database = sqlite3.connect(os.environ["ROWS"], check_same_thread=False)
database.row_factory = sqlite3.Row


def document(row):
    clock = None
    if row["clock_difference"] is not None:
        clock = {"difference_seconds": row["clock_difference"], "read_at": row["clock_read_at"]}
    deliveries = []
    if row["destination"] is not None:
        deliveries = [{"destination": row["destination"], "state": row["state"], "reason": row["reason"]}]
    return {
        "id": row["id"], "kind": row["kind"],
        "device": {"address": row["address"], "model": row["model"], "serial": row["serial"]},
        "provider": row["provider"], "sequence": row["sequence"], "base_time": row["base_time"],
        "time_offset_minutes": row["time_offset_minutes"], "device_time": row["device_time"], "time": row["time"],
        "time_basis": row["time_basis"], "time_uncertainty_minutes": row["time_uncertainty_minutes"], "clock": clock,
        "glucose": {"value": row["value"], "unit": row["unit"]}, "sample_type": row["sample_type"],
        "sample_location": row["sample_location"], "context": None, "user": row["user"], "status": [],
        "excluded": row["excluded"], "deliveries": deliveries}


@app.get("/api/v1/readings")
def readings():
    limit = int(request.args.get("limit", 1000))
    rows = database.execute("SELECT * FROM reading ORDER BY time DESC, id DESC LIMIT ?", (limit,))
    body = {"readings": [document(row) for row in rows], "more": False, "cursor": None}
    return Response(json.dumps(body, separators=(",", ":")), mimetype="application/json")
