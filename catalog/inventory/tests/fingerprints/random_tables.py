"""Makes random tables in DuckDB, writes each as Parquet, and prints what DuckDB's definition says of it.

Reads a JSON task from standard input: directory, seed, tables, and the definition's SQL with <table> in it.
Prints a JSON list: file, columns, row texts in file order, fingerprint. Exits with 3 when there is no duckdb package.
"""

import json
import random
import struct
import sys

try:
    import duckdb
except ImportError as missing:
    print(missing, file=sys.stderr)
    sys.exit(3)

task = json.load(sys.stdin)
rng = random.Random(task["seed"])
connection = duckdb.connect()


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def number():
    kind = rng.randrange(8)
    if kind == 0:
        return struct.unpack("<d", rng.randbytes(8))[0]
    if kind == 1:
        return round(rng.uniform(-1000, 1000), rng.randrange(5))
    if kind == 2:
        return float(rng.randrange(-(10 ** rng.randrange(1, 23)), 10 ** rng.randrange(1, 23)))
    if kind == 3:
        return rng.choice([0.0, -0.0, 1e21, 1e-6, 1e-7, float("nan"), float("inf"), float("-inf"), 2.0**53, 0.1])
    if kind == 4:
        return rng.choice([1, -1]) * 10.0 ** rng.randrange(-30, 30)
    return rng.uniform(-1, 1) * 10.0 ** rng.randrange(-12, 24)


def double():
    return quoted(repr(number()))


def single():
    value = number()
    if rng.random() < 0.5:
        value = struct.unpack("<f", rng.randbytes(4))[0]
    if value == value and abs(value) > 3.4e38:
        value = 1.5
    return quoted(repr(value))


def integer(bits, signed):
    low = -(1 << (bits - 1)) if signed else 0
    high = low + (1 << bits) - 1
    edge = [low, high, 0, low + 1, high - 1]
    return quoted(str(rng.choice([rng.randint(low, high), rng.choice(edge), rng.randint(max(low, -9), 9)])))


def decimal(width, scale):
    digits = rng.randrange(1, width + 1)
    value = rng.randrange(10**digits)
    if rng.random() < 0.3:
        value -= value % 10 ** rng.randrange(width)
    text = str(value).zfill(scale + 1)
    text = text[: len(text) - scale] + ("." + text[len(text) - scale :] if scale else "")
    return quoted(rng.choice(["", "-"]) + text)


def string():
    kind = rng.randrange(4)
    length = rng.randrange(12)
    if kind == 0:
        return quoted("".join(rng.choice("ABCDEF_0123456789") for _ in range(length)))
    if kind == 1:
        return "''" if not length else "concat(" + ",".join(f"chr({rng.randrange(128)})" for _ in range(length)) + ")"
    ranges = [(0x20, 0x7F), (0x80, 0x24F), (0x2000, 0x206F), (0xE000, 0xFFFD), (0x1F300, 0x1F9FF)]
    return quoted("".join(chr(rng.randint(*rng.choice(ranges))) for _ in range(length)))


def date():
    kind = rng.randrange(5)
    if kind == 0:
        return quoted(rng.choice(["infinity", "-infinity", "0001-01-01", "2000-02-29", "5881580-07-10"]))
    if kind == 1:
        return f"(DATE '1970-01-01' + {rng.randint(-2147483645, 2147483646)})"
    return f"(DATE '1970-01-01' + {rng.randint(-1000000, 1000000)})"


def timestamp():
    kind = rng.randrange(6)
    if kind == 0:
        return quoted(rng.choice(["infinity", "-infinity", "294247-01-10 04:00:54.775806"]))
    if kind == 1:
        return f"make_timestamp({rng.randint(-9223372022400000000, 2**63 - 2)})"
    if kind == 2:
        return f"make_timestamp({rng.randint(-4 * 10**9, 4 * 10**9) * 1000000})"
    return f"make_timestamp({rng.randint(-4 * 10**15, 4 * 10**15) // 10**rng.randrange(6) * 10**rng.randrange(3)})"


def timestamp_ms():
    return f"make_timestamp({rng.randint(-4 * 10**12, 4 * 10**12) * 1000})"


def timestamp_ns():
    return f"make_timestamp_ns({rng.randint(-(2**63) + 10**15, 2**63 - 2) // 10**rng.randrange(10)})"


def listed(make):
    return lambda: "[" + ",".join("NULL" if rng.random() < 0.2 else make() for _ in range(rng.randrange(4))) + "]"


def decimals():
    width = rng.choice([rng.randint(1, 15), rng.randint(16, 38)])
    scale = rng.randint(0, width if width <= 15 else width - 1)
    return f"DECIMAL({width},{scale})", lambda: decimal(width, scale)


SCALARS = [
    lambda: ("BOOLEAN", lambda: rng.choice(["true", "false"])),
    lambda: ("TINYINT", lambda: integer(8, True)),
    lambda: ("SMALLINT", lambda: integer(16, True)),
    lambda: ("INTEGER", lambda: integer(32, True)),
    lambda: ("BIGINT", lambda: integer(64, True)),
    lambda: ("UTINYINT", lambda: integer(8, False)),
    lambda: ("USMALLINT", lambda: integer(16, False)),
    lambda: ("UINTEGER", lambda: integer(32, False)),
    lambda: ("UBIGINT", lambda: integer(64, False)),
    lambda: ("DOUBLE", double),
    lambda: ("DOUBLE", double),
    lambda: ("FLOAT", single),
    decimals,
    decimals,
    decimals,
    lambda: ("VARCHAR", string),
    lambda: ("VARCHAR", string),
    lambda: ("DATE", date),
    lambda: ("TIMESTAMP", timestamp),
    lambda: ("TIMESTAMP_MS", timestamp_ms),
    lambda: ("TIMESTAMP_NS", timestamp_ns),
]


def column(depth):
    kind = rng.random()
    if depth and kind < 0.12:
        inner, make = column(depth - 1)
        return inner + "[]", listed(make)
    if depth and kind < 0.24:
        fields = [(f"f{at} x", *column(depth - 1)) for at in range(rng.randint(1, 3))]

        def record():
            members = (quoted(name) + ":" + ("NULL" if rng.random() < 0.2 else make()) for name, _, make in fields)
            return "{" + ",".join(members) + "}"

        return "STRUCT(" + ",".join(f'"{name}" {inner}' for name, inner, _ in fields) + ")", record
    kind, make = rng.choice(SCALARS)()
    # Cast one by one: in a list the engine would deduce one type from all literals.
    return kind, lambda: f"({make()})::{kind}"


def name(at):
    text = rng.choice(["v", "OBS_VALUE", "has space", 'quo"te', "back\\slash", "é", "tab\there", "\u2028", "T T"])
    return f"{text}{at}"


answers = []
for table in range(task["tables"]):
    columns = [(name(at), *column(2)) for at in range(rng.randint(1, 8))]
    declared = ",".join('"' + text.replace('"', '""') + '" ' + kind for text, kind, _ in columns)
    connection.execute("DROP TABLE IF EXISTS x")
    connection.execute(f"CREATE TABLE x ({declared})")
    rows = rng.choice([0, 1, 2, rng.randrange(300)])
    for start in range(0, rows, 100):
        lines = (
            "(" + ",".join("NULL" if rng.random() < 0.1 else f"({make()})" for _, _, make in columns) + ")"
            for _ in range(min(100, rows - start))
        )
        connection.execute("INSERT INTO x VALUES " + ",".join(lines))
    if rows and rng.random() < 0.3:
        # Few distinct rows over and over: dictionary pages, several row groups.
        connection.execute(f"INSERT INTO x SELECT x.* FROM x, range({4000 // rows})")
    file = f"{task['directory']}/table-{table}.parquet"
    codec = rng.choice(["snappy", "zstd", "uncompressed"])
    connection.execute(f"COPY x TO '{file}' (FORMAT parquet, COMPRESSION {codec}, ROW_GROUP_SIZE 2048)")
    fingerprint = connection.execute(task["definition"].replace("<table>", "x")).fetchone()[0]
    again = connection.execute(task["definition"].replace("<table>", f"'{file}'")).fetchone()[0]
    if fingerprint != again:
        sys.exit(f"{declared}: DuckDB says {fingerprint} of the table and {again} of its Parquet file")
    texts = [text for (text,) in connection.execute(f"SELECT to_json(t)::VARCHAR FROM '{file}' AS t").fetchall()]
    answers.append({"file": file, "columns": declared, "texts": texts, "fingerprint": fingerprint})

json.dump({"version": duckdb.__version__, "tables": answers}, sys.stdout)
