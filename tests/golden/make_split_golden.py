#!/usr/bin/env python3
"""make_split_golden.py - makes the `tokenizers` library's tokens of difficult texts for every released pre-tokenizer
that a GGUF file's tokenizer.ggml.pre can name.

    python tests/golden/make_split_golden.py tests/data/tokenizers

All pre-tokenizers share one small byte-level vocabulary. Its merges were learned without pre-tokenization and cross
every border, so a wrong border changes the ids. Writes splits/vocab.gguf (without a `pre`) and splits/expected.json:
for each text the different lists of ids, and for each pre-tokenizer the index of its list. The last text, all others
joined, is too large and omitted. Needs the Python package tokenizers.
"""
import json
import os
import sys

import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from make_tokenizer_golden import CAMEL_TAIL, GPT2_CONTRACTIONS, GPT4O, LLAMA3, NASTY, QWEN2, TEKKEN, byte_level_gguf, corpus

# Texts for single patterns, besides the texts for all tokenizers.
MORE = ["a  \n", "x \r\n \r y", "中文和English混合。ひらがな、カタカナ「」한국어!", "９９１２３！？（全角）", "‘quoted’ “text” 　wide", "i'd we'LL 'VE 'Sx",
        "漢a字b仮かナ1", "é\u0301è नमस्ते ภาษาไทย क्षत्रिय", "(hello) [World] {x} <y> #tag @me $var %d ^z", "\n\n\n  \n x", "a'b'c 'sm 'dm",
        "ｆｕｌｌ ＷＩＤＴＨ Ω K Å", "١٢٣٤٥ ๑๒๓๔ ½²", "foo/bar//baz/\n/", "...\n\n...\r\n", " \u3000 \u00a0 ", "ǆǅǄ ԱԲ აბ ᲐᲑ ᏣᏤ ꭰ", "\t\tif (x) {\n\t\t\treturn 12345;\n\t\t}",
        "a  1   23 b", "end.\n\nNext!\r\n?\n", " whole Whole  whole"]

GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
CASED = ("A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376"
         "\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556"
         "\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15"
         "\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe"
         "\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113"
         "\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184"
         "\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e"
         "\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
         "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943")
EAST_ASIAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
NOT_HAN_UPPER, NOT_HAN_LOWER = (rf"[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}&&[^\p{{Han}}]]", rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}&&[^\p{{Han}}]]")
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"

# name: patterns one after another, NFC first, ignore_merges; from the tokenizer.json (Kimi: tokenization_kimi.py) of
# the models that the name stands for.
DIGITS = "digits"
SPLITS = {
    "gpt-2": ([GPT2], False, False),
    "mpt": ([GPT2], True, False),
    "starcoder": ([DIGITS, GPT2], False, False),
    "command-r": ([DIGITS, GPT2], True, False),
    "llama-bpe": ([LLAMA3], False, True),
    "dbrx": ([LLAMA3], False, False),
    "qwen2": ([QWEN2], True, False),
    "grok-2": ([QWEN2], False, False),
    "qwen35": ([GPT2_CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + TAIL], True, False),
    "gpt-4o": ([GPT4O], False, False),
    "tekken": ([TEKKEN], False, True),
    "deepseek-llm": (["[\r\n]", f"\\s?[{CASED}]+", r"\s?[!-/:-~" + "\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
                      r"\s+$", EAST_ASIAN, DIGITS], False, False),
    "deepseek-coder": (["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST_ASIAN, DIGITS], False, False),
    "deepseek-v3": ([r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
                     "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
                     "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"], False, False),
    "kimi-k2": ([rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{NOT_HAN_UPPER}*{NOT_HAN_LOWER}+{GPT2_CONTRACTIONS}?"
                 rf"|[^\r\n\p{{L}}\p{{N}}]?{NOT_HAN_UPPER}+{NOT_HAN_LOWER}*{GPT2_CONTRACTIONS}?"
                 r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL], False, False),
    "seed-coder": ([GPT2_CONTRACTIONS + "|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+"
                    "|\\s+(?!\\S)|\\s+"], False, False),
    "bailingmoe": ([r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
                   False, False),
    "minicpm5": ([r"\p{N}{1,3}", LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}+")], False, True),
}


def tokenizer_of(vocab, merges, patterns, compose, ignore_merges):
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore_merges))
    if compose:
        tokenizer.normalizer = normalizers.NFC()
    steps = [pre_tokenizers.Digits(individual_digits=True) if p == DIGITS else pre_tokenizers.Split(Regex(p), "isolated")
             for p in patterns]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def main():
    folder = os.path.join(sys.argv[1], "splits")
    texts = NASTY[:-1] + MORE
    base = Tokenizer(models.BPE())
    base.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    base.decoder = decoders.ByteLevel()
    lines = [text for text in corpus()] + [text for text in MORE * 3] + ["1234567 89 0.123 ١٢٣", "it's I'm you'LL\n\n  x", "。中文,a1 b2",
             "end.\n\nNext!\r\n?\nwhy.\n", "a  1   2  3"] * 8
    base.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=1200, special_tokens=[], show_progress=False,
                                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    content = json.loads(base.to_str())["model"]
    vocab, merges = content["vocab"], [tuple(m) for m in content["merges"]]
    vocab["\u0120whole"] = len(vocab)  # no merge produces it; for ignore_merges
    lists = [[] for _ in texts]
    which = {}
    for name, (patterns, compose, ignore_merges) in SPLITS.items():
        tokenizer = tokenizer_of(vocab, merges, patterns, compose, ignore_merges)
        which[name] = []
        for i, text in enumerate(texts):
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            if ids not in lists[i]:
                lists[i].append(ids)
            which[name].append(lists[i].index(ids))
    for name, row in which.items():
        same = [other for other in which if other != name and which[other] == row]
        if same:
            print(f"{name}: gives what {', '.join(same)} gives")
    base = tokenizer_of(vocab, merges, [], False, False)
    byte_level_gguf(os.path.join(folder, "vocab.gguf"), base, None)
    with open(os.path.join(folder, "expected.json"), "w") as out:
        json.dump({"tokenizers": tokenizers.__version__, "more": MORE, "which": which, "ids": lists}, out, separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    main()
