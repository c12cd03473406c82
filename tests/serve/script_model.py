"""script_model.py FOLDER - writes a model that answers with texts from scripts.py, token by token. Its tokens are the
bytes, control tokens, and pieces of the texts. Each piece has only one successor. The last token of the prompt,
scripts.begin(i), selects the text."""
import array
import json
import os
import random
import struct
import sys

from scripts import CONTROL, SCRIPTS, begin

folder = sys.argv[1]
os.makedirs(folder)
shown = [b for b in range(256) if 33 <= b < 127 or 161 <= b < 173 or b > 173]
letters = {b: chr(b) for b in shown}
letters.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in shown)})
vocab = {letters[b]: b for b in range(256)}
follows, added = {}, []


def spelled(data):
    return ''.join(letters[b] for b in data)


def token(text, control):
    added.append({'id': len(vocab), 'content': text, 'special': control, 'normalized': False})
    vocab[text] = len(vocab)


def pieces(text, draw):
    """Divides the text into random pieces that no token has yet. Makes a token of each piece and returns the ids."""
    text, names, at = spelled(text.encode()), [], 0
    while at < len(text):
        size = draw.randint(2, 9)
        while at + size < len(text) and (text[at:at + size] in vocab or text[at:at + size] in names):
            size += 1
        name = text[at:at + size]
        if name in vocab or name in names:  # the last piece is a token already: join it with the piece before
            name = names.pop() + name
        names.append(name)
        at += size
    assert len(set(names)) == len(names) and not any(name in vocab for name in names), text
    return [vocab.setdefault(name, len(vocab)) for name in names]


for text in ['<s>', '</s>', '<pad>', *CONTROL]:
    token(text, True)
for i in range(len(SCRIPTS)):
    token(begin(i), False)
draw = random.Random(1)
for i, (_, parts, *_) in enumerate(SCRIPTS):
    ids = [vocab[begin(i)]]
    for part in parts if isinstance(parts, list) else [parts]:
        ids += [vocab[part]] if part in CONTROL else pieces(part, draw)
    for one, two in zip(ids, [*ids[1:], vocab['</s>']]):
        assert follows.setdefault(one, two) == two, 'each control token comes in one script'

count, width = len(vocab), (len(vocab) + 63) // 64 * 64
config = {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_size': width, 'intermediate_size': 64,
          'num_hidden_layers': 1, 'num_attention_heads': 1, 'num_key_value_heads': 1, 'head_dim': 32, 'vocab_size': count,
          'max_position_embeddings': 8192, 'rms_norm_eps': 1e-5, 'rope_theta': 10000.0, 'tie_word_embeddings': False,
          'hidden_act': 'silu', 'bos_token_id': vocab['<s>'], 'eos_token_id': [vocab['</s>'], vocab['<|end|>']], 'pad_token_id': vocab['<pad>']}
layer = 'model.layers.0.'
tensors = {'model.embed_tokens.weight': (count, width), 'lm_head.weight': (count, width), 'model.norm.weight': (width,),
           layer + 'input_layernorm.weight': (width,), layer + 'post_attention_layernorm.weight': (width,)}
for name, rows, columns in (('self_attn.q', 32, width), ('self_attn.k', 32, width), ('self_attn.v', 32, width),
                            ('self_attn.o', width, 32), ('mlp.gate', 64, width), ('mlp.up', 64, width), ('mlp.down', width, 64)):
    tensors[layer + name + '_proj.weight'] = (rows, columns)
header, blocks, at = {}, [], 0
for name, shape in tensors.items():
    values = array.array('f', bytes(4 * shape[0] * (shape[1] if len(shape) > 1 else 1)))
    if len(shape) == 1:
        values = array.array('f', [1.0] * width)
    if name.startswith('model.embed'):
        for i in range(count):
            values[i * width + i] = 1.0
    if name.startswith('lm_head'):
        for one, two in follows.items():
            values[two * width + one] = 4.0
    block = values.tobytes()
    header[name] = {'dtype': 'F32', 'shape': list(shape), 'data_offsets': [at, at + len(block)]}
    at += len(block)
    blocks.append(block)
text = json.dumps(header).encode()
with open(os.path.join(folder, 'model.safetensors'), 'wb') as file:
    file.write(struct.pack('<Q', len(text)) + text + b''.join(blocks))
level = {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': False, 'use_regex': True}
for name, value in (('config', config), ('tokenizer', {
        'version': '1.0', 'added_tokens': added, 'pre_tokenizer': level, 'decoder': level,
        'model': {'type': 'BPE', 'vocab': {t: i for t, i in vocab.items()}, 'merges': []}}),
        ('tokenizer_config', {'bos_token': '<s>', 'eos_token': '</s>', 'pad_token': '<pad>'})):
    with open(os.path.join(folder, name + '.json'), 'w') as file:
        json.dump(value, file)
with open(os.path.join(folder, 'chat_template.jinja'), 'w') as file:  # the last message is the script's number
    file.write('{%- for t in tools or [] %}{{ t.function.name }} {% endfor %}')
    file.write("{%- for m in messages if m.tool_calls and form == 'args' %}[TOOL_CALLS]f[ARGS]{}{% endfor %}")
    for i, (end, *_) in enumerate(SCRIPTS):
        file.write("{%%- if messages[-1].content == '%d' %%}{{ %s }}{%% endif %%}" % (i, json.dumps(end + begin(i))))
