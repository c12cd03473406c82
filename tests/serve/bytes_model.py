"""bytes_model.py MODEL FOLDER - copies a model with a small vocabulary and makes its tokens bytes. The copy can write
any text, which makes no sense."""
import json
import os
import shutil
import sys

model, folder = sys.argv[1:]
os.makedirs(folder)
for name in os.listdir(model):
    shutil.copyfile(os.path.join(model, name), os.path.join(folder, name))
shown = [b for b in range(256) if 33 <= b < 127 or 161 <= b < 173 or b > 173]
names = {b: chr(b) for b in shown}
names.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in shown)})
vocab = {names[b]: b for b in range(256)}
special = [{'id': 256 + i, 'content': text, 'special': True} for i, text in enumerate(('<s>', '</s>', '<pad>'))]
vocab.update({token['content']: token['id'] for token in special})
blanks = {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': False, 'use_regex': True}
with open(os.path.join(folder, 'tokenizer.json'), 'w') as file:
    json.dump({'version': '1.0', 'added_tokens': special, 'pre_tokenizer': blanks, 'decoder': blanks,
               'model': {'type': 'BPE', 'vocab': vocab, 'merges': []}}, file)
with open(os.path.join(folder, 'config.json')) as file:
    config = json.load(file)
config.update(bos_token_id=256, eos_token_id=257, pad_token_id=258)
with open(os.path.join(folder, 'config.json'), 'w') as file:
    json.dump(config, file)
