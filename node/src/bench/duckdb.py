"""What DuckDB needs for the same work, measured by itself and printed as JSON in milliseconds.

Standard input: {"parquet", "csv", "dir", "threads", "runs", "full", "selective", "row_group"}. Exit code 3: there is no DuckDB.

Its encrypted writing uses the built-in cipher, which DuckDB allows under a setting that calls itself unsafe (its random
numbers are weak). Here it is a yardstick for data that was made up.
"""

import json
import os
import statistics
import sys
import time

try:
    import duckdb
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(3)

task = json.load(sys.stdin)
connection = duckdb.connect()
# The bar of a long statement goes to standard output, where the answer goes.
connection.execute("set enable_progress_bar = false")
connection.execute("set TimeZone = 'UTC'")
connection.execute(f"set threads = {task['threads']}")
connection.execute("set force_mbedtls_unsafe = 'true'")
connection.execute("set preserve_insertion_order = true")
KEY = "encryption_config {footer_key_value: from_hex('" + "42" * 32 + "')}"
READ_KEY = "encryption_config = {footer_key_value: from_hex('" + "42" * 32 + "')}"


def quoted(path):
    return "'" + path.replace("'", "''") + "'"


def timed(sql):
    times = []
    for _ in range(task["runs"]):
        start = time.perf_counter()
        connection.execute(sql).fetchall()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


plain = os.path.join(task["dir"], "duckdb-plain.parquet")
encrypted = os.path.join(task["dir"], "duckdb-encrypted.parquet")
options = f"format parquet, compression zstd, compression_level 3, row_group_size {task['row_group']}"
connection.execute(f"create table flights as from read_parquet({quoted(task['parquet'])})")

times = {}
times["copy_plain"] = timed(f"copy flights to {quoted(plain)} ({options})")
times["copy_encrypted"] = timed(f"copy flights to {quoted(encrypted)} ({options}, {KEY})")
if task["csv"]:
    csv = f"from read_csv({quoted(task['csv'])})"
    times["csv_copy_plain"] = timed(f"copy ({csv}) to {quoted(plain + '2')} ({options})")
    times["csv_copy_encrypted"] = timed(f"copy ({csv}) to {quoted(encrypted + '2')} ({options}, {KEY})")
connection.execute("drop table flights")
for name, source in [
    ("plain", f"read_parquet({quoted(plain)})"),
    ("encrypted", f"read_parquet({quoted(encrypted)}, {READ_KEY})"),
]:
    connection.execute(f"create or replace view flights as from {source}")
    times[f"full_{name}"] = timed(task["full"])
    times[f"selective_{name}"] = timed(task["selective"])
print(json.dumps({"version": duckdb.__version__, "ms": times}))
