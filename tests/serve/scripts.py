"""scripts.py - answers of models in all forms that the server knows. A script has the end of the prompt, the answer,
the reasoning, the content, and the calls. The answer's text is cut into tokens at random; each control token is one
token. The functions `add` and `stop` may be called."""
CONTROL = ['<|channel|>', '<|message|>', '<|constrain|>', '<|call|>', '<|end|>', '<|return|>', '[TOOL_CALLS]', '[ARGS]', '<|python_tag|>',
           '<|START_ACTION|>', '<|END_ACTION|>', '<|tool_call|>', '[THINK]', '[/THINK]', '<unrelated>']
CITY = '{"city": "Zürich \\u00e9\\ud83d\\ude00", "days": [1, 2, {"a": null}], "note": "</tool_call> \\"<think>\\""}'
ADD = '{"name": "add", "arguments": ' + CITY + '}'
STOP = '{"name": "stop", "arguments": {}}'
R7B = '[\n    {"tool_call_id": "0", "tool_name": "add", "parameters": %s},\n    {"tool_call_id": "1", "tool_name": "stop", ' \
      '"parameters": {}}\n]'
SCRIPTS = [
    # Hermes, Qwen
    ('', 'Let me add.\n<tool_call>\n' + ADD + '\n</tool_call>', '', 'Let me add.', [('add', CITY)]),
    ('', '<tool_call>\n' + ADD + '\n</tool_call>\n<tool_call>\n' + STOP + '\n</tool_call>', '', '',
     [('add', CITY), ('stop', '{}')]),
    ('', '<think>\nFirst I think, é.\n</think>\n\n<tool_call>\n' + ADD + '\n</tool_call>', 'First I think, é.', '',
     [('add', CITY)]),
    ('<think>\n', 'The prompt opened\nthese thoughts.\n</think>\n\nThe answer is 3 < 4.\n', 'The prompt opened\nthese thoughts.',
     'The answer is 3 < 4.\n', []),
    ('<think>\n\n</think>\n\n', 'An answer without thoughts <b>.', '', 'An answer without thoughts <b>.', []),
    # Llama 3
    ('', ['<|python_tag|>', '{"name": "add", "parameters": ' + CITY + '}'], '', '', [('add', CITY)]),
    ('', '{"name": "add", "parameters": ' + CITY + '}; {"name": "stop", "parameters": {}}', '', '',
     [('add', CITY), ('stop', '{}')]),
    # Mistral, Granite
    ('', ['[TOOL_CALLS]', 'add', '[ARGS]', CITY + ' '], '', '', [('add', CITY)]),
    ('', ['[THINK]', 'Hm, hm.', '[/THINK]', '[TOOL_CALLS] [' + ADD + ',' + STOP + ']'], 'Hm, hm.', '',
     [('add', CITY), ('stop', '{}')]),
    ('', ['<|tool_call|>', '[' + ADD + ', ' + STOP + ']'], '', '', [('add', CITY), ('stop', '{}')]),
    ('', '<think>Granite thinks.</think><response>And answers.</response>', 'Granite thinks.', 'And answers.', []),
    # Command-R
    ('', ['I will add.', '<|START_ACTION|>', R7B % CITY, '<|END_ACTION|>'], '', 'I will add.', [('add', CITY), ('stop', '{}')]),
    ('', 'Action: ```json\n[\n  {\n    "tool_name": "add",\n    "parameters": ' + CITY + '\n  }\n]```', '', '', [('add', CITY)]),
    # gpt-oss: with its control tokens, then with their names as text
    ('<|start|>assistant', ['<|channel|>', 'commentary to=functions.add ', '<|constrain|>', 'json', '<|message|>', CITY,
                            '<|call|>', 'not read any more'], '', '', [('add', CITY)]),
    ('<|start|>assistant', ['<|channel|>analysis<|message|>I analyse this.', '<|end|>', '<|start|>assistant<|channel|>'
                            'commentary to=functions.add <|constrain|>json<|message|>' + CITY], 'I analyse this.', '', [('add', CITY)]),
    ('<|start|>assistant', ['<|channel|>analysis<|message|>I analyse that.<|end|><|start|>assistant<|channel|>final'
                            '<|message|>The final word, ü.', '<|return|>', 'nor this'], 'I analyse that.', 'The final word, ü.', []),
    # no calls
    ('', ['Plain text with an ', '<unrelated>', 'control token, {"name": "add"}.\n '], '',
     'Plain text with an control token, {"name": "add"}.\n ', []),
    ('', '{"name": "other", "arguments": {"x": 1}}', '', '{"name": "other", "arguments": {"x": 1}}', []),
]


def begin(i):
    """The blank token at the end of the prompt that selects script i."""
    return '\n' + ''.join(' \t'[i >> bit & 1] for bit in range(6))
