"""never.py BUILD FOLDER... - prints "FILE:LINE: FUNCTION" for each function of these folders that no run of BUILD has
entered. BUILD was compiled by gcc with --coverage; its folder must be one level below the sources' folder or deeper."""
import json
import os
import subprocess
import sys

build, folders = os.path.abspath(sys.argv[1]), sys.argv[2:]
entered, where = {}, {}
for folder in folders:
    for at, _, names in os.walk(os.path.join(build, folder)):
        notes = [os.path.join(at, name) for name in names if name.endswith(".gcno")]
        if not notes:
            continue
        said = subprocess.run(["gcov", "--json-format", "--stdout", *notes], cwd=build, check=True, capture_output=True,
                              text=True).stdout
        for line in said.splitlines():
            for file in json.loads(line)["files"]:
                path = os.path.relpath(os.path.join(build, file["file"]))
                if not path.endswith(".c") or not path.startswith(tuple(folders)):
                    continue
                for function in file["functions"]:
                    key = path, function["name"]
                    entered[key] = entered.get(key, 0) + function["execution_count"]
                    where[key] = function["start_line"]
for (path, name), count in sorted(entered.items()):
    if count == 0:
        print(f"{path}:{where[path, name]}: {name}")
