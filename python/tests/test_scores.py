"""Every score against the benchmarks' own scripts on the same texts (tests/golden/golden_metrics.py)."""
import json

import pytest
from conftest import SOURCE

from kvcull.eval import scores

GOLDEN = json.loads((SOURCE / "tests" / "data" / "metrics.json").read_text(encoding="utf-8"))
TEXTS = GOLDEN["texts"]
CLASSES = ["Food", "Food and drink", "Drink", "Drink made of food", "Other", "\u98df\u54c1"]

#: Scores of two texts, by the name of the golden.
PAIRS = {
    "word_f1": scores.word_f1, "chinese_f1": scores.chinese_f1, "rouge": scores.rouge,
    "chinese_rouge": scores.chinese_rouge, "count": scores.count, "code_similarity": scores.code_similarity,
    "character_f1": scores.character_f1, "rouge_sum": scores.rouge_sum, "infinite_value": scores.infinite_value,
    "infinite_speaker": scores.infinite_speaker, "infinite_number": scores.infinite_number,
    "helmet_exact": lambda a, t: scores.helmet(scores.exact, a, [t]),
    "helmet_part": lambda a, t: scores.helmet(scores.part, a, [t]),
    "helmet_f1": lambda a, t: scores.helmet(scores.closed_f1, a, [t]),
    "helmet_rouge": lambda a, t: scores.helmet(scores.rouge_l, a, [t]),
    "helmet_rouge_recall": lambda a, t: scores.helmet(scores.rouge_l_recall, a, [t]),
}
#: Scores with further data: (answer, right answers, the golden's case).
SINGLE = {
    "class": lambda a, t, case: scores.class_share(a, t[0], CLASSES),
    "retrieval": lambda a, t, case: scores.retrieval(a, t[0]),
    "chinese_retrieval": lambda a, t, case: scores.chinese_retrieval(a, t[0]),
    "choice": lambda a, t, case: scores.choice(a, t[0]),
    "infinite_option": lambda a, t, case: scores.infinite_option(a, t),
    "infinite_bug": lambda a, t, case: scores.infinite_bug(a, t),
    "infinite_run": lambda a, t, case: scores.infinite_run(a, t[0]),
    "infinite_find": lambda a, t, case: scores.infinite_find(a, t[0]),
    "infinite_steps": lambda a, t, case: scores.infinite_steps(a, t),
    "ndcg": lambda a, t, case: scores.ndcg(a, dict(zip(t, case["gains"]))),
    "length": lambda a, t, case: scores.length(a, case["wanted"]),
    "completion": lambda a, t, case: scores.completion(a, t[0], case["wanted"]),
    "route": lambda a, t, case: scores.route(a, t[0]),
    "beliefs": lambda a, t, case: scores.beliefs(a, t[0]),
    "table": lambda a, t, case: scores.table(a, t[0]),
    "countdown": lambda a, t, case: scores.countdown(a, case["numbers"], case["wanted"]),
}


@pytest.mark.parametrize("name", sorted(GOLDEN["pairs"]))
def test_pairs(name):
    if name in ("rouge_sum", "helmet_rouge", "helmet_rouge_recall"):
        pytest.importorskip("rouge_score", reason="ROUGE of InfiniteBench and HELMET is computed by rouge-score")
    wrong = [(a, t, got, wanted) for a, row in zip(TEXTS, GOLDEN["pairs"][name]) for t, wanted in zip(TEXTS, row)
             if abs((got := PAIRS[name](a, t)) - wanted) > 1e-9]
    assert not wrong, f"{len(wrong)} wrong, such as {wrong[:3]}"


@pytest.mark.parametrize("name", sorted({case["metric"] for case in GOLDEN["single"]}))
def test_single(name):
    wrong = []
    for case in GOLDEN["single"]:
        if case["metric"] != name:
            continue
        got = SINGLE[name](case["answer"], case["truths"], case)
        got, share = got if isinstance(got, tuple) else (got, case.get("part"))
        if abs(got - case["score"]) > 1e-9 or (share is not None and abs(share - case["part"]) > 1e-9):
            wrong.append((case, got, share))
    assert not wrong, f"{len(wrong)} wrong, such as {wrong[:3]}"


def test_texts_for_which_the_scripts_stop():
    assert scores.first_line("\n\nfirst\nsecond") == "first"
    assert scores.contains_all("at KETTLE BAY", ["Kettle Bay", "the harbour"]) == 0.5
    assert scores.best(scores.word_f1, "harbour", ["Kettle Bay", "the harbour"]) == 1
    assert scores.best(scores.word_f1, "harbour", []) == 0 and scores.class_share("x", "x", []) == 0
    assert scores.length("", 0) == 0 and scores.completion("", "", 0) == 0
    assert scores.infinite_find("12.0", "12") == 0


def test_stems_are_those_of_the_golden():
    """ROUGE of InfiniteBench and HELMET counts stems. The golden data has the stems that the versions used by the
    scripts made."""
    tokenize = pytest.importorskip("rouge_score.tokenize", reason="stems are made by rouge-score")
    from nltk.stem.porter import PorterStemmer  # rouge-score needs it
    assert len(GOLDEN["stems"]) > 100
    assert [tokenize.tokenize(word, PorterStemmer()) for word, _stem in GOLDEN["stems"]] == \
        [[stem] for _word, stem in GOLDEN["stems"]]
