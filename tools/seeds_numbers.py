"""seeds_numbers.py - reads the output of tools/seeds.py slim, and computes intervals of shares, means and paired
differences."""
import json
import math
import sys

# Student's t: 97.5 % for 1, 2, ... degrees of freedom
T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
     2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)
Z = 1.959964
NOTHING = 1e-9  # differences below it are rounding errors


def student(degrees):
    return T[degrees - 1] if degrees <= len(T) else Z + 2.45 / degrees


def mean(numbers):
    return sum(numbers) / len(numbers)


def deviation(numbers):
    middle = mean(numbers)
    return math.sqrt(sum((x - middle) ** 2 for x in numbers) / (len(numbers) - 1)) if len(numbers) > 1 else 0.0


def wilson(share, count):
    middle = (share + Z * Z / (2 * count)) / (1 + Z * Z / count)
    half = Z / (1 + Z * Z / count) * math.sqrt(share * (1 - share) / count + Z * Z / (4 * count * count))
    return max(0.0, middle - half), min(1.0, middle + half)


def interval(numbers, share):
    """Returns the 95 % interval of the mean. share: the numbers are between 0 and 1; then the interval has a width even
    if they are all equal."""
    spread = deviation(numbers)
    if share and (spread < NOTHING or set(numbers) <= {0, 1}):
        return wilson(mean(numbers), len(numbers))
    half = student(len(numbers) - 1) * spread / math.sqrt(len(numbers)) if len(numbers) > 1 else math.inf
    low, high = mean(numbers) - half, mean(numbers) + half
    return (max(0.0, low), min(1.0, high)) if share and min(numbers) >= 0 else (low, high)


def correlation(a, b):
    if deviation(a) < NOTHING or deviation(b) < NOTHING:
        return 0.0
    middle = mean(a), mean(b)
    return mean([(x - middle[0]) * (y - middle[1]) for x, y in zip(a, b)]) / (
        deviation(a) * deviation(b)) * len(a) / (len(a) - 1)


def newcombe(a, b):
    """Returns the interval of paired shares (Newcombe 1998, method 10 without its correction), from both Wilson
    intervals."""
    p, q, phi = mean(a), mean(b), correlation(a, b)
    (p_low, p_high), (q_low, q_high) = wilson(p, len(a)), wilson(q, len(b))
    reach = lambda x, y: math.sqrt(max(0.0, x * x - 2 * phi * x * y + y * y))
    return p - q - reach(p - p_low, q_high - q), p - q + reach(p_high - p, q - q_low)


def paired(a, b, share):
    """Returns the 95 % interval of the mean of a - b."""
    differences = [x - y for x, y in zip(a, b)]
    if share and (deviation(differences) < NOTHING or set(a) | set(b) <= {0, 1}):
        return newcombe(a, b)
    low, high = interval(differences, False)
    return (max(-1.0, low), min(1.0, high)) if share else (low, high)


class Data:
    """The results: rows[set, question, kv], and the fields that a set's rows have in common in heads[set]."""

    def __init__(self, path):
        self.heads, self.rows, self.first = {}, {}, {}
        try:
            with open(path, encoding="utf-8") as stream:
                lines = [json.loads(line) for line in stream]
        except (OSError, ValueError) as error:
            sys.exit(f"seeds.py: {path}: {error}; tools/seeds.py slim writes it")
        for line in lines:
            if "set" not in line:
                self.first = line
            elif "kv" in line:
                self.rows[line["set"], line["question"], line["kv"]] = line
            else:
                self.heads[line["set"]] = line

    def has(self, name, question, kv):
        return (name, question, kv) in self.rows

    def row(self, name, question, kv):
        """Returns a row. The full cache answers equally in both question modes, so it runs in only one."""
        if kv == "full" and question == "unseen":
            question = "seen"
        return self.rows.get((name, question, kv))

    def scores(self, name, question, kv, value=None):
        """Returns a number for each sample: the mean of its turns, or a further value; None: not run."""
        row = self.row(name, question, kv)
        if row is None:
            return None
        return row["values"][value] if value else [mean(turns) for turns in row["scores"]]

    def share(self, name, value=None):
        return self.heads[name]["task"] != "perplexity" and value not in ("KL", "output")
