"""The floor: aiohttp posting gzipped batches of 1000 samples from memory. floor.py URL [SAMPLES]"""
import asyncio
import datetime
import gzip
import hashlib
import json
import sys
import time

import aiohttp


def instant(number):
    return datetime.datetime.fromtimestamp(1_500_000_000 + number * 300, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def samples(count):
    """What the gateway sends of the same readings: ids are hashes, times five minutes apart."""
    return [
        {
            "id": hashlib.md5(str(number).encode()).hexdigest(), "value": round(4.44 + number % 120 / 18.0156, 4), "unit": "mmol/L",
            "start_date": instant(number), "end_date": instant(number), "type": "fingerprick",
            "metadata": {"measured_unit": "mg/dL", "measured_value": str(80 + number % 120)},
        }
        for number in range(count)
    ]


async def main(url, count):
    data = samples(count)
    headers = {
        "x-vital-api-key": "sk_us_benchmark", "content-type": "application/json", "content-encoding": "gzip"}
    async with aiohttp.ClientSession() as session:
        begin = time.perf_counter()
        for first in range(0, count, 1000):
            body = {
                "stage": "daily", "provider": "accuchek_ble", "time_zone": "Europe/Berlin",
                "is_final_chunk": first + 1000 >= count, "data": data[first:first + 1000],
            }
            octets = gzip.compress(json.dumps(body, separators=(",", ":")).encode(), compresslevel=6)
            async with session.post(url + "/v2/timeseries/u-1/glucose", data=octets, headers=headers) as answer:
                assert answer.status == 200, answer.status
                await answer.read()
        seconds = time.perf_counter() - begin
    print(f"aiohttp posted {count} in {seconds:.2f} s")
    print(f"rate {int(count / seconds)}")


asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100_000))
