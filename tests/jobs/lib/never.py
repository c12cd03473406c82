"""never.py BUILD FOLDER... - prints what no run of BUILD has reached in the sources of these folders: functions that
were never entered and, in the others, lines that were never run and branches that were never taken. BUILD was compiled
by gcc with --coverage; its folder must be one level below the sources' folder or deeper. A header's line counts as
reached if it was in any of the files that include it. Standard error gets a line of numbers for each folder."""
import json
import os
import subprocess
import sys

AT_ONCE = 20  # files for each run of gcov


def reports(build, folder):
    """Yields gcov's reports of the source files of a folder: for each file, one from every object that contains a part
    of it."""
    notes = [os.path.join(at, name) for at, _, names in os.walk(os.path.join(build, folder)) for name in sorted(names)
             if name.endswith(".gcno")]
    for i in range(0, len(notes), AT_ONCE):
        said = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", *notes[i:i + AT_ONCE]],
                              cwd=build, check=False, capture_output=True, text=True)
        if said.returncode:  # the counts belong to another build
            sys.exit(said.stderr)
        for line in said.stdout.splitlines():
            yield from json.loads(line)["files"]


class File:
    """The counts of one source file, added up over the objects that contain it."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.text = file.read().split("\n")
        self.lines = {}  # line number: how often the line was run
        self.branches = {}  # line number: {number of branches in an object: how often each branch was taken}
        self.functions = {}  # (first line, last line): how often the function was entered, and its name

    def add(self, report):
        for function in report["functions"]:
            entered = self.functions.setdefault((function["start_line"], function["end_line"]), [0, function["name"]])
            entered[0] += function["execution_count"]
        for line in report["lines"]:
            number = line["line_number"]
            if "KVC_ASSERT" in self.text[number - 1]:  # no test can violate an invariant
                continue
            self.lines[number] = self.lines.get(number, 0) + line["count"]
            taken = [branch["count"] for branch in line["branches"]]
            if taken:
                sums = self.branches.setdefault(number, {}).setdefault(len(taken), [0] * len(taken))
                for i, count in enumerate(taken):
                    sums[i] += count

    def never(self):
        """Returns (line, what) for everything that was never reached, and how many lines were run and not run."""
        found, dead = [], set()
        for (first, last), (entered, name) in self.functions.items():
            if entered == 0:
                found.append((first, f"never entered: {name}"))
                dead.update(range(first, last + 1))
        before = None
        for number in sorted(self.lines):
            if self.lines[number] == 0 and number not in dead:
                if before is None or number > before + 1:
                    found.append((number, f"never run: {self.text[number - 1].strip()}"))
                before = number
            missed = [sum(count == 0 for count in taken) for taken in self.branches.get(number, {}).values()]
            if self.lines[number] and missed and min(missed):
                found.append((number, f"branches never taken, {min(missed)}: {self.text[number - 1].strip()}"))
        run = sum(count > 0 for count in self.lines.values())
        return sorted(found), run, len(self.lines) - run


def main(build, folders):
    build = os.path.abspath(build)
    for folder in folders:
        files = {}
        for report in reports(build, folder):
            path = os.path.relpath(os.path.join(build, report["file"]))
            if path.startswith(folder + "/"):
                files.setdefault(path, File(path)).add(report)
        run = missed = 0
        for path in sorted(files):
            found, lines_run, lines_missed = files[path].never()
            run, missed = run + lines_run, missed + lines_missed
            for line, what in found:
                print(f"{path}:{line}: {what}")
        print(f"    {folder}: {run} of {run + missed} lines run, {100 * run / (run + missed):.1f} %", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
