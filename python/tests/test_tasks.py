"""The tasks of kvcull.eval: files in each format, what the model gets, errors in files, and a run of every task."""
import json
import re
import shutil

import benchmark_files
import pytest

import kvcull
from kvcull.eval import Folder, Plan, Prompter, Results, Runner
from kvcull.eval import task as tasks_of

GROUPS = {"longbench_e": "longbench", "scbench_requests": "scbench"}
TASKS = tasks_of.known()


@pytest.fixture(scope="module", name="files")
def made_files(tmp_path_factory):
    return benchmark_files.write(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module", name="small")
def random_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("thin") / "thin.gguf"
    kvcull.make_model("thin", path, "f32", 3)
    with kvcull.Model(path, threads=1) as model:
        yield model


def folder(files, task):
    return Folder(files / GROUPS.get(task.group, task.group))


def first(files, name):
    return next(iter(TASKS[name].samples(folder(files, TASKS[name]), 6000)))


def answered(small, files, task, length, samples=1, policies=("streaming:budget=64",)):
    results = Results()
    runner = Runner(small, Prompter(small, raw=True), policies, results, Plan([length], samples))
    runner.run(task, folder(files, task))
    return results.records, runner


@pytest.mark.parametrize("name", [name for name in TASKS if not name.endswith(("_2k", "_8k"))])
def test_every_task_runs(files, small, name):
    task = TASKS[name]
    if "sum" in name or task.group == "loogle":
        pytest.importorskip("rouge_score", reason="the task is scored by rouge-score")
    length = 2400 if task.turns and task.tokens > 500 else max(400, min(task.tokens + 500, 2000)) if task.tokens else 400
    records, _runner = answered(small, files, task, max(length, 1200 if task.group == "helmet" else 0))
    questions = len(first(files, name).asked)
    assert len(records) == 2 * questions
    for record in records:
        assert 0 <= record["score"] <= 1 and record["prompt_tokens"] + task.limit(length) <= max(length, 1200)
        assert record["held_bytes"] < record["full_bytes"] or record["prompt_tokens"] < 100


#: Right answers that are not just the text of the file.
RIGHT = {"longbench2": "The correct answer is (B)", "infinitebench/code_debug": "B.",
         "infinitebench/longbook_choice_eng": "B",
         "loogle/shortdep_cloze": "{'<mask-0>': 'Ada', '<mask-1>': 'Port Elm'}"}


def test_the_right_answers_score_one(files):
    for name, task in TASKS.items():
        if not name.startswith(("longbench", "infinitebench", "helmet", "scbench", "loogle", "longproc/tom")):
            continue
        if "sum" in name or task.group == "loogle":
            pytest.importorskip("rouge_score", reason="the task is scored by rouge-score")
        for asked in first(files, name).asked:
            several = name.startswith("helmet/ruler") or name.endswith(("/vt", "/math_calc"))
            answer = RIGHT.get(name, ", ".join(asked.answers) if several else asked.answers[0])
            assert task.score(asked, answer) == pytest.approx(1, abs=1e-6), name
            assert task.score(asked, "") == 0, name


def test_what_the_model_gets(files):
    sample = first(files, "longbench/passage_count")
    assert sample.context.startswith("Read {this}.\n") and sample.question == "\nNow answer: Where {is} it, 1?\nAnswer:"
    sample = first(files, "longbench2")
    assert "Question: Where? ($5)" in sample.question and sample.question.endswith("D: $Q$")
    sample = first(files, "infinitebench/code_run")
    assert "called func_12." in sample.context and "what func_12(-3) returns" in sample.question
    assert "is the largest number?" in first(files, "infinitebench/math_find").context
    assert first(files, "infinitebench/longbook_choice_eng").answers == ["noon", "B"]
    sample = first(files, "helmet/msmarco")
    assert "\nRanking: 2 > 1\n" in sample.context and sample.answers == ["2 > 1"]
    assert first(files, "longgenbench/short").opening == "#*# Week 1:"
    assert "  <b>one</b>" in first(files, "longproc/html_to_tsv_0.5k").context
    sample = first(files, "longproc/countdown_0.5k")
    assert "\n# Search Procedure\n" in sample.context and "\nNumbers: [21, 16, 17, 26]\n" in sample.question
    assert [asked.answers for asked in first(files, "scbench/kv").asked] == [["12"], ["13", "14"]]
    assert [asked.text for asked in first(files, "scbench/mf").asked][1].startswith("\n\nWhat is the median number of the list?")
    assert first(files, "scbench/choice_eng").asked[0].text.endswith("\n\nQuestion: Which boat left?\nA. dawn\nB. noon")
    assert first(files, "scbench/qa_eng").context.startswith("Read this book")
    sums, key = first(files, "scbench/summary_with_needles").asked
    assert TASKS["scbench/summary_with_needles"].score(key, "It is 0713.") == 1 and not sums.more["key"]
    assert [asked.opening for asked in first(files, "loogle/longdep_qa").asked] == ["Answer:", "Answer:"]
    cloze, task = first(files, "loogle/shortdep_cloze").asked[0], TASKS["loogle/shortdep_cloze"]
    for answer, score in (("{'<mask-0>': 'Ada', '<mask-1>': 'Port'}", 0.5), ("Ada, Port Elm", 0), ("['Ada']", 0), ("{", 0)):
        assert task.score(cloze, answer) == score


#: (file, text or pattern, its replacement, the error)
SPOILT = [
    ("longbench/hotpotqa", "data/hotpotqa.jsonl", '"answers"', '"answer"',
     '"answers" is missing; it must be a list of texts'),
    ("longbench/hotpotqa", "data/hotpotqa.jsonl", r'"answers": \[[^]]*\]', '"answers": 5', '"answers" is a number'),
    ("longbench/hotpotqa", "data/hotpotqa.jsonl", r'"answers": \[[^]]*\]', '"answers": ["a", 5]', '"answers" is a list'),
    ("longbench/hotpotqa", "data/hotpotqa.jsonl", r'"answers": \[[^]]*\]', '"answers": []', '"answers" is an empty list'),
    ("longbench/hotpotqa", "data/hotpotqa.jsonl", '"context": "[^"]*"', '"context": ["x"]', '"context" is a list'),
    ("longbench/hotpotqa", "data/hotpotqa.jsonl", '"context": "[^"]*"', '"context": ""', '"context" is an empty text'),
    ("longbench/hotpotqa", "data/hotpotqa.jsonl", '"input": "[^"]*"', '"input": null', '"input" is null'),
    ("longbench/hotpotqa", "data/hotpotqa.jsonl", r"\}\n", "\n", "line 1: not a JSON object"),
    ("longbench/hotpotqa", "data/hotpotqa.jsonl", '"_id"', '"input"', "line 1: not a JSON object: duplicate"),
    ("longbench/hotpotqa", "data/hotpotqa.jsonl", r"\A", "5\n", "line 1: not an object"),
    ("longbench/hotpotqa", "config/dataset2prompt.json", '"hotpotqa": "[^"]*"', '"hotpotqa": 5', 'no text "hotpotqa"'),
    ("longbench/hotpotqa", "config/dataset2prompt.json", "{input}", "{inputs}", "{inputs}, which is not a field"),
    ("longbench/hotpotqa", "config/dataset2prompt.json", "{context}", "text", "must contain {context}"),
    ("longbench/hotpotqa", "config/dataset2prompt.json", r"\A.*", "{", "not JSON"),
    ("longbench2", "data.json", '"answer": "B"', '"answer": "E"', '"answer" .* a letter from A to D'),
    ("longbench/trec", "data/trec.jsonl", r'"all_classes": \[[^]]*\]', '"all_classes": null', '"all_classes" is null'),
    ("longbench/passage_retrieval_en", "data/passage_retrieval_en.jsonl", "Paragraph 3", "third",
     "texts with a paragraph's number"),
    ("infinitebench/longbook_choice_eng", "longbook_choice_eng.jsonl", '"never"', "5", '"options" is a list'),
    ("infinitebench/longbook_choice_eng", "longbook_choice_eng.jsonl", r'"answer": \["noon"\]', '"answer": ["night"]',
     "one of the options"),
    ("infinitebench/code_run", "code_run.jsonl", r"func_12\(-3\)", "f(3)", r"a call like func_12\(3\)"),
    ("infinitebench/math_find", "math_find.jsonl", "of the list", "in the list", "The ... of"),
    ("infinitebench/passkey", "passkey.jsonl", r'"answer": \["71432"\]', '"answer": {}', '"answer" is an object'),
    ("helmet/msmarco", "msmarco/test_reranking_data_k50_dep3.jsonl", '"label": 2', '"label": "high"',
     'a whole number "label"'),
    ("helmet/kilt_nq", "kilt/nq-train-multikilt_1000_k3_dep6.jsonl", '"ctxs": .*', '"ctxs": 1}',
     'k3_dep6.jsonl: line .: "ctxs" is a number'),
    ("helmet/json_kv", "json_kv/test_k105_dep6.jsonl", r'\["c", "3"\]', '"c"', "pairs of a key"),
    ("longwriter/ruler", "longwrite_ruler.jsonl", "100", "0", '"length" is a number; it must be a whole number from 1'),
    ("longgenbench/short", "Dataset_short.json", '"number": 3', '"number": "3"', '"number" is a text'),
    ("longproc/html_to_tsv_0.5k", "html_to_tsv/html_to_tsv_0.5k.json", "webpage/a", "../../a", '"html_path" .* in the folder'),
    ("longproc/html_to_tsv_0.5k", "html_to_tsv/html_to_tsv_0.5k.json", "webpage/a", "webpage/b",
     '"html_path" .* an existing UTF-8 file'),
    ("longproc/countdown_0.5k", "countdown/countdown_0.5k.json", r", 26\]", "]", '"nums" is a list'),
    ("longproc/tom_tracking_0.5k", "tom_tracking/prompts.yaml", "USER", "MY", 'no "USER_PROMPT'),
    ("loogle/longdep_qa", "longdep_qa.jsonl", "'Q'", "'R'", '"qa_pairs" is a text; it must be a list'),
    ("loogle/shortdep_cloze", "shortdep_cloze.jsonl", r"'A': \{.*?\}", "'A': 'Ada'", '"qa_pairs" is a text; it must be a list'),
    ("scbench/mf", "scbench_mf.jsonl", "The largest number", "A number", 'a text with "The ... is"'),
    ("scbench/summary_with_needles", "scbench_summary_with_needles.jsonl", '"task"', '"tasks"', '"task" is missing'),
    ("scbench/kv", "scbench_kv.jsonl", '"answer": "12"', '"answer": {}', "multi_turns.0.: .answer. is an object"),
]


@pytest.mark.parametrize("name, file, pattern, text, message", SPOILT)
def test_errors_in_files(files, tmp_path, name, file, pattern, text, message):
    task = TASKS[name]
    copy = shutil.copytree(folder(files, task).path, tmp_path / "copy")
    content = (copy / file).read_text(encoding="utf-8")
    changed = re.sub(pattern, text.replace("\\", "\\\\"), content)
    assert changed != content
    (copy / file).write_text(changed, encoding="utf-8")
    with pytest.raises(kvcull.InputError, match=message) as raised:
        list(task.samples(Folder(copy), 6000))
    assert str(raised.value).startswith((str(copy), "the prompt"))


@pytest.mark.parametrize("content, message", [
    (b'{"input": "caf\xe9"}\n', "line 1: not UTF-8"), (b"", "no records"), (b'[{"a": 1}', "not a JSON object"),
    (b'[{"a": 1}] x', "not a JSON object"), (b'[1]', "record 1: not an object"), (b"\xff\xfe{\0", "not UTF-8")])
def test_files_that_are_no_records(tmp_path, content, message):
    (tmp_path / "rows.jsonl").write_bytes(content)
    with pytest.raises(kvcull.InputError, match=message):
        list(Folder(tmp_path).rows("rows.jsonl"))


def test_missing_files(tmp_path):
    with pytest.raises(kvcull.InputError, match="does not contain a.jsonl or b.jsonl"):
        Folder(tmp_path).file("a.jsonl", "b.jsonl")
    with pytest.raises(kvcull.InputError, match="no such folder"):
        Folder(tmp_path / "none").file("a.jsonl")
    (tmp_path / "a.jsonl").mkdir()
    with pytest.raises(kvcull.InputError, match="cannot be read"):
        list(Folder(tmp_path).rows("a.jsonl"))


def test_texts_are_cut_in_their_middle(files, small):
    task = TASKS["longbench/gov_report"]
    prompt = Prompter(small, raw=True).fit(task, first(files, task.name), 900)
    assert 370 < len(prompt.tokens) <= 388 and prompt.context < len(prompt.tokens)
    text = small.detokenize(prompt.tokens)
    assert text.strip().startswith("Read {this}") and text.endswith("Answer:") and "number 299" in text
    with pytest.raises(kvcull.UsageError, match="give at least"):
        Prompter(small, raw=True).fit(task, first(files, task.name), 520)


def test_one_prompt_for_all_policies_changes_no_bit(files, small):
    task, policies = TASKS["longbench/hotpotqa"], ("full", "knorm:budget=64", "snapkv:budget=64")
    together, runner = answered(small, files, task, 700, 2, policies)
    results = Results()
    Runner(small, Prompter(small, raw=True), policies, results, Plan([700], 2, alone=True)).run(task, folder(files, task))
    alone = {(one["sample"], one["kv"], one["question"]): one for one in results.records}
    assert len(together) == 12
    for one in together:
        other = alone[one["sample"], one["kv"], one["question"]]
        assert all(one[name] == other[name] for name in one if name not in ("prompt_us", "answer_us", "shared"))
    assert runner.computed_tokens < 0.6 * runner.prompt_tokens


def test_forks_read_the_text_once(files, small):
    task = TASKS["loogle/shortdep_qa"]
    pytest.importorskip("rouge_score", reason="the task is scored by rouge-score")
    results, data = Results(), folder(files, task)
    runner = Runner(small, Prompter(small, raw=True), ["snapkv:budget=64"], results, Plan([900], sides=("unseen",)))
    runner.run(task, data)
    sample = first(files, task.name)
    prompt = Prompter(small, raw=True).fit(task, sample, 900)
    for record, part in zip(results.records, [prompt.tokens[prompt.context:], *prompt.later]):
        session = small.session("snapkv:budget=64", context=900, expected=task.tokens)
        session.prompt(prompt.tokens[:prompt.context])
        assert session.answer(part, tokens=task.tokens, temperature=0).startswith(record["answer"].rstrip("\ufffd")[:20])
    assert [record["turn"] for record in results.records] == [1, 2]
    assert runner.prompt_tokens == len(prompt.tokens) + len(prompt.later[0])


def test_results_resume_and_merge(files, small, tmp_path):
    task, out = TASKS["longbench/hotpotqa"], tmp_path / "out.jsonl"

    def run(policies, resume, shard=(0, 1), path=out):
        results = Results()
        results.append_to(str(path), resume)
        before = len(results.records)
        Runner(small, Prompter(small, raw=True), policies, results, Plan([700], 2, shard=shard)).run(
            task, folder(files, task))
        results.close()
        return before, results.records

    assert run(["full"], False)[0] == 0
    with pytest.raises(kvcull.UsageError, match="--resume continues"):
        run(["full"], False)
    whole = out.read_bytes()
    out.write_bytes(whole[:-20])  # a process that was killed
    before, records = run(["full", "knorm:budget=64"], True)
    assert before == 3 and len(records) == 8
    shards = [tmp_path / f"{i}.jsonl" for i in (0, 1)]
    for i, path in enumerate(shards):
        run(["full", "knorm:budget=64"], False, (i, 2), path)
    from kvcull.eval import merged, tables
    both = merged([*shards, out])
    assert len(both.records) == 8
    ours, theirs = ({json.dumps({name: value for name, value in one.items() if name[-3:] != "_us" and name != "shared"})
                     for one in some} for some in (both.records, records))
    assert ours == theirs and len(ours) == 8
    assert "longbench/hotpotqa of 700 tokens" in tables(both.records)
    line = json.loads(out.read_text().splitlines()[0])
    shards[0].write_text(json.dumps({**line, "answer": "other"}) + "\n")
    with pytest.raises(kvcull.InputError, match="another answer"):
        merged([out, shards[0]])
