"""Scores of answers, by the benchmarks' own published rules. Each is from 0 to 1.

A score of two texts is a function (answer, truth). `best` takes the best of several right answers. ROUGE of the package
rouge-score is computed by that package; the rules of the benchmarks' scripts are written out here.
tests/data/metrics.json has scores that the scripts themselves gave (tests/golden/golden_metrics.py).
"""
from __future__ import annotations

import ast
import csv
import difflib
import functools
import math
import re
import string
from collections import Counter
from typing import Callable, Dict, Iterable, List, Sequence, Tuple

Score = Callable[[str, str], float]


def best(score: Score, answer: str, truths: Iterable[str]) -> float:
    """Returns the best score among the right answers; 0 if there are none."""
    return max((score(answer, truth) for truth in truths), default=0.0)


def f1(answer: Sequence[str], truth: Sequence[str]) -> float:
    """Returns 2PR / (P + R) of two lists of words as multisets, with P the precision and R the recall."""
    same = sum((Counter(answer) & Counter(truth)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(answer), same / len(truth)
    return 2 * precision * recall / (precision + recall)


def normal_words(text: str) -> List[str]:
    """Returns words in lower case, without ASCII punctuation and articles."""
    plain = "".join(character for character in text.lower() if character not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", plain).split()


def first_line(answer: str) -> str:
    """Returns the first line after empty lines, to which few-shot tasks are limited."""
    return answer.lstrip("\n").split("\n")[0]


def contains_all(answer: str, truths: Sequence[str]) -> float:
    """Returns the share of the right answers that the answer contains, in any case."""
    return sum(truth.lower() in answer.lower() for truth in truths) / len(truths) if truths else 0.0


def contains_any(answer: str, truths: Sequence[str]) -> float:
    """Returns 1 if the answer contains one of the right answers, in any case."""
    return float(contains_all(answer, truths) > 0)


# ---- LongBench ----

CHINESE_MARKS = frozenset("！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』【】〔〕〖〗〘〙〚〛〜〝"
                          "〞〟〰〾〿–—‘’‛“”„‟…‧﹏.") | frozenset(string.punctuation)


def word_f1(answer: str, truth: str) -> float:
    """F1 of words, without punctuation and articles."""
    return f1(normal_words(answer), normal_words(truth))


def chinese_words(text: str) -> List[str]:
    """Returns single characters, and runs of ASCII letters and digits. LongBench's script asks jieba instead."""
    return re.findall(r"[A-Za-z0-9]+|[\s\S]", text)


def normal_chinese(text: str) -> str:
    """Returns a text in lower case without punctuation and white space."""
    return "".join("".join(c for c in text.lower() if c not in CHINESE_MARKS).split())


def chinese_f1(answer: str, truth: str) -> float:
    """F1 of Chinese words."""
    a, b = ([word for word in map(normal_chinese, chinese_words(text)) if word] for text in (answer, truth))
    return f1(a, b)


def _sequence(x: Sequence[str], y: Sequence[str]) -> List[str]:
    """Returns a longest common subsequence. Among equally long ones, returns the one that the package rouge finds."""
    table = [[0] * (len(y) + 1)]
    for word in x:
        row, above = [0], table[-1]
        for j, other in enumerate(y):
            row.append(above[j] + 1 if word == other else max(above[j + 1], row[j]))
        table.append(row)
    i, j, found = len(x), len(y), []
    while i and j:
        if x[i - 1] == y[j - 1]:
            found.append(x[i - 1])
            i, j = i - 1, j - 1
        elif table[i - 1][j] > table[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return found


def rouge(answer: str, truth: str) -> float:
    """ROUGE-L as the package rouge 1.0.1 defines it: sentences end at full stops, and every word counts once.

    It is written out here because the package recurses once for each word and fails on long sentences.
    """
    a, b = ([sentence.split() or [""] for sentence in text.split(".") if sentence] for text in (answer, truth))
    if not a or not b:
        return 0.0
    common = {word for one in b for other in a for word in _sequence(one, other)}
    recall, precision = len(common) / len(set().union(*b)), len(common) / len(set().union(*a))
    return 2.0 * ((precision * recall) / (precision + recall + 1e-8))


def chinese_rouge(answer: str, truth: str) -> float:
    """ROUGE-L of Chinese words."""
    return rouge(" ".join(chinese_words(answer)), " ".join(chinese_words(truth)))


def class_share(answer: str, truth: str, classes: Sequence[str]) -> float:
    """Returns 1 / (number of classes in the answer) if the right class is among them.

    Classes whose names are parts of the right class do not count. Of two such classes in a row, LongBench's script
    skips the second.
    """
    found = [name for name in classes if name in answer]
    for name in found:  # the loop changes the list while it runs over it, as the script does
        if name in truth and name != truth:
            found.remove(name)
    return 1 / len(found) if truth in found else 0.0


def _numbers_share(answer: str, wanted: str) -> float:
    numbers = re.findall(r"\d+", answer)
    return numbers.count(wanted) / len(numbers) if numbers else 0.0


def count(answer: str, truth: str) -> float:
    """Returns the share of the numbers in the answer that are right."""
    return _numbers_share(answer, truth)


def retrieval(answer: str, truth: str, word: str = "Paragraph ") -> float:
    """Like `count`, for the number of the paragraph in the truth."""
    numbers = re.findall(word + r"(\d+)", truth)
    return _numbers_share(answer, numbers[0]) if numbers else 0.0


chinese_retrieval = functools.partial(retrieval, word="段落")


def code_similarity(answer: str, truth: str) -> float:
    """Similarity 2M / T of the first line of code, in hundredths. M: the length of difflib's matching blocks."""
    lines = answer.lstrip("\n").split("\n")
    line = next((line for line in lines if not any(mark in line for mark in ("`", "#", "//"))), "")
    return round(100 * difflib.SequenceMatcher(None, line, truth).ratio()) / 100


# ---- LongBench v2 ----


def choice(answer: str, truth: str) -> float:
    """Compares the letter after "The correct answer is". A letter in parentheses has precedence."""
    text = answer.replace("*", "")
    found = re.search(r"The correct answer is \(([A-D])\)", text) or re.search(r"The correct answer is ([A-D])", text)
    return float(bool(found) and found.group(1) == truth)  # type: ignore[union-attr]


# ---- InfiniteBench ----


def _blanked(text: str, marks: str) -> str:
    return text.translate({ord(mark): " " for mark in marks})


def infinite_value(answer: str, truth: str) -> float:
    """Returns 1 if the truth is a word of the answer."""
    return float(truth in _blanked(answer, "\n:\"'.,?!{}").split())


def infinite_speaker(answer: str, truth: str) -> float:
    """Returns 1 if the truth is a word of the answer in capitals."""
    return float(truth in (word.upper() for word in _blanked(answer, "\n:\"'.,?!{}").split()))


def infinite_number(answer: str, truth: str) -> float:
    """Returns 1 if the truth is the answer's first run of digits."""
    found = re.search(r"[0-9]+", answer)
    return float(found.group() == truth if found else truth == "")


def infinite_run(answer: str, truth: str) -> float:
    """Returns 1 if the answer's last word equals the truth, a whole number."""
    words = _blanked(answer.strip(), "\n.`'\":").split()
    try:
        return float(bool(words) and int(words[-1]) == int(truth))
    except ValueError:
        return 0.0


def infinite_find(answer: str, truth: str) -> float:
    """Returns 1 if the answer's first number equals the truth. If the truth is a whole number, the script accepts no
    decimal point."""
    found = re.search(r"[0-9]+\.[0-9]+|[0-9]+", answer)
    if not found:
        return 0.0
    whole = not any(mark in truth for mark in ".eE")
    if whole and "." in found.group():
        return 0.0
    return float(int(found.group()) == int(truth) if whole else float(found.group()) == float(truth))


def infinite_steps(answer: str, truths: Sequence[str]) -> float:
    """Returns the fraction of numbers that are right, from the beginning up to the first wrong one."""
    right = 0
    for number, truth in zip(re.findall(r"[0-9]+", answer), truths):
        if int(number) != int(truth):
            break
        right += 1
    return right / len(truths) if truths else 0.0


def _after_phrase(text: str, phrases: Sequence[str], truths: Sequence[str]):
    """Returns whether a right answer begins one character after the first of the phrases that occurs; None if none
    occurs."""
    for phrase in phrases:
        at = text.find(phrase)
        if at >= 0:
            end = at + len(phrase) + 1
            return len(text) >= end and any(text[end:].startswith(truth) for truth in truths)
    return None


def infinite_option(answer: str, truths: Sequence[str]) -> float:
    """`truths` are the option's text and its letter."""
    text = answer.strip()
    if text[:1] and text[0] in "ABCD":
        return float(text[0] in truths)
    if text in truths:
        return float(text != "")
    text = re.sub(" +", " ", _blanked(text, "\n\"'.,?!{}"))
    found = _after_phrase(text, ("answer is:", "answer:", "answer is", "option is"), truths)
    if found is not None:
        return float(found)
    word = next((word for word in text.split() if word in "ABCD"), None)
    return float(word in truths)


def infinite_bug(answer: str, truths: Sequence[str]) -> float:
    """Like `infinite_option`, for the function that has a bug."""
    text = answer.strip()
    if len(text) > 1 and len(truths) > 1 and text[0] == truths[1] and text[1] in ".:":
        return 1.0
    text = _blanked(text, "\n`'\"-*").replace("Option", " ").replace("option", " ")
    phrases = ("answer is:", "is:", "answer:", "correct option is:")
    return float(_after_phrase(re.sub(" +", " ", text), phrases, truths) is True)


def character_f1(answer: str, truth: str) -> float:
    """F1 of characters, without punctuation and white space."""
    return f1(list(normal_chinese(answer)), list(normal_chinese(truth)))


@functools.lru_cache(maxsize=None)
def _rouge_scorer(kind: str, stems: bool):
    """Returns a scorer of the package rouge-score."""
    try:
        from rouge_score import rouge_scorer
    except ImportError as error:
        raise ImportError("ROUGE of this task needs the package rouge-score: pip install rouge-score") from error
    return rouge_scorer.RougeScorer([kind], use_stemmer=stems)


def rouge_sum(answer: str, truth: str) -> float:
    """ROUGE-Lsum of the package rouge-score; a sentence is a line."""
    return float(_rouge_scorer("rougeLsum", False).score(truth, answer)["rougeLsum"].fmeasure)


# ---- HELMET ----


def _helmet_line(answer: str, prefix: str) -> str:
    """Returns the rest of the line after the prefix or, if the prefix is absent, the first line."""
    found = re.search(re.escape(prefix) + "([^\n]*)", answer, re.IGNORECASE)
    line = (found.group(1) if found else answer.split("\n")[0]).strip()
    return line[len(prefix):].strip() if line.lower().startswith(prefix.lower()) else line


def helmet(score: Score, answer: str, truths: Iterable[str], prefix: str = "Answer:") -> float:
    """Returns the better of two scores: that of the whole answer and that of the line after the prefix. Each is the
    best over all right answers."""
    line = _helmet_line(answer, prefix)
    return max((score(text, truth) for truth in truths for text in (line, answer)), default=0.0)


def exact(answer: str, truth: str) -> float:
    """Returns 1 if both are equal without punctuation and articles."""
    return float(normal_words(answer) == normal_words(truth))


def part(answer: str, truth: str) -> float:
    """Returns 1 if the answer contains the truth, both without punctuation and articles."""
    return float(" ".join(normal_words(truth)) in " ".join(normal_words(answer)))


def closed_f1(answer: str, truth: str) -> float:
    """F1 of words. "yes", "no" and "noanswer" are right only if they are the whole answer."""
    a, b = " ".join(normal_words(answer)), " ".join(normal_words(truth))
    if a != b and {a, b} & {"yes", "no", "noanswer"}:
        return 0.0
    return word_f1(answer, truth)


def rouge_l(answer: str, truth: str) -> float:
    """ROUGE-L of word stems, computed by the package rouge-score."""
    return float(_rouge_scorer("rougeL", True).score(truth, answer)["rougeL"].fmeasure)


def rouge_l_recall(answer: str, truth: str) -> float:
    """The recall of `rouge_l`."""
    return float(_rouge_scorer("rougeL", True).score(truth, answer)["rougeL"].recall)


def masks(answer: str, names: Dict[str, str]) -> float:
    """LooGLE's exact match: the fraction of masks for which the answer, a JSON object, gives the right name; 0 if the
    answer is not an object."""
    try:
        given = ast.literal_eval(answer.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return 0.0
    if not isinstance(given, dict) or not names:
        return 0.0
    return sum(given.get(mask) == name for mask, name in names.items()) / len(names)


def ndcg(answer: str, gains: dict) -> float:
    """NDCG@10 of the ranking "ID3 > ID1 > ...", to five decimals. gains: relevance by document id."""
    text = re.sub(r"[\[\]:]", "", answer).lower().replace("id", "")
    rows = [found.group() for found in re.finditer(r"\d+(?:\s*>\s*\d+)*", text)]
    row = max(rows, key=len, default="")
    ranked = [name for name in dict.fromkeys(name.strip() for name in row.split(">")) if name][:10]
    made = sum(max(gains.get(name, 0), 0) / math.log2(rank + 2) for rank, name in enumerate(ranked))
    ideal = sum(max(gain, 0) / math.log2(rank + 2) for rank, gain in enumerate(sorted(gains.values(), reverse=True)[:10]))
    return round(made / ideal, 5) if ideal > 0 else 0.0


# ---- long answers: LongWriter, LongGenBench, LongProc ----


def length(answer: str, wanted: int) -> float:
    """LongWriter's score of the length y for a requested x: 1 - (y/x - 1)/3 if y is larger, 1 - (x/y - 1)/2 if it is
    smaller."""
    made = len(re.findall(r"[\u4e00-\u9fff]", answer)) + len(re.findall(r"\b[a-zA-Z]+\b", answer))
    if made == 0 or wanted <= 0:
        return 0.0
    return max(0.0, 1 - (made / wanted - 1) / 3 if made > wanted else 1 - (wanted / made - 1) / 2)


def completion(answer: str, kind: str, number: int) -> float:
    """LongGenBench: returns the share of the pieces 1 to `number` that exist. A piece begins with #*# and has "KIND
    n"."""
    found = (re.search(re.escape(kind) + r" (\d+)", piece) for piece in answer.split("#*#"))
    there = {int(one.group(1)) for one in found if one}
    return len(there & set(range(1, number + 1))) / number if number else 0.0


def _tagged(answer: str, tag: str):
    start, end = answer.find(f"<{tag}>"), answer.find(f"</{tag}>")
    return None if start < 0 or end < 0 else answer[start + len(tag) + 2:end].strip()


def route(answer: str, truth: str) -> Tuple[float, float]:
    """LongProc's path_traversal: whether the route is right, and the share of lines up to the first wrong one."""
    made, wanted = _tagged(answer, "Route"), truth.strip()
    if made is None:
        return 0.0, 0.0
    a, b = made.split("\n"), wanted.split("\n")
    same = next((i + 1 for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return float(made == wanted), 1.0 if made == wanted else same / len(b)


_BELIEF_WORDS = frozenset("a an the on in at step thinks think believes believe is are of location know knows "
                          "belief".split())


def _beliefs(text: str) -> List[str]:
    made = []
    for line in text.strip().splitlines():
        if line.startswith("-"):
            plain = "".join(c for c in line[1:].lower() if c not in string.punctuation + "\u2019")
            words = re.sub(r"\b(%s)\b" % "|".join(sorted(_BELIEF_WORDS)), " ", plain).split()
            made += [" ".join(words)] if words else []
    return made


def beliefs(answer: str, truth: str) -> Tuple[float, float]:
    """LongProc's tom_tracking: whether all steps are right, and the share before the first wrong one."""
    made, wanted = _beliefs(answer), _beliefs(truth)
    same = next((i for i, (x, y) in enumerate(zip(made, wanted)) if x != y), min(len(made), len(wanted)))
    right = made == wanted
    return float(right), 1.0 if right else same / len(wanted) if wanted else 0.0


def _table(text: str):
    """Returns a table's rows without the header, each a tuple of normalized fields; None: not a table."""
    try:
        rows = list(csv.reader(text.strip().split("\n"), delimiter="\t"))
    except csv.Error:
        return None
    if len(rows) < 2 or len(set(rows[0])) != len(rows[0]):
        return None
    width = len(rows[0])
    if len(rows[-1]) != width:  # the answer was cut within this row
        rows.pop()
    made = [tuple("".join(normal_words(field)) for field in (row if len(row) == width else ["N/A"] * width))
            for row in rows[1:]]
    return made if made and width else None


def table(answer: str, truth: str) -> float:
    """LongProc's html_to_tsv: F1 of complete rows, in any order."""
    start = answer.find("```tsv")
    if start >= 0:
        answer = answer[start + 6:]
        end = answer.rfind("```")
        answer = answer[:end] if end >= 0 else answer
    a, b = _table(answer), _table(truth)
    if not a or not b or len(a[0]) != len(b[0]):
        return 0.0
    precision, recall = sum(row in b for row in a) / len(a), sum(row in a for row in b) / len(b)
    return 2 * recall * precision / (recall + precision) if precision + recall > 0 else 0.0


def _sum(line: str):
    """Returns (a, operation, b, c) of "a + b = c"; None: not such a line."""
    found = re.fullmatch(r"([^=]*)=([^=]*)", line)
    operation = found and next((sign for sign in "+-*/" if sign in found.group(1)), None)
    parts = found.group(1).split(operation) if found and operation else []
    if not found or len(parts) != 2:
        return None
    literals = [re.fullmatch(r"\s*([+-]?(?:0|[1-9]\d{0,16}))\s*", side, re.ASCII) for side in parts]
    result = re.fullmatch(r"\s*([+-]?\d{1,17})\s*", found.group(2), re.ASCII)
    if not all(literals) or not result:
        return None
    a, b = (int(one.group(1)) for one in literals if one)
    return a, operation, b, int(result.group(1))


def countdown(answer: str, numbers: Sequence[int], target: int) -> float:
    """LongProc's countdown: three right sums, each of numbers that are left, the last one with the target."""
    text, left = _tagged(answer, "Solution"), list(numbers)
    lines = [_sum(line) for line in (text or "").split("\n")]
    if text is None or len(lines) != 3:
        return 0.0
    for line in lines:
        if line is None:
            return 0.0
        a, operation, b, made = line
        right = {"+": a + b == made, "-": a - b == made, "*": a * b == made, "/": b != 0 and made * b == a}[operation]
        if not right:
            return 0.0
        for number in (a, b):
            if number not in left:
                return 0.0
            left.remove(number)
        left.append(made)
    return float(left[0] == target)
