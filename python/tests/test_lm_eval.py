"""The provider for lm-eval: its log-probabilities are the sessions', and its command runs a task under a policy."""
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import SOURCE, TEXT

pytest.importorskip("lm_eval", reason="no lm-eval")
from lm_eval.api.instance import Instance  # noqa: E402

from kvcull.eval.lm import KvcullLM  # noqa: E402


@pytest.fixture(scope="module", name="lm")
def provider(demo):
    return KvcullLM(str(demo), kv="snapkv:budget=40;window=8", threads=1)


def instance(kind, *arguments):
    return Instance(request_type=kind, doc={}, arguments=arguments, idx=0)


def test_log_probabilities_are_the_sessions(lm):
    found = lm.loglikelihood([instance("loglikelihood", TEXT, rest) for rest in (" 48 21", " 13 07", " 48 07")])
    for (score, greedy), rest in zip(found, (" 48 21", " 13 07", " 48 07")):
        session = lm.model.session("snapkv:budget=40,window=8", expected=2)
        logits, wanted, best = session.prompt(TEXT), 0.0, True
        whole, front = lm.model.tokenize(TEXT + rest), lm.model.tokenize(TEXT)
        for token in whole[len(front):]:
            row = logits.astype(np.float64)
            wanted += row[token] - np.log(np.exp(row).sum())
            best = best and row.argmax() == token
            logits = session.decode(int(token))
        assert score == pytest.approx(wanted, abs=1e-6) and greedy == best
    assert found[0][1] and found[0][0] > max(found[1][0], found[2][0])


def test_texts_as_a_whole(lm):
    whole, = lm.loglikelihood_rolling([instance("loglikelihood_rolling", "the old sailor found the red kettle")])
    same, = lm.loglikelihood([instance("loglikelihood", "", "the old sailor found the red kettle")])
    assert whole == same[0] < 0


def test_answers(lm):
    answers = lm.generate_until([instance("generate_until", TEXT, {"until": [" ."], "max_gen_toks": 5}),
                                 instance("generate_until", TEXT, {"until": "21", "do_sample": False})])
    assert [answer.strip() for answer in answers] == ["48 21", "48"]


def test_the_command(tmp_path, demo):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"text": TEXT, "choices": [" 13 07", " 48 21"], "right": 1}) + "\n")
    (tmp_path / "lantern.yaml").write_text(
        "task: lantern\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: "
        f"{tmp_path}/rows.jsonl\ntest_split: test\noutput_type: multiple_choice\ndoc_to_text: '{{{{text}}}}'\n"
        "doc_to_choice: choices\ndoc_to_target: right\ntarget_delimiter: ''\nmetric_list:\n  - metric: acc\n")
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-m", "kvcull.eval", "lm", "run", "--model", "kvcull", "--model_args",
                           f"model={demo},kv=snapkv:budget=40;window=8,threads=1", "--tasks", "lantern",
                           "--include_path", str(tmp_path)], cwd=SOURCE, env=environment, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\|acc *\|[^|]*\| *1(\.0*)?\|", done.stdout), done.stdout
