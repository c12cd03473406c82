#!/usr/bin/env python3
"""Measures the time of a decode step for several context lengths, for docs/measured/context.json.

    python3 tools/context.py build/kvcull FOLDER > docs/measured/context.json
    python3 tools/chart_context.py svg docs/measured/context.json > docs/pictures/context.svg
    python3 tools/chart_context.py table docs/measured/context.json     # the table of docs/measured/context.md

FOLDER stores the output of each `kvcull bench`, one file per length. A length whose file exists is not measured again.
Run it on an idle machine. The longest context needs 8 GiB of memory.
"""
import argparse
import datetime
import json
import os
import subprocess
import sys

LENGTHS = [4096, 16384, 32768, 65536, 98304, 131072]
POLICIES = ["full", "snapkv:budget=512", "rocketkv:budget=512", "quest:budget=4096"]
OPTIONS = ["--shape", "llama-3.2-1b", "--type", "q8_0", "--fill", "--gen", "24"]


def options(length):
    kv = [word for policy in POLICIES for word in ("--kv", policy)]
    return OPTIONS + ["--prompt", str(length)] + kv


def processor():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "unknown processor"


def measured(program, folder, length):
    path = os.path.join(folder, f"{length}.json")
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        command = [program, "bench", *options(length), "--json"]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        with open(path, "wb") as file:
            file.write(output)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--machine", default=processor(), help="the machine's name in the result")
    parser.add_argument("--date", default=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"))
    given = parser.parse_args()
    os.makedirs(given.folder, exist_ok=True)
    version = subprocess.run([given.program, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    result = {
        "date": given.date,
        "machine": given.machine,
        "kvcull": version.splitlines()[0].removeprefix("kvcull "),
        "command": "kvcull bench " + " ".join(options("LENGTH")),
        "contexts": [],
    }
    for length in LENGTHS:
        bench = measured(given.program, given.folder, length)
        result["model"], result["backend"] = bench["model"], bench["backend"]
        result["weight_bytes"] = bench["weight_bytes"]
        result["contexts"].append({
            "tokens": length,
            "bandwidth": bench["bandwidth"],
            "policies": [{
                "kv": row["kv"],
                "cache_bytes": row["cache_bytes"][0],
                "read_bytes_per_token": row["cache_read_bytes_per_step"],
                "seconds_per_token": round(row["step_seconds"], 6),
            } for row in bench["decode"]],
        })
    json.dump(result, sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
