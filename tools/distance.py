"""distance.py - shared by tools/int8_distance.py and tools/entry_distance.py: windows of a text, the logits of kvcull
and llama.cpp for their tokens, and the Kullback-Leibler divergence between them.
"""
import json
import os

from llama_engine import add_model_options, fail, kvcull, kvcull_json, positive

TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "real", "prose.txt")
ROWS = 16  # number of rows processed at once, in float64


class Distance:
    """The distance of one program's rows of logits from the reference."""

    def __init__(self, label, entries, logits, beside=None):
        """logits(window) returns [n, vocab]. beside: the Distance with which this one is compared."""
        self.label, self.entries, self.logits, self.beside = label, entries, logits, beside
        self.windows, self.same, self.surprise = [], 0, []

    def add(self, np, measure, other, tokens):
        """Adds rows [n, vocab] of the reference (`measure`) and of the other program. tokens: the window's n tokens.
        Each row predicts the next token."""
        divergence = []
        for at in range(0, len(tokens), ROWS):
            p, q = (logs(np, rows[at:at + ROWS]) for rows in (measure, other))
            divergence += (np.exp(p) * (p - q)).sum(1).tolist()
            self.same += int((p.argmax(1) == q.argmax(1)).sum())
            following = tokens[at + 1:at + 1 + ROWS]
            self.surprise += (-q[np.arange(len(following)), following]).tolist()
        self.windows.append(divergence)

    def mean(self, np):
        """Returns the mean divergence per token."""
        return np.mean(np.concatenate(self.windows))

    def share_same(self):
        """Returns the fraction of rows whose most likely token is that of the reference."""
        return self.same / sum(map(len, self.windows))

    def perplexity(self, np):
        return np.exp(np.mean(self.surprise))


def standard_error(np, values):
    """Returns the standard error of the mean of one value per window, or None for a single window."""
    return np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else None


def logs(np, rows):
    """Returns log probabilities in float64."""
    rows = np.asarray(rows, dtype=np.float64)
    rows = rows - rows.max(1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(1, keepdims=True))


def our_logits(np, arguments, path, tokens, math, entries, out):
    """Returns kvcull's logits [n, vocab], read from a safetensors file with one tensor: eight bytes of length, JSON,
    values."""
    ids = out + ".tokens"
    with open(ids, "w", encoding="ascii") as file:
        file.write(",".join(map(str, tokens)))
    kvcull(arguments.kvcull, "logits", "-m", path, "--tokens", "@" + ids, "--math", math, "--kv-type", entries,
           "--threads", str(arguments.threads), "-o", out, "-q")
    with open(out, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        tensor = json.loads(file.read(length))["logits"]
    return np.memmap(out, np.float32, "r", 8 + length + tensor["data_offsets"][0], tuple(tensor["shape"]))


def their_logits(np, llama, tokens):
    llama.clear()
    llama.load([(token, i, 0) for i, token in enumerate(tokens)], True)
    llama.compute()
    return np.ctypeslib.as_array(llama.logits(), shape=(len(tokens) * llama.vocab,)).reshape(len(tokens), llama.vocab)


def windows_of(arguments, path):
    """Returns lists of --tokens ids."""
    tokenize = ("tokenize", "-m", path, "-f", arguments.text)
    ids = kvcull_json(arguments.kvcull, *tokenize, "--no-bos")["tokens"]
    with_bos = kvcull_json(arguments.kvcull, *tokenize)["tokens"]
    bos = with_bos[:len(with_bos) - len(ids)]
    each = arguments.tokens - len(bos)
    if len(ids) < each * arguments.windows:
        fail(f"{arguments.text}: {len(ids)} tokens; {arguments.windows} windows of {arguments.tokens} are more", 3)
    return [bos + ids[i * each:(i + 1) * each] for i in range(arguments.windows)]


def add_options(parser, tokens):
    add_model_options(parser)
    parser.add_argument("--text", default=TEXT, metavar="FILE", help="the text (tests/real/prose.txt)")
    parser.add_argument("--tokens", type=positive, default=tokens, metavar="N", help=f"tokens of a window ({tokens})")
    parser.add_argument("--windows", type=positive, default=4, metavar="N", help="number of windows (4)")
    parser.add_argument("--threads", type=positive, default=os.cpu_count(), metavar="N",
                        help="threads of both programs (all cores)")
    parser.add_argument("--alone", action="store_true", help="measure kvcull only, without llama.cpp")


def header(cells):
    print("| " + " | ".join(cells) + " |\n" + "|---" * len(cells) + "|", flush=True)


def line(cells):
    print("| " + " | ".join(cells) + " |", flush=True)
