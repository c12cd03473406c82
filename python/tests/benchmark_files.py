"""Small files in the format of each benchmark, made here: `write(folder)`. The texts are so long that they must be cut."""
import json
from pathlib import Path

WORDS = "".join(f"The boat number {i} left at noon. " for i in range(300))
LONGBENCH = ("narrativeqa qasper multifieldqa_en multifieldqa_zh hotpotqa 2wikimqa musique dureader gov_report qmsum "
             "multi_news vcsum trec triviaqa samsum lsht passage_count passage_retrieval_en passage_retrieval_zh lcc "
             "repobench-p").split()
ANSWERS = {"passage_retrieval_en": ["Paragraph 3"], "passage_retrieval_zh": ["段落3"], "passage_count": ["3"],
           "trec": ["Food"], "lsht": ["Food"]}
INFINITE = {
    "passkey": (["71432"], "What is the key?", []), "number_string": (["7143271432"], "What is it?", []),
    "kv_retrieval": ("5e6b", 'Key: "a"', []), "longbook_sum_eng": (["A boat left."], "", []),
    "longbook_choice_eng": (["noon"], "When?", ["dawn", "noon", "dusk", "never"]),
    "longbook_qa_eng": (["at noon", "noon"], "When?", []), "longbook_qa_chn": (["中午"], "什么时候?", []),
    "longdialogue_qa_eng": (["ANN", "ANN LEE"], "", []),
    "math_find": (88, "You should answer. The LARGEST number of the list is?", []), "math_calc": ([[1, 2, 3]], "", []),
    "code_run": ([4], "Compute func_12(-3) now.", []), "code_debug": (["fix_all", "B"], "", ["a", "fix_all", "b", "c"]),
}
PASSAGES = [{"title": "Boats", "text": "A boat is red.", "id": "1", "label": 0},
            {"title": "Bays", "text": "A bay is wide.", "id": "2", "label": 2}]
KILT = ("nq-dev-multikilt_1000_k50_dep6", "nq-train-multikilt_1000_k3_dep6", "triviaqa-dev-multikilt_1000_k50_dep6",
        "triviaqa-train-multikilt_1000_k3_dep6", "hotpotqa-dev-multikilt_1000_k50_dep3",
        "hotpotqa-train-multikilt_1000_k3_dep3", "popqa_test_1000_k50_dep6", "popqa_test_1000_k3_dep6")
PROC = {
    "path_traversal": ("Cities:\n{city_context}\n\nFrom {src_city} to {dst_city}?",
                       {"context_nl": "Ada has a bus to Bel.", "question_repr": ["Ada", "Bel"],
                        "answer_nl": "From Ada, take a bus to Bel."}),
    "html_to_tsv": ("```html\n{html_str}\n```\n{task_topic} {task_description}{filtering_instruction} {tsv_header} "
                    "{{rows}}",
                    {"html_path": "webpage/a.html", "task_topic": "a", "task_description": "b",
                     "filtering_instruction": "", "tsv_header": "a\tb", "gt": "a\tb\n1\t2"}),
    "tom_tracking": ("{story}\n{question}", {"story_components": "", "story": "Ann goes.", "question": "Where?",
                                             "solution": "- Step 0: here"}),
    "countdown": ("{demonstration}\nNumbers: {nums}\nTarget: {target}",
                  {"nums": [21, 16, 17, 26], "target": 46, "demonstration": "<Search Procedure>\nInitial"}),
}


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def lines(path: Path, *records) -> None:
    put(path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def longbench(root: Path) -> None:
    for name in LONGBENCH:
        classes = ["Food", "Drink"] if name in ("trec", "lsht") else None
        rows = [{"input": f"Where {{is}} it, {i}?", "context": WORDS, "answers": ANSWERS.get(name, ["Kettle Bay", "the bay"]),
                 "length": 5, "dataset": "x", "language": "en", "all_classes": classes, "_id": f"a{i}"} for i in (1, 2)]
        for file in (f"{name}.jsonl", f"{name}_e.jsonl"):
            lines(root / "longbench" / "data" / file, *rows)
    prompts = {name: "Read {{this}}.\n{context}\nNow answer: {input}\nAnswer:" for name in LONGBENCH}
    put(root / "longbench" / "config" / "dataset2prompt.json", json.dumps(prompts))
    put(root / "longbench2" / "prompts" / "0shot.txt",
        "<text>\n$DOC$\n</text>\nQuestion: $Q$ ($5)\nA: $C_A$ B: $C_B$ C: $C_C$ D: $C_D$")
    row = {"domain": "d", "question": " Where? ", "choice_A": "here", "choice_B": "there [x] {", "choice_C": 'no "where"',
           "choice_D": "$Q$", "answer": "B", "context": WORDS}
    put(root / "longbench2" / "data.json", json.dumps([{"_id": "a", **row}, {"_id": "b", **row}]))


def helmet(root: Path) -> None:
    for name in KILT:
        lines(root / "kilt" / f"{name}.jsonl", *({"question": f"What is {i}?", "answers": ["red", "wide"],
                                                  "ctxs": PASSAGES} for i in (1, 2, 3)))
    for count in (50, 10):
        lines(root / "msmarco" / f"test_reranking_data_k{count}_dep3.jsonl",
              *({"qid": f"q{i}", "query": "wide", "ctxs": PASSAGES} for i in (1, 2, 3)))
    lines(root / "json_kv" / "test_k105_dep6.jsonl", {"context": '{"a": "1"}', "question": "a", "answer": "1",
                                                      "demos": [["b", "2"], ["c", "3"]], "num_kvs": 1})
    for name in ("niah_multikey_2", "niah_multikey_3", "niah_multivalue"):
        lines(root / "ruler" / name / "validation_8192.jsonl",
              {"context": WORDS, "query": "fox", "type_needle_v": "numbers", "answer": ["12", "13"]})


def long_answers(root: Path) -> None:
    for name in ("longbench_write", "longbench_write_en", "longwrite_ruler"):
        lines(root / "longwriter" / f"{name}.jsonl", {"prompt": "Write about boats.", "type": "x", "length": 100})
    for name in ("Dataset_short", "Dataset_long"):
        put(root / "longgenbench" / f"{name}.json",
            json.dumps([{"prompt": "Write a diary. #*# Week 1:", "checks_once": {}, "type": "Week",
                         "prefix": "#*# Week 1:", "number": 3}]))
    for name, (prompt, record) in PROC.items():
        folder = root / "longproc" / name
        put(folder / "prompts.yaml", "USER_PROMPT: |-\n" + "".join(f"  {line}\n" for line in prompt.split("\n")))
        for size in ("0.5k", "2k", "8k"):
            put(folder / f"{name}_{size}.json", json.dumps([record, record]))
    put(root / "longproc" / "html_to_tsv" / "webpage" / "a.html", "<p>\n  <b>one</b>\n")


def conversations(root: Path) -> None:
    turns = [{"input": "Which boat left?", "answer": "12"}, {"input": "And then?", "answer": ["13", "14"]}]
    for name in ("kv", "prefix_suffix", "vt", "qa_eng", "qa_chn", "summary"):
        lines(root / "scbench" / f"scbench_{name}.jsonl", {"context": WORDS, "multi_turns": turns})
    lines(root / "scbench" / "scbench_mf.jsonl", {"context": "[3, 9, 4.5]", "multi_turns": [
        {"input": "You should answer with one number, no other words. The largest number of the list is:", "answer": 9},
        {"input": "You should answer with one number, no other words. The median number of the list is:", "answer": 4.5}]})
    lines(root / "scbench" / "scbench_summary_with_needles.jsonl", {"context": WORDS, "multi_turns": [
        {"input": "Sum up the first text.", "answer": "Boats left.", "task": "scbench_summary"},
        {"input": "What is the pass key?", "answer": "0713", "task": "scbench_passkey"}]})
    for name in ("choice_eng", "many_shot"):
        asked = [dict(turn, answer="noon", options=["dawn", "noon"]) for turn in turns]
        lines(root / "scbench" / f"scbench_{name}.jsonl", {"context": WORDS, "multi_turns": asked})
    pairs = "[{'Q': 'When did it leave?', 'A': 'at noon', 'S': []}, {'Q': 'Which?', 'A': 'number 3'}]"
    for name in ("longdep_qa", "shortdep_qa"):
        lines(root / "loogle" / f"{name}.jsonl", {"input": WORDS, "title": "t", "qa_pairs": pairs, "output": "none"})
    masked = "[{'Q': 'At noon <mask-0> left <mask-1>.', 'A': {'<mask-0>': 'Ada', '<mask-1>': 'Port Elm'}, 'S': []}]"
    lines(root / "loogle" / "shortdep_cloze.jsonl", {"input": WORDS, "title": "t", "qa_pairs": masked, "output": "none"})
    lines(root / "loogle" / "longdep_summarization.jsonl", {"input": WORDS, "qa_pairs": "none", "output": "Boats left."})


def write(root: Path) -> Path:
    """Writes all files into a folder for each group of tasks."""
    longbench(root)
    for name, (answer, asked, options) in INFINITE.items():
        lines(root / "infinitebench" / f"{name}.jsonl",
              {"id": 0, "context": WORDS, "input": asked, "answer": answer, "options": options})
    helmet(root / "helmet")
    long_answers(root)
    conversations(root)
    return root
