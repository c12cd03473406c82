"""test_schemas.py PROGRAM MODEL [SUITE] - random answers to random JSON schemas are valid; the package jsonschema is the
judge. SUITE: a folder tests/draft... of JSON-Schema-Test-Suite; no invalid instance of it may be accepted."""
import json
import pathlib
import random
import subprocess
import sys

import jsonschema

SCHEMAS = 1000
draw = random.Random(20261127)


def integer():
    low, high = sorted(draw.randint(-2000, 2000) for _ in range(2))
    bounds = {'minimum': low, 'maximum': high, 'exclusiveMinimum': low - 1, 'exclusiveMaximum': high + 1}
    return {name: bounds[name] for name in draw.sample(sorted(bounds), draw.randint(0, 4))}


def string():
    kind = draw.randrange(4)
    if kind == 0:
        return {}
    if kind == 1:
        least = draw.choice([0, 0, 1, 3, 64, 70])
        return {'minLength': least, 'maxLength': least + draw.choice([0, 1, 5, 63, 64, 100, 200])}
    if kind == 2:
        return {'pattern': draw.choice(['^[a-z]{2,5}$', 'x', r'^\d{3}-\d{4}$', '^(a|b\\.)+$', '[^a-z]$', r'^\w+\s\S$',
                                        '^"q"$', r'^\\d$', 'é|ü', '[^a]+', '^[^b]{2,4}$', r'^[^\\d\\s]*$', '^[a-z]*$', '^(?:ab?c*){1,3}', r'^[\u00e0-\u00ff]+$', '^.{3}$'])}
    return {'format': draw.choice(['date', 'time', 'date-time', 'uuid', 'ipv4', 'email', 'unheard-of'])}


def schema(depth):
    """Returns a random schema. Deeper than three, it is of a simple type."""
    kind = draw.randrange(5 if depth > 3 else 10)
    if kind == 0:
        return {'type': draw.choice(['null', 'boolean', 'integer', 'number', 'string'])}
    if kind == 1:
        return {'type': 'integer', **integer()}
    if kind == 2:
        return {'type': 'number', **integer()}
    if kind == 3:
        return {'type': 'string', **string()}
    if kind == 4:
        return {'enum': draw.sample(['a', 'a"b', 'ab', '', 'é\n', 1, 12, -1.5, None, True, [1, 'x'], {'k': []}], 3)}
    if kind == 5:
        return {'anyOf': [schema(depth + 1) for _ in range(draw.randint(1, 3))]}
    if kind == 6:
        return {'type': draw.sample(['null', 'boolean', 'integer', 'number', 'string', 'array', 'object'], 2), **integer()}
    if kind == 7:
        least, fixed = draw.randint(0, 3), draw.randint(0, 2)
        made = {'type': 'array', 'minItems': least, 'maxItems': least + draw.randint(fixed, 4),
                'prefixItems': [schema(depth + 1) for _ in range(fixed)], 'items': schema(depth + 1)}
        return {name: made[name] for name in made if name == 'type' or draw.random() < 0.7}
    names = draw.sample(['a', 'b', 'name', 'é', 'x y', 'q"', '/', 'long_name'], draw.randint(0, 5))
    made = {'type': 'object', 'properties': {name: schema(depth + 1) for name in names},
            'required': draw.sample(names, draw.randint(0, len(names)))}
    if draw.random() < 0.3:
        made['additionalProperties'] = draw.choice([False, True, schema(depth + 1)])
    return made


def recursive():
    """A list whose tail is a list, or a tree."""
    return {'$ref': '#/$defs/node', '$defs': {'node': {
        'type': 'object', 'required': ['value'],
        'properties': {'value': schema(3), 'next': {'anyOf': [{'type': 'null'}, {'$ref': '#/$defs/node'}]},
                       'all': {'type': 'array', 'items': {'$ref': '#/$defs/node'}, 'maxItems': 2}}}}}


def ask(program, model, lines):
    text = ''.join(json.dumps(line) + '\n' for line in lines)
    done = subprocess.run([program, model], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.split('\n')[:-1]]


def random_schemas(program, model):
    schemas = [recursive() if i % 10 == 0 else schema(0) for i in range(SCHEMAS)]
    lines = [{'schema': json.dumps(s), 'seed': i, 'answers': 2} for i, s in enumerate(schemas)]  # one is drawn, one greedy
    wrong = refused = endless = valid = 0
    for s, got in zip(schemas, ask(program, model, lines)):
        if 'error' in got:
            refused += 1
            if 'bounds' not in got['error'] and 'minItems' not in got['error']:
                print('refused:', json.dumps(s), got['error'])
                wrong += 1
            continue
        for answer in got['answers']:
            if answer is None:
                endless += 1
                continue
            try:
                judge = jsonschema.Draft202012Validator(s, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
                assert answer is not False, 'could not go on'
                judge.validate(json.loads(answer))
                valid += 1
            except (ValueError, AssertionError, jsonschema.ValidationError) as error:
                wrong += 1
                print('wrong:', json.dumps(s), answer, str(error).splitlines()[0])
    print(f'{SCHEMAS} schemas: {valid} answers valid, {endless} not ended, {refused} schemas refused, {wrong} wrong')
    return wrong == 0 and valid > 0.8 * 2 * SCHEMAS


def suite(program, model, folder):
    """Every accepted instance is valid, and every beginning of it is possible."""
    groups = [group for path in sorted(pathlib.Path(folder).rglob('*.json')) if path.parent.name != 'format'
              for group in json.loads(path.read_text(encoding='utf-8')) if isinstance(group['schema'], dict)]
    lines = []
    for group in groups:
        texts = [json.dumps(test['data'], ensure_ascii=False, separators=(',', ':')) for test in group['tests']]
        lines.append({'schema': json.dumps(group['schema']), 'seed': 0, 'answers': 0, 'texts': texts})
    accepted = wrong = read = 0
    for group, got in zip(groups, ask(program, model, lines)):
        read += 'error' not in got
        for test, match in zip(group['tests'], got.get('matches', '')):
            accepted += match == 'W'
            if match == 'W' and not test['valid']:
                wrong += 1
                print('accepted:', json.dumps(group['schema']), test['data'])
    print(f'{len(groups)} schemas of the suite: {read} read, {accepted} instances accepted, {wrong} of them invalid')
    return wrong == 0 and accepted > 0


good = random_schemas(*sys.argv[1:3])
if len(sys.argv) > 3:
    good = suite(*sys.argv[1:4]) and good
sys.exit(not good)
