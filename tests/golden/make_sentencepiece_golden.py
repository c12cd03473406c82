#!/usr/bin/env python3
"""make_sentencepiece_golden.py - makes small SentencePiece models, and the `sentencepiece` library's tokens of
difficult texts.

    python tests/golden/make_sentencepiece_golden.py tests/data/tokenizers

Writes pieces-NAME/tokenizer.model and pieces-NAME/expected.json, which has null for texts that the library changes
(those with a NUL). Needs the Python package sentencepiece.
"""
import io
import json
import os
import sys

import sentencepiece

from make_tokenizer_golden import NASTY, SCRIPTS, corpus

RUNS = ["▁" * n for n in range(2, 9)] + ["\n" * n for n in range(1, 5)]
MORE = ["    four", "a        eight b", "x\n\n\ny", "<user>hi</user>", " <user> hi ", "▁▁▁", "tab\t\tend  ", "   "]
KINDS = {
    # like Llama 2 and Mistral
    "llama": dict(byte_fallback=True, split_digits=True, remove_extra_whitespaces=False, allow_whitespace_only_pieces=True),
    # like Gemma: no space in front; runs of spaces and line ends are pieces
    "gemma": dict(byte_fallback=True, split_digits=True, remove_extra_whitespaces=False, add_dummy_prefix=False,
                  user_defined_symbols=RUNS + ["<user>", "</user>"], control_symbols=["<start_of_turn>", "<end_of_turn>"],
                  pad_id=0, eos_id=1, bos_id=2, unk_id=3),
    # the library's defaults, except for the normalizer
    "plain": dict(user_defined_symbols=["<user>", "</user>"]),
}


def train(**options):
    model = io.BytesIO()
    lines = [line for text in corpus() if text not in SCRIPTS[4:] for line in text.split("\n") if line.strip() and len(line) < 300]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, minloglevel=2, num_threads=1,
                                             max_sentence_length=100000, character_coverage=0.98, **options)
    return model.getvalue()


def main():
    for name, options in KINDS.items():
        folder = os.path.join(sys.argv[1], f"pieces-{name}")
        os.makedirs(folder, exist_ok=True)
        data = train(model_type="bpe", normalization_rule_name="identity", vocab_size=800, **options)
        pieces = sentencepiece.SentencePieceProcessor(model_proto=data)
        rows = []
        for text in NASTY[:-1] + MORE:
            ids = pieces.encode(text)
            # decoded text, if no piece is the unknown piece
            decoded = None if pieces.unk_id() in ids else pieces.decode(ids)
            rows.append(None if "\0" in text else [ids] if decoded == text else [ids, decoded])
        with open(os.path.join(folder, "tokenizer.model"), "wb") as out:
            out.write(data)
        about = {"sentencepiece": sentencepiece.__version__, "unknown": pieces.unk_id(), "bos": pieces.bos_id(),
                 "eos": pieces.eos_id(), "count": len(pieces), "more": MORE, "texts": rows}
        with open(os.path.join(folder, "expected.json"), "w") as out:
            json.dump(about, out, separators=(",", ":"))
            out.write("\n")


if __name__ == "__main__":
    main()
