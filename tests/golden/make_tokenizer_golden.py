#!/usr/bin/env python3
"""make_tokenizer_golden.py - trains small tokenizers with real models' splitting patterns, and writes them with the
`tokenizers` library's (and sentencepiece's) tokens of difficult texts.

    python tests/golden/make_tokenizer_golden.py tests/data/tokenizers

Writes texts.json and, for each tokenizer, NAME/tokenizer.json, NAME/expected.json and, if GGUF knows the kind,
NAME/vocab.gguf. Needs the Python packages tokenizers and sentencepiece.
"""
import io
import json
import os
import struct
import sys

import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

GPT2_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = GPT2_CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def camel(ending):
    return rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ending}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ending}"


CAMEL_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = camel(GPT2_CONTRACTIONS + "?") + r"|\p{N}{1,3}" + CAMEL_TAIL
TEKKEN = camel("") + r"|\p{N}" + CAMEL_TAIL

SCRIPTS = [
    "The quick brown fox jumps over the lazy dog. It's what we've said: they'll go, I'd stay, you're late, I'm here.",
    "Zażółć gęślą jaźń. Größe, Straße, naïve café, Ångström, œuvre, İstanbul, ıslak.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ΟΔΥΣΣΕΥΣ",
    "דג סקרן שט בים מאוכזב ולפתע מצא לו חברה", "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر ١٢٣٤",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश ४५६७", "இந்தியா தமிழ் எழுத்துக்கள்", "ขอให้มีความสุขในวันนี้ ๑๒๓",
    "我能吞下玻璃而不伤身体。天地玄黃,宇宙洪荒。", "いろはにほへと ちりぬるを カタカナ ﾊﾝｶｸ", "키스의 고유조건은 입술끼리 만나야 하고", "ქართული ენა", "Հայերեն լեզու",
    "អក្សរខ្មែរ កាន់តែពិសេស", "ᚠᛇᚻ᛫ᛒᛦᚦ", "ᎣᏏᏲ ᏣᎳᎩ", "መጻሕፍት አማርኛ", "བོད་སྐད", "မြန်မာဘာသာ", "𐌰𐌱𐌲 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 Ⅳ ½ ² ₃ ٣ 〇 五",
]
NASTY = SCRIPTS + [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r\n\r\n", "\r", " \n ", "\n \n\t\r\n  x", " " * 77, "a" + " " * 77 + "b",
    "\t" * 9 + "x", "x \n\n\n y", "x  \n", "  leading", "trailing  ", " a", "a b  c   d    e", "\u00a0nb\u00a0sp \u2003em\u3000cjk\u180e\u200b\u2028\u2029\u0085|",
    "\u1680\u202f\u205f\x1c\x1d\x1e\x1f\x0b\x0c", "\x01\x02\x7f\x1b[0m", "a\x00b\x00\x00", "\ufeffBOM", "\ufffd\ufffd bad", "\ue000 private \U0010ffff",
    "🦙", "🚀 (normal) 😶‍🌫️ 👨‍👩‍👧‍👦 🇫🇷🇩🇪 👍🏽 ✅ 1️⃣", "e\u0301 vs \u00e9, o\u0308\u0323, \u1e9b\u0323, \u212b \u2126 \uf900, \u0344", "a\u0300\u0301\u0302\u0303\u0304\u0305" * 5,
    "한글 \u1112\u1161\u11ab \u1100\u1161", "क्\u200dष क\u094d\u0937 \u0958 \u0929", "\u0301start", " \u0301 ", "ﬁ ﬂ ﬀ ㎏ ℌ ⑧ ½",
    "0", "12", "123", "1234", "12345678901234567890", "3.14159e-10", "1,234,567.89", "0x1F 0b101 1_000", "x1y22z333", "²³¹ ⅷ ๑๒๓ ١٢٣", "v1.2.3-rc4",
    "HELLO World fooBarBaz XMLHttpRequest iPhone McDonald's", "I'VE 'tis 'Twas y'all'd've 'S 'ſ 'LL 'Re '' ' s can''t", "don't DON'T don’t", "''''", "\"'`´",
    "!!!???...---===+++", "a.b,c;d:e!f?g", "$100 €5 £3 ¥7 ₹9", "// comment\n/* x */\n#include <stdio.h>\n\tint main(void) { return 0; }\n",
    "https://example.org/a_b?c=d&e=%20#f", "user@example.com", "<b>html</b>&amp;", "a/b/c///\n//\n", "C:\\dir\\file", "_under__score_ -dash- ~tilde~",
    "<|endoftext|>", "a<|im_start|>user\nhi<|im_end|>\n", "<s>x</s>", "<s> <s>  y", "<unk>", "<0x41><0x0A>", "▁▁meta ▁space", "Ġbyte Ċlevel", "x<|pad|>  y  <|pad|>z",
    "word<one>word <one> <one>", "\u200d<one> <one>\u24b6 \U0001f130<one> -<one>-", "Hello world Hello  World hello", "the the the thethethe", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "\u0e33\u0e33 \u0f77", "ǅ ǈ ʰʱ ªº",
    "i\u0307 I\u0307 \u0130", "A" * 130, "Ж" * 70, "x\r\ny\r\r\nz\n\r", "mixed: abcдеж漢字ひらがな123١٢٣😀!?\t\n end",
]
NASTY.append(" ".join(NASTY))


def corpus():
    for _ in range(6):
        yield from SCRIPTS
    for word in "the quick brown fox jumps over lazy dogs hello world return include static int user assistant answer question".split():
        for _ in range(10):
            yield f"{word} {word.capitalize()} {word.upper()} {word}s"
    yield from (text for text in NASTY[len(SCRIPTS):-1] if "\0" not in text)  # jansson accepts no NUL in a key


def byte_level(split, regex, specials, normalizer=None, ignore_merges=False, bos=None, digits=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tokenizer.normalizer = normalizer
    parts = []
    if digits:
        parts.append(pre_tokenizers.Digits(individual_digits=True))
    if split:
        parts.append(pre_tokenizers.Split(Regex(split), "isolated"))
    parts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts) if len(parts) > 1 else parts[0]
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=[], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_tokens([t for t in specials if not t.special])
    tokenizer.add_special_tokens([t for t in specials if t.special])
    if bos:
        tokenizer.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1",
                                          special_tokens=[(bos, tokenizer.token_to_id(bos))])])
    return tokenizer


def special(text, **options):
    return AddedToken(text, special=True, normalized=False, **options)


def sentence_pieces(folder):
    """Makes a SentencePiece BPE model. In tokenizer.json, its merges are all ways to make a piece, in the order of the
    pieces."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in corpus() if text not in SCRIPTS[4:] for line in text.split("\n")
                                if line.strip() and len(line) < 300]), model_writer=model,
        model_type="bpe", vocab_size=800, byte_fallback=True, character_coverage=0.98, split_digits=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
        minloglevel=2, num_threads=1, max_sentence_length=100000)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    spelled = [pieces.id_to_piece(i) for i in range(len(pieces))]
    scores = [pieces.get_score(i) for i in range(len(pieces))]
    kinds = [2 if pieces.is_unknown(i) else 3 if pieces.is_control(i) else 6 if pieces.is_byte(i) else 1
             for i in range(len(pieces))]
    known = {text: i for i, text in enumerate(spelled)}
    merges = []
    for i, text in enumerate(spelled):
        if kinds[i] == 1:
            merges += [(i, known[text[:k]], known[text[k:]], text[:k], text[k:]) for k in range(1, len(text))
                       if text[:k] in known and text[k:] in known]
    merges.sort(key=lambda m: (-scores[m[0]], m[1], m[2]))
    tokenizer = Tokenizer(models.BPE(vocab=known, merges=[m[3:] for m in merges], unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.add_special_tokens([special("<unk>"), special("<s>"), special("</s>")])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1",
                                                             special_tokens=[("<s>", 1)])
    write_gguf(os.path.join(folder, "sentencepiece", "vocab.gguf"), [
        ("tokenizer.ggml.model", "llama"), ("tokenizer.ggml.pre", "default"), ("tokenizer.ggml.tokens", spelled),
        ("tokenizer.ggml.scores", scores), ("tokenizer.ggml.token_type", kinds), ("tokenizer.ggml.bos_token_id", 1),
        ("tokenizer.ggml.eos_token_id", 2), ("tokenizer.ggml.unknown_token_id", 0)])
    differing = 0
    for text in NASTY:  # both libraries must agree on texts without special tokens and NUL
        if not any(s in text for s in ("<s>", "</s>", "<unk>", "\0", "▁")) and text:
            differing += pieces.encode(text) != tokenizer.encode(text, add_special_tokens=False).ids
    print(f"sentencepiece and tokenizers differ on {differing} texts")
    return tokenizer


def metaspace(scheme, split):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=False, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=scheme, split=split)
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme=scheme, split=split)
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False, limit_alphabet=200))
    tokenizer.add_tokens([AddedToken("<one>", single_word=True, normalized=True)])
    tokenizer.add_special_tokens([special("<|pad|>", lstrip=True, rstrip=True)])
    return tokenizer


def words(splitter):
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = splitter
    tokenizer.train_from_iterator(corpus(), trainers.WordLevelTrainer(vocab_size=300, special_tokens=["<unk>", "<s>", "</s>"],
                                                                     show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    return tokenizer


def odd_splits():
    """Makes tokenizers with behaviors and steps that the families above do not use."""
    tokenizer = Tokenizer(models.BPE(unk_token="?"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), normalizers.Replace(Regex(r"\s+"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"[.,;:!?]"), "merged_with_previous"), pre_tokenizers.Split(" ", "merged_with_next"),
        pre_tokenizers.Split(Regex(r"\p{L}+"), "contiguous"), pre_tokenizers.Split(Regex(r"[\w ]+|[^\w ]+"), "removed", invert=True),
        pre_tokenizers.Digits(individual_digits=False)])
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=600, special_tokens=["?"], show_progress=False,
                                                               limit_alphabet=300))
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def write_gguf(path, pairs):
    os.makedirs(os.path.dirname(path), exist_ok=True)

    def text(value):
        data = value.encode()
        return struct.pack("<Q", len(data)) + data

    with open(path, "wb") as out:
        pairs = [("general.architecture", "llama")] + pairs
        out.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)))
        for key, value in pairs:
            out.write(text(key))
            if isinstance(value, str):
                out.write(struct.pack("<I", 8) + text(value))
            elif isinstance(value, int):
                out.write(struct.pack("<II", 4, value))
            elif isinstance(value[0], str):
                out.write(struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value)))
            elif isinstance(value[0], float):
                out.write(struct.pack("<IIQ", 9, 6, len(value)) + struct.pack(f"<{len(value)}f", *value))
            else:
                out.write(struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value))


def byte_level_gguf(path, tokenizer, pre, bos=None):
    content = json.loads(tokenizer.to_str())
    vocab = dict(content["model"]["vocab"])
    kinds = {i: 1 for i in vocab.values()}
    for token in content["added_tokens"]:
        vocab[token["content"]] = token["id"]
        kinds[token["id"]] = 3 if token["special"] else 4
    spelled = sorted(vocab, key=vocab.get)
    merges = [m if isinstance(m, str) else " ".join(m) for m in content["model"]["merges"]]
    pairs = [("tokenizer.ggml.model", "gpt2"), ("tokenizer.ggml.pre", pre), ("tokenizer.ggml.tokens", spelled),
             ("tokenizer.ggml.token_type", [kinds[i] for i in range(len(spelled))]), ("tokenizer.ggml.merges", merges)]
    if bos:
        pairs.append(("tokenizer.ggml.bos_token_id", vocab[bos]))
    write_gguf(path, [pair for pair in pairs if pair[1] is not None])


def write(folder, name, tokenizer):
    os.makedirs(os.path.join(folder, name), exist_ok=True)
    with open(os.path.join(folder, name, "tokenizer.json"), "w") as out:
        json.dump(json.loads(tokenizer.to_str()), out, ensure_ascii=True, separators=(",", ":"))
        out.write("\n")
    rows = []
    for text in NASTY:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        decoded = tokenizer.decode(ids, skip_special_tokens=False)
        rows.append({"ids": ids} if decoded == text else {"ids": ids, "decoded": decoded})
    hello = tokenizer.encode("Hello world", add_special_tokens=True).ids
    with open(os.path.join(folder, name, "expected.json"), "w") as out:
        json.dump({"tokenizers": tokenizers.__version__, "with_bos": hello, "texts": rows}, out, separators=(",", ":"))
        out.write("\n")


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "texts.json"), "w") as out:
        json.dump(NASTY, out, ensure_ascii=True, indent=0)
        out.write("\n")
    chatml = [special("<|endoftext|>"), special("<|im_start|>"), special("<|im_end|>"), AddedToken("<one>", normalized=False)]
    made = {
        "gpt2": ("gpt-2", byte_level(None, True, [special("<|endoftext|>")])),
        "starcoder": ("starcoder", byte_level(None, True, [special("<|endoftext|>")], digits=True)),
        "llama3": ("llama-bpe", byte_level(LLAMA3, False, [special("<|begin_of_text|>"), special("<|eot_id|>")],
                                           ignore_merges=True, bos="<|begin_of_text|>")),
        "qwen2": ("qwen2", byte_level(QWEN2, False, chatml, normalizer=normalizers.NFC())),
        "gpt4o": ("gpt-4o", byte_level(GPT4O, False, [special("<|endoftext|>"), special("<|pad|>", lstrip=True, rstrip=True)])),
        "tekken": ("tekken", byte_level(TEKKEN, False, [special("<s>"), special("</s>")], ignore_merges=True, bos="<s>")),
    }
    for name, (pre, tokenizer) in made.items():
        write(folder, name, tokenizer)
        if name != "gpt4o":  # GGUF cannot express its stripping
            byte_level_gguf(os.path.join(folder, name, "vocab.gguf"), tokenizer, pre,
                            {"llama3": "<|begin_of_text|>", "tekken": "<s>"}.get(name))
    write(folder, "sentencepiece", sentence_pieces(folder))
    write(folder, "metaspace-first", metaspace("first", False))
    write(folder, "metaspace-always", metaspace("always", True))
    write(folder, "words", words(pre_tokenizers.WhitespaceSplit()))
    write(folder, "words-punctuation", words(pre_tokenizers.Whitespace()))
    write(folder, "odd-splits", odd_splits())


if __name__ == "__main__":
    main()
