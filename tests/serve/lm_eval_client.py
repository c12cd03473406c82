"""lm_eval_client.py URL PROGRAM MODEL FOLDER - runs lm-eval's `local-completions` against the server, on a small task
made here. Its results must equal those that the program computes without a server from the same tokens."""
import array
import json
import math
import os
import random
import struct
import subprocess
import sys

from client import case, program, run

url, binary, model, folder = sys.argv[1:5]
os.environ.update(HF_HOME=folder, HF_HUB_OFFLINE='1', HF_DATASETS_OFFLINE='1', TOKENIZERS_PARALLELISM='false')

import lm_eval  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402

TASK = """
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/facts.jsonl}}}}
test_split: test
doc_to_text: "{{{{text}}}}"
num_fewshot: 0
"""
CHOOSE = TASK + """
task: facts_choose
output_type: multiple_choice
doc_to_choice: "{{{{choices}}}}"
doc_to_target: answer
metric_list: [{{metric: acc}}]
"""
SAY = TASK + """
task: facts_say
output_type: generate_until
doc_to_target: "{{{{choices[answer]}}}}"
generation_kwargs: {{until: ["."], max_gen_toks: 6, temperature: 0}}
filter_list: [{{name: stripped, filter: [{{function: remove_whitespace}}, {{function: take_first}}]}}]
metric_list: [{{metric: exact_match}}]
"""


def make_task():
    """Each text gives numbers for several things and asks for one of them. The other numbers are the wrong choices."""
    with open(model + '/words.json') as file:
        words = json.load(file)
    chance = random.Random(17)
    facts = []
    for _ in range(12):
        keys = chance.sample(words['keys'], 4)
        numbers = [' '.join(chance.sample(words['numbers'], 2)) for _ in keys]
        said = ' '.join('the magic number for %s %s .' % pair for pair in zip(keys, numbers))
        answer = chance.randrange(4)
        facts.append({'text': '%s question : the magic number for %s' % (said, keys[answer]), 'choices': numbers,
                      'answer': answer})
    with open(folder + '/facts.jsonl', 'w') as file:
        file.writelines(json.dumps(fact) + '\n' for fact in facts)
    for name, text in (('choose', CHOOSE), ('say', SAY)):
        with open('%s/%s.yaml' % (folder, name), 'w') as file:
            file.write(text.format(folder=folder))
    return facts


def logits(tokens):
    """Returns the logits that the program computes without a server: rows of float32."""
    out = folder + '/logits.safetensors'
    subprocess.run([binary, 'logits', '-m', model, '-q', '--kv-type', 'f16', '-o', out, '--tokens',
                    ','.join(map(str, tokens))], check=True, stdout=subprocess.DEVNULL)
    with open(out, 'rb') as file:
        head = json.loads(file.read(struct.unpack('<Q', file.read(8))[0]))
        begin, end = head['logits']['data_offsets']
        numbers = array.array('f', file.read()[begin:end])
    width = head['logits']['shape'][1]
    return [numbers[i * width:(i + 1) * width] for i in range(len(tokens))]


def tokens_of(text):
    got = subprocess.run([binary, 'tokenize', '-m', model, '-p', text], check=True, capture_output=True, text=True)
    return [int(token) for token in got.stdout.split(',')]


def likelihood(text, more):
    """Returns the log probability of `more` after the text, and whether each token of `more` is the most likely one."""
    tokens, before = tokens_of(text + more), len(tokens_of(text))
    rows, total, greedy = logits(tokens), 0, True
    for row, token in zip(rows[before - 1:], tokens[before:]):
        top = max(row)
        total += row[token] - top - math.log(math.fsum(math.exp(x - top) for x in row))
        greedy = greedy and row[token] == top
    return total, greedy


facts = make_task()
found = lm_eval.simple_evaluate(
    model='local-completions', tasks=['facts_choose', 'facts_say'], log_samples=True, batch_size=4, bootstrap_iters=0,
    task_manager=TaskManager(include_path=folder, include_defaults=False),
    model_args={'model': 'demo', 'base_url': url + '/v1/completions', 'tokenizer': model, 'add_bos_token': True})


def samples(task):
    got = sorted(found['samples'][task], key=lambda sample: sample['doc_id'])
    assert len(got) == len(facts)
    return zip(facts, got)


@case
def choices():
    right = 0
    for fact, sample in samples('facts_choose'):
        ours = [likelihood(fact['text'], ' ' + choice) for choice in fact['choices']]
        for (total, greedy), ((theirs, said),) in zip(ours, sample['resps']):
            assert abs(float(theirs) - total) < 1e-6 * max(1, abs(total)), (theirs, total)
            assert str(said) == str(greedy), (fact, said, greedy)
        right += max(range(4), key=lambda i: ours[i][0]) == fact['answer']
    score = found['results']['facts_choose']['acc,none']
    assert score == right / len(facts), (score, right)
    assert score > 0.25, 'no better than chance: the task says nothing'


@case
def answers():
    right = 0
    for fact, sample in samples('facts_say'):
        ours = program([binary, 'run', '-m', model, '-q', '--json', '--temp', '0', '-n', '6', '--stop', '.', '-p',
                        fact['text']])
        text = ours['turns'][0]['text'].strip()
        assert sample['resps'][0][0].strip() == text, (sample['resps'], text)
        right += text == fact['choices'][fact['answer']]
    score = found['results']['facts_say']['exact_match,stripped']
    assert score == right / len(facts) and score > 0, (score, right)


run()
