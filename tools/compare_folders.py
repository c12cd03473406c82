#!/usr/bin/env python3
"""compare_folders.py - writes models as Hugging Face folders with kvcull, reads them with transformers, and compares
logits and tokens.

    python tools/compare_folders.py KVCULL MODEL...

Each MODEL is a GGUF file or a folder; kvcull converts it to a float32 folder. The logits of TOKENS ids are compared
in float32. If the model has a tokenizer, each text of tests/data/tokenizers/texts.json is encoded and compared. Exit
status: 0 if no row of logits differs by more than LIMIT and all texts have equal tokens, otherwise 1. Needs
transformers, torch, safetensors and numpy.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import safetensors.numpy
import torch
import transformers

TOKENS, LIMIT = 40, 2e-5


def kvcull(program, *arguments, **more):
    made = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, **more)
    if made.returncode:
        sys.exit(made.stderr)
    return made.stdout


def texts_that_differ(program, model, folder, texts):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    differ = 0
    for text in texts:
        ours = json.loads(kvcull(program, "tokenize", "-m", model, "--json", "-f", "-", input=text))["tokens"]
        differ += ours != tokenizer(text, split_special_tokens=True)["input_ids"]
    return differ


def compare(program, model, texts):
    with tempfile.TemporaryDirectory() as work:
        folder, out = os.path.join(work, "folder"), os.path.join(work, "logits.safetensors")
        kvcull(program, "convert", model, "-o", folder + "/", "--type", "f32", "-q")
        loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                                   experts_implementation="eager").eval()
        ids = [(7 * i + 3) % loaded.config.vocab_size for i in range(TOKENS)]
        kvcull(program, "logits", "-m", model, "--tokens", ",".join(map(str, ids)), "--out", out)
        ours = safetensors.numpy.load_file(out)["logits"].astype(np.float64)
        with torch.no_grad():
            theirs = loaded(torch.tensor([ids])).logits[0].double().numpy()
        error = np.max(np.linalg.norm(ours - theirs, axis=1) / np.linalg.norm(theirs, axis=1))
        there = os.path.exists(os.path.join(folder, "tokenizer.json"))
        differ = texts_that_differ(program, model, folder, texts) if there else 0
    text = f", {differ} texts differ" if there else ""
    print(f"{model}: largest relative error of a row {error:.1e}{text}", flush=True)
    return error <= LIMIT and not differ


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    transformers.logging.set_verbosity_error()
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(top, "tests/data/tokenizers/texts.json")) as file:
        texts = [text for text in json.load(file)[:-1] if text and "\0" not in text]
    sys.exit(not all([compare(sys.argv[1], model, texts) for model in sys.argv[2:]]))


if __name__ == "__main__":
    main()
