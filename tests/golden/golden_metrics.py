#!/usr/bin/env python3
"""Makes tests/data/metrics.json: scores of texts, computed by the benchmarks' own scripts.

    python3 tests/golden/golden_metrics.py REPOSITORIES >tests/data/metrics.json

REPOSITORIES is a folder with the official repositories under the names LongBench, HELMET, InfiniteBench, LongWriter,
LongGenBench and LongProc (github.com/THUDM/LongBench, princeton-nlp/HELMET, OpenBMB/InfiniteBench, THUDM/LongWriter,
mozhu621/LongGenBench, princeton-pli/LongProc). Only their functions run, not their programs. Needs the packages
rouge, rouge_score, fuzzywuzzy, pytrec_eval (or pytrec_eval-terrier), numpy and pandas.

Two functions are replaced: jieba.cut returns characters, and runs of ASCII letters and digits.
evaluate.load("rouge") calls rouge_score directly, because evaluate would download its metric.
"""
import ast
import contextlib
import importlib.metadata
import io
import json
import pathlib
import re
import sys
import types

sys.setrecursionlimit(1 << 20)  # the package `rouge` recurses once for each word

LONG = "The lamp keeper of the northern pier wrote the numbers of every ship into a thick blue book. " * 12
CODE = "".join(f"    total_{i} = total_{i - 1} + table[index_{i % 7}][{i}]; " for i in range(1, 14))
TEXTS = [
    "", " ", ".", "...", "a", "The", "a an the", "Yes", "no", "no answer", "The harbour master, of Kettle Bay.",
    "harbour master of kettle bay", "The HARBOUR-master's log: 12 ships; 3 boats.", "ships ships boats\tboats  ships",
    "Answer: the old bridge\nIt was built in 1871.", "answer:  Answer: The old bridge ",
    "The old bridge was closed. It is being repaired. The road over it is closed, too.",
    "The road is closed. The old bridge is being repaired. It was closed in May.",
    "They repaired the bridges, hoping travellers would happily return; the relational agencies conformed.",
    "Repairing a bridge makes a traveller hopeful and happier . Relations of the agency conform.",
    "first line of words\nsecond line, with other words\nthird line of the same words",
    "second line with words\n\nfirst line of other words\nof the same third line",
    "\u0130stanbul \u03a3\u03a3\u0391\u03a3 Stra\u00dfe na\u00efve l\u2019a\u00e9ro caf\u00e9\u00a0cr\u00e8me\u3000end",
    "i\u0307stanbul \u03c3\u03c3\u03b1\u03c2 STRASSE naive l'aero cafe creme end",
    "\u216b \u00bd x\u00b2 _a_ __ 3\u0663",
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u53bb\u6e2f\u53e3\u770b\u8239\u3002",
    "\u5929\u6c14\u597d\u3002 \u6211\u4eec\u5728 harbour 12 \u53f7\u770b\u300a\u8239\u300b!",
    "\u6bb5\u843d12\uff0c\u6bb5\u843d 3", "Paragraph 12, or paragraph 3?", "12", "3 12 12 4",
    "def add(a, b):", "\n\n# a note\n    return a + b // 2\n    return a + b", "return a + b",
    LONG, LONG.replace("ship", "boat")[200:900], CODE, CODE.replace("table", "cable")[::-1][60:],
]
STEMS = """caresses ponies ties dies died ied cats feed agreed plastered bled motoring sing conflated troubled sized
hopping tanned falling hissing fizzed failing filing happy sky skies dying lying tying news inning innings outing cannings
howe proceed exceed succeed say by enjoy enjoyed relational conditional rational valenci hesitanci digitizer conformabli
radicalli differentli vileli analogousli vietnamization predication operator feudalism decisiveness hopefulness
callousness formaliti sensitiviti sensibiliti triplicate formative formalize electriciti electrical hopeful goodness
revival allowance inference airliner gyroscopic adjustable defensible irritant replacement adjustment dependent adoption
homologou communism activate angulariti homologous effective bowdlerize probate rate cease controll roll yyyy y1871 yes
yyield geologi fulli gracefulli principalli alli generally abilities oed ied1 owed using aing eed bleed 1ing tttt oxen
syzygy crying cried flies fly boxes buses ion onion passion adhesion lion""".split()


def functions(path, also=None):
    """Loads the functions of a script: only its definitions, its constants, and the imports that are available."""
    space = {"__name__": "golden", **(also or {})}
    tree = ast.parse(pathlib.Path(path).read_text(encoding="utf-8"))
    for node in tree.body:
        wanted = isinstance(node, (ast.FunctionDef, ast.Import, ast.ImportFrom, ast.ClassDef))
        if isinstance(node, ast.Assign):
            name = getattr(node.targets[0], "id", "")
            wanted = name.startswith("_") or name.isupper()
        if not wanted:
            continue
        with contextlib.suppress(ImportError, NameError, AttributeError):
            exec(compile(ast.Module([node], []), str(path), "exec"), space)
    return space


def characters(text, cut_all=False):
    return re.findall(r"[A-Za-z0-9]+|[\s\S]", text)


class Rouge:  # evaluate's metric "rouge", for one text
    def compute(self, predictions, references, use_aggregator):
        from rouge_score import rouge_scorer
        scorer = rouge_scorer.RougeScorer(["rougeLsum"], use_stemmer=False)
        several = isinstance(references[0], list)
        score = scorer.score_multi if several else scorer.score
        return {"rougeLsum": [score(r, p)["rougeLsum"].fmeasure for r, p in zip(references, predictions)]}


def load(root):
    for name in ("torch", "transformers", "datasets", "openai", "tiktoken", "vllm", "matplotlib", "requests"):
        sys.modules[name] = None  # the functions used here do not need them
    for name in ("jieba", "evaluate", "args"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["jieba"].cut = characters
    sys.modules["evaluate"].load = lambda name: Rouge()
    sys.modules["args"].parse_args = None
    longproc = root / "LongProc" / "longproc"
    scripts = {
        "longbench": functions(root / "LongBench/LongBench/metrics.py"),
        "longbench2": functions(root / "LongBench/pred.py"),
        "infinite": functions(root / "InfiniteBench/src/compute_scores.py"),
        "helmet": functions(root / "HELMET/utils.py"),
        "length": {**functions(root / "LongWriter/evaluation/pred.py"),
                   **functions(root / "LongWriter/evaluation/eval_length.py")},
        "completion": functions(root / "LongGenBench/Evalution/eval.py"),
    }
    parts = {}
    for path in sorted(longproc.glob("*_evaluator.py")):
        parts.update(functions(path))
    scripts["process"] = functions(longproc / "longproc_data.py", parts)
    return scripts


def short(score):
    score = round(float(score), 11)
    return int(score) if score == int(score) else score


def pairs(scripts):
    """Returns, for every metric of two texts, the scores of all pairs: one row for each answer."""
    bench, infinite, helmet = scripts["longbench"], scripts["infinite"], scripts["helmet"]

    def of_helmet(name):
        def score(answer, truth):
            parsed = helmet["calculate_metrics"](helmet["parse_output"](answer), truth)[name]
            return max(helmet["calculate_metrics"](answer, truth)[name], parsed)
        return score

    metrics = {
        "word_f1": bench["qa_f1_score"], "chinese_f1": bench["qa_f1_zh_score"], "rouge": bench["rouge_score"],
        "chinese_rouge": bench["rouge_zh_score"], "count": bench["count_score"],
        "code_similarity": bench["code_sim_score"],
        "character_f1": lambda a, t: infinite["qa_f1_score_zh"](a, [t]),
        "rouge_sum": lambda a, t: infinite["get_score_one_longbook_sum_eng"](a, [t], ""),
        "infinite_value": lambda a, t: infinite["get_score_one_kv_retrieval"](a, t, ""),
        "infinite_speaker": lambda a, t: infinite["get_score_one_longdialogue_qa_eng"](a, [t], ""),
        "infinite_number": lambda a, t: infinite["get_score_one_passkey"](a, [t], ""),
        "helmet_exact": of_helmet("exact_match"), "helmet_part": of_helmet("substring_exact_match"),
        "helmet_f1": of_helmet("f1"), "helmet_rouge": of_helmet("rougeL_f1"),
        "helmet_rouge_recall": of_helmet("rougeL_recall"),
    }
    return {name: [[short(metric(a, t)) for t in TEXTS] for a in TEXTS] for name, metric in metrics.items()}


CLASSES = ["Food", "Food and drink", "Drink", "Drink made of food", "Other", "\u98df\u54c1"]
CLASS_ANSWERS = ["Food", "Food and drink", "drink", "Drink", "Drink made of food, or Food and drink", "Other Food",
                 "", "\u98df\u54c1 Food", "Drink made of food"]
CHOICES = ["The correct answer is (B)", "The correct answer is B", "**The correct answer is (C)**", "B", "",
           "The correct answer is B, no: The correct answer is (C).", "the correct answer is (B)",
           "The correct answer is (E) The correct answer is D", "The correct answer is (B",
           "The correct answer is  (B)",
           "The correct answer is The correct answer is (B)", "The correct answer is *(*B*)*"]
RETRIEVALS = [("Paragraph 12", "Paragraph 12"), ("It is paragraph 12, not 13", "Paragraph 12"), ("", "Paragraph 12"),
              ("12 12 3", "x Paragraph x Paragraph 12 Paragraph 3"), ("012", "Paragraph 12"),
              ("\u6bb5\u843d7", "\u6bb5\u843d7"), ("\u7b2c7\u6bb5\uff0c8", "\u6bb5\u843d7"),
              ("\u0667", "Paragraph \u0667")]
OPTIONS = ["A", "A. north", "north", " north pier ", "B north", "The answer is: B", "The answer is: A. x", "answer:",
           "answer is", "I think option is  A", "It is neither A nor B", "It is AB", "", "\n", "The answer is north",
           "answer: north pier", "\"A\"", "D", "(A)", "is: north", "ABCD", "answer is:\nA"]
BUGS = ["A.", "A: x", "A", " A. f", "The correct option is: A", "answer is: fix_all", "is:A", "is: B",
        "Option A is:  A",
        "is:", "The answer: `fix_all`", "answer:", "OptionA. correct option is:-A", "", "is: fix_al"]
RUNS = ["12", "-12", "the value is 12.", "12 apples", "", "`12`", "x: -0", "1_2", "+12", "1__2", "\u00bd", "'-12'",
        "12."]
FINDS = ["12", "the 12.0", "x12.5y", ".5", "", "-12", "12.", "12.5.6", "0012"]
STEPS = ["[1, 2, 3]", "1 2 x 4", "1, 02, 3, 4", "", "2 1", "1-2-3-4-5", "1 2 -3"]
RANKINGS = ["3 > 1 > 2", "Ranking: [ID: 3] > [ID: 1]>[ID: 2]", "ID3 > ID1 > ID2 > ID3 > ID9", "", "none", "2",
            "5 > 4 and then 3 > 1 > 2 > 7", "1 >2> 3 >4>5>6>7>8>9>10>11>12", "12>11>10>9>8>7>6>5>4>3>2>1", "3 > > 1",
            "9 > 8 > 7 >\n6 > 5", "id id 44 > 3"]
GAINS = {"1": 3, "2": 0, "3": 1, "4": 2, "5": 0, "6": 1, "7": 0, "8": 3, "9": 2, "10": 0, "11": 1, "12": 0}
LENGTHS = [("", 10), ("one two three", 3), ("one two three", 9), ("one two three four", 3), ("a " * 50, 10),
           ("\u6e2f\u53e3 two x2 _y caf\u00e9 d'or", 4), ("word\u6e2f", 1), ("3.5 or 4", 2), ("x " * 30, 20)]
PIECES = [("#*# Week 1 x #*# Week 2 y", "Week", 3), ("#*# Week 1 Week 2 #*# Week 2", "Week", 2), ("", "Week", 2),
          ("Week 3 before #*# week 1 #*# Week  2 #*# Week 1st", "Week", 4),
          ("#*#Floor 10#*#Floor 11#*#Floor 0", "Floor", 10),
          ("#*# Week x Week 2 #*#*# Week 4 #*# Week 02", "Week", 4)]
ROUTE = "From Ada, take a bus to Bel.\nFrom Bel, take a train to Cor.\nFrom Cor, take a ferry to Dun."
ROUTES = [f"<Route>\n{ROUTE}\n</Route>", ROUTE, "", "<Route></Route>", "</Route> <Route>", "<Route>" + ROUTE,
          f"<Route>{ROUTE.replace('train', 'bus')}</Route>", f"<Route>{ROUTE[:40]}</Route>",
          f"text <Route>\n {ROUTE}\nFrom Dun, take a bus to Eel.\n</Route> text </Route>"]
BELIEF = "On Ann's belief:\n- Step 0: (start) {Ann location: hall; cup location: shelf}\n" \
         "- Step 1: {Ann location: None}\n- Step 2: x"
BELIEFS = [BELIEF, BELIEF.lower(), "", "- ", "-Step 0 start Ann hall cup shelf", BELIEF + "\n- more", BELIEF[:-9],
           BELIEF.replace("None", "hall"), "  " + BELIEF[17:].replace("\n", "\n  "), BELIEF.replace("\n", "\r\n"),
           BELIEF.replace("'", "\u2019"), BELIEF.replace("- Step 1", " - Step 1"), "-\n" + BELIEF]
TABLE = "name\tprice\nThe Lamp\t12\nRope, blue\tN/A\n\"Tar \"\"best\"\"\"\t3.5\nLamp\t12"
TABLES = [f"```tsv\n{TABLE}\n```", TABLE, "", "name", "name\tprice", f"text ```tsv\n{TABLE}", "```tsv\n```",
          f"```tsv\n{TABLE}\nThat is all.\n```", "name\tprice\nlamp\t12\nrope blue\tna\nOther\t1\t2\nTar best\t35",
          "name\tname\nlamp\t12", "n\tp\tq\nlamp\t12\t1", "name\tprice\r\nThe Lamp\t12\r\n", "name\tprice\na\rb\t12\n",
          "name\tprice\n\"Rope,\nblue\"\tN/A\nlamp\t\"12", "name\tprice\n\nlamp\t12\n\n\"x\"y\t\"\"\nz\t1",
          "```tsv\nname\tprice\nlamp\t12\n```\n```tsv\nname\tprice\n```", "name\tprice\nlamp"]
SUMS = ["<Solution>\n21 + 16 = 37\n26 - 17 = 9\n37 + 9 = 46\n</Solution>", "21 + 16 = 37\n26 - 17 = 9\n37 + 9 = 46", "",
        "<Solution>21+16=37\n26-17=9\n37+9=46</Solution>", "<Solution>21+16=37\n26-17=9\n37+9=47</Solution>",
        "<Solution>21+16=37\n37+26=63\n63-17=46</Solution>", "<Solution>21+16=37\n16+26=42\n63-17=46</Solution>",
        "<Solution>21+16=37\n26-17=9</Solution>", "<Solution>16 - 21 = -5\n-5 + 26 = 21\n21 + 17 = 38</Solution>",
        "<Solution>46 = 46\n26-17=9\n37+9=46</Solution>", "<Solution>21+16=37=37\n26-17=9\n37+9=46</Solution>",
        "<Solution>21 * 16 = 336\n336 / 26 = 12\n12 + 17 = 29</Solution>", "</Solution><Solution>"]


def single(scripts):
    bench, infinite, helmet, process = (scripts[k] for k in ("longbench", "infinite", "helmet", "process"))
    cases = []

    def add(metric, answer, truths, score, **more):
        cases.append({"metric": metric, "answer": answer, "truths": truths, **more, "score": short(score)})

    for answer in CLASS_ANSWERS:
        for truth in CLASSES:
            add("class", answer, [truth], bench["classification_score"](answer, truth, all_classes=CLASSES))
    for answer, truth in RETRIEVALS:
        zh = "Paragraph" not in truth
        score = bench["retrieval_zh_score" if zh else "retrieval_score"](answer, truth)
        add("chinese_retrieval" if zh else "retrieval", answer, [truth], score)
    for answer in CHOICES:
        for truth in "BCD":
            add("choice", answer, [truth], scripts["longbench2"]["extract_answer"](answer.strip()) == truth)
    for answer in OPTIONS:
        add("infinite_option", answer, ["north pier", "A"],
            infinite["get_score_one_longbook_choice_eng"](answer, ["north pier", "A"], ""))
    for answer in BUGS:
        add("infinite_bug", answer, ["fix_all", "A"],
            infinite["get_score_one_code_debug"](answer, ["fix_all", "A"], ""))
    for answer in RUNS:
        for truth in (12, -12, 0):
            add("infinite_run", answer, [str(truth)], infinite["get_score_one_code_run"](answer, [truth], ""))
    for answer in FINDS:
        for truth in (12, 12.5, 12.0):
            with contextlib.suppress(ValueError):  # the script fails where a whole number is expected and another one is there
                add("infinite_find", answer, [repr(truth)], infinite["get_score_one_math_find"](answer, [truth], ""))
    for answer in STEPS:
        add("infinite_steps", answer, ["1", "2", "3", "4"],
            infinite["get_score_one_math_calc"](answer, [1, 2, 3, 4], ""))
    for answer in RANKINGS:
        ranked = {"q": helmet["parse_rankings"](answer)}
        scores = helmet["calculate_retrieval_metrics"](ranked, {"q": GAINS}, [1, 5, 10])
        add("ndcg", answer, list(GAINS), scores["NDCG@10"], gains=list(GAINS.values()))
    for answer, wanted in LENGTHS:
        count = scripts["length"]["count_words"](answer)
        score = scripts["length"]["score"](wanted, count) / 100 if count else 0  # the script would divide by zero
        add("length", answer, [], score, wanted=wanted)
    for answer, kind, number in PIECES:
        blocks = scripts["completion"]["parse_blocks"](answer.split("#*#"), kind)
        add("completion", answer, [kind], scripts["completion"]["calculate_completion_rate"](blocks, number) / 100,
            wanted=number)
    noise = io.StringIO()
    with contextlib.redirect_stdout(noise):
        for answer in ROUTES:
            score, _ = process["eval_path_traversal"](answer, {"reference_output": ROUTE})
            add("route", answer, [ROUTE], score["accuracy"], part=score["partial_accuracy"])
        for answer in BELIEFS:
            score, _ = process["eval_tom_tracking"](answer, {"reference_output": BELIEF})
            add("beliefs", answer, [BELIEF], score["accuracy"], part=score["partial_accuracy"])
        for answer in TABLES:
            score, _ = process["eval_html_to_tsv"](answer, {"reference_output": TABLE})
            add("table", answer, [TABLE], score["f1"])
        for answer in SUMS:
            item = {"nums": [21, 16, 17, 26], "target": 46, "reference_output": "# Search Procedure\nx\ny"}
            score, _ = process["eval_countdown"](answer, {"item": item})
            add("countdown", answer, [], score["accuracy"], numbers=item["nums"], wanted=item["target"])
    return cases


def main():
    from rouge_score import tokenize
    from nltk.stem.porter import PorterStemmer
    scripts = load(pathlib.Path(sys.argv[1]))
    stemmer = PorterStemmer()
    versions = {}
    for name in ("rouge", "rouge_score", "fuzzywuzzy", "nltk", "pytrec_eval", "pytrec_eval-terrier", "pandas"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    golden = {
        "versions": versions, "texts": TEXTS, "pairs": pairs(scripts), "single": single(scripts),
        "stems": [[word, tokenize.tokenize(word, stemmer)[0]] for word in STEMS],
    }
    # one row of scores, or one case, on each line
    text = json.dumps(golden, ensure_ascii=True, separators=(",", ":"))
    print(re.sub(r'(\],|\},)(?=[\[{"])', r"\1\n", text))


if __name__ == "__main__":
    main()
