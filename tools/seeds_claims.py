"""seeds_claims.py - the main claims of the papers, and for each claim the comparisons of tools/seeds.py's runs that
test it. These texts contain no measured numbers; the page inserts them from the runs."""
from seeds import BUDGETS, TAKE, TAKE_BOTH, TAKE_MAX, TAKE_PROBES


class Comparison:
    """Policy a compared with policy b on the same samples. lower: less is better. value: a further value of the task."""

    def __init__(self, name, task, question, a, b, lower=False, value=None):
        self.set, self.task, self.question, self.a, self.b = name, task, question, a, b
        self.lower, self.value = lower, value


class Claim:
    """level: the claim is only that a is at least about as good as b, not that it is better."""

    def __init__(self, title, text, source, why, comparisons, level=False):
        self.title, self.text, self.source, self.why = title, text, source, why
        self.comparisons, self.level = comparisons, level


PROMPT_SETS = (("demo-niah", "facts"), ("smollm2-niah", "needle"), ("gemma3-niah", "needle"))
KV = ("smollm2-kv", "UUIDs")
NEEDLE, DEMO_TAKE = ("smollm2-niah", "needle"), ("demo-take", "facts")
DEMO_ORDER, DEMO_TRAFFIC = ("demo-order", "facts"), ("demo-traffic", "facts")
LONG = (("demo-answer", "eight questions in one answer", "answer", 128, False),
        ("demo-answer", "eight questions in one answer", "answer", 256, False),
        ("smollm2-list", "list", "seen", 200, False), ("smollm2-perplexity", "nats/token", "none", 64, True))
LAYERS = (("demo-layers", "eight questions in one answer", "answer", 128, 1, False),
          ("demo-layers", "eight questions in one answer", "answer", 256, 1, False),
          ("smollm2-layers-list", "list", "seen", 200, 3, False),
          ("smollm2-layers", "nats/token", "none", 64, 3, True))
DECODE_SNAPKV = "snapkv:budget={0}+snapkv-decode:budget={0}"


def prompt(sets, pairs, ways=("seen", "unseen")):
    """Compares needles of real models by their digits: at small budgets, whole numbers are rarely right."""
    value = lambda task: "digits" if task == "needle" else None
    return [Comparison(name, value(task) or task, question, a, b, value=value(task))
            for a, b in pairs for name, task in sets for question in ways]


def long_answers(*pairs):
    return [Comparison(name, task, question, a.format(budget), b.format(budget), lower)
            for a, b in pairs for name, task, question, budget, lower in LONG]


def turns(*pairs):
    sets = (("demo-turns", "eight turns", "turns", 64), ("demo-turns", "eight turns", "turns", 128),
            ("smollm2-turns", "scb turns", "seen", 128))
    return [Comparison(name, task, question, a.format(budget), b.format(budget))
            for a, b in pairs for name, task, question, budget in sets]


def recall(*pairs, value=None, lower=False):
    return [Comparison("smollm2-recall", value or "recall", "none", a, b, lower, value) for a, b in pairs]


MORPHKV = [
    Claim("Long answers: above h2o and streaming at the same memory",
          "on long answers MorphKV is more accurate than H2O and methods that keep a window (18.2 % above H2O on "
          "average; LongWriter 69.5 versus 68.5, Llama-3.1-8B)", "section 1, Table 1",
          "The eight questions of one answer ask for facts of the prompt that nothing referred to before. morphkv "
          "chooses by the last 32 tokens, so it has evicted these facts by then, as h2o and streaming have. The "
          "answers in the paper continue the subject of their own last tokens. docs/measured/needle.md analyses "
          "morphkv on this task.",
          long_answers(("morphkv:budget={}", "h2o:budget={}"), ("morphkv:budget={}", "streaming:budget={}"))),
    Claim("Long answers: above SnapKV",
          "MorphKV is more accurate than SnapKV, which keeps every token of the answer (9.4 % on average; "
          "LongGenBench 45 versus 44 Llama, 52 versus 49 Mistral, 47 versus 39 Qwen). The second policy compared "
          "here also evicts tokens of the answer",
          "section 1, Table 2",
          "snapkv pools its scores over neighbours and chooses once, before the later questions. morphkv chooses "
          "again at every step, by the current question. The first is better if answers keep to the facts of the "
          "prompt. The fair comparison at morphkv's memory is snapkv with snapkv-decode; the paper's SnapKV holds "
          "every token of the answer.",
          long_answers(("morphkv:budget={}", "snapkv:budget={}"), ("morphkv:budget={}", DECODE_SNAPKV))),
    Claim("Coarse eviction costs little",
          "evicting at every 8th step, completion is 71.9 % instead of 72.1, accuracy 46.1 instead of 47.0",
          "arXiv version, appendix A.5, Table 10",
          "Between two evictions the cache grows by one entry a step. So a coarse eviction has a few more entries, "
          "and chooses by fresher rows.",
          long_answers(("morphkv:budget={},every=4", "morphkv:budget={}"),
                       ("morphkv:budget={},every=16", "morphkv:budget={}")), level=True),
    Claim("Fusion by maximum",
          "max() fusion is better than sum() where few tokens matter: LongBench by 1 %, LongGenBench; sum() is better "
          "in open-ended writing", "sections 5.2, 6.1, Tables 4 and 5",
          "One or two of the 32 queries attend to a fact. The maximum preserves that; in the sum the entries that "
          "all queries attend to dominate.",
          long_answers(("morphkv:budget={},fusion=max", "morphkv:budget={}"))),
    Claim("The first layers left full",
          "with the first three layers full, completion is 71.96 % instead of 70.51, accuracy 46.1 instead of 44.2, "
          "with 10 % more memory", "arXiv version, appendix A.6, Table 11",
          "Three are a tenth of SmolLM2's 30 layers, which agrees with the paper's 10 % more memory. The bundled model "
          "has four layers, of which one is left full. These rows were run on 29 November 2026, with arithmetic int8 "
          "2.",
          [Comparison(name, task, question, f"morphkv:budget={budget},skip_layers={first}",
                      f"morphkv:budget={budget}", lower)
           for name, task, question, budget, first, lower in LAYERS]),
    Claim("Less repetition in long answers",
          "68 % of the runs of ten words of MorphKV's answers repeat an earlier run, and 89 % with SnapKV and with the "
          "full cache (Llama-3.1-8B)", "arXiv version, section 7.2, Table 5",
          "With the full cache, SmolLM2's answers repeat nothing, so eviction has no repetition to prevent. Gemma 3, "
          "which is not trained to follow instructions, writes the same list again and again with the full cache. "
          "morphkv repeats less than the full cache, but not less than snapkv. The rate misses one failure: answers "
          "that end with a single word on line after line, each with a new number, have no run of ten words that "
          "repeats. The last 60 lines of six answers of snapkv and of three answers of morphkv are of this kind. "
          "Gemma 3's rows were run on 29 November 2026 on a Xeon with AVX-512 VNNI, with arithmetic int8 3 "
          "(`gemma3-repeated`, at the end of this page).",
          [Comparison(name, "repeated", "seen", "morphkv:budget=200", other, True, "repeated") for name, other in (
              ("smollm2-layers-list", "full"), ("gemma3-repeated", "full"), ("gemma3-repeated", "snapkv:budget=200"))]),
    Claim("A wide window for answers that need the prompt",
          "a window of 200 instead of 32 lifts LongGenBench's accuracy: 42 to 45, 50 to 52, 40 to 47",
          "section 6.2, Table 6",
          "A wide window keeps the votes of earlier questions, but its own 128 entries come from the same budget.",
          [Comparison("demo-answer", "eight questions in one answer", "answer",
                      "morphkv:budget=256,window=128,fusion=max", "morphkv:budget=256,fusion=max")]),
    Claim("Tight budgets in long prompts: above SnapKV at the same bytes",
          "at 1 to 7 % of the cache MorphKV's scores fall far less than those of SnapKV, which keeps a list for each"
          " query head and so has G times fewer entries for its bytes", "section 6.3, Figure 10",
          "With a list for each query head, snapkv holds G times the entries of a budget. With one list for a group,"
          " kvcull's default, both methods have the same entries for the same bytes, and only the question whether "
          "morphkv chooses better remains.",
          prompt((DEMO_TRAFFIC,), [("morphkv:budget=256", "snapkv:budget=64,per=head")], ("seen",)) +
          prompt((DEMO_ORDER, NEEDLE), [("morphkv:budget=128", "snapkv:budget=128")], ("seen",))),
]

DAPQ = [
    Claim("The needle at 3 % of the cache",
          "with 256 of 8,000 entries DapQ finds 99.5 % of the needles, SnapKV 91.0; with 128 it is 95.8 and 74.7, with "
          "64 68.3 and 61.7 (Llama-3-8B)", "abstract, Table 15",
          "kvcull's dapq pools as snapkv does; the formula as printed does not. If both keep a fact that was asked "
          "for, neither can be better. With `unseen`, neither window contains a question: dapq's window consists of "
          "the first and last tokens of the text.",
          prompt(PROMPT_SETS, [("dapq:budget=64,content=ends,pseudo=32", "snapkv:budget=64")])),
    Claim("Above SnapKV at larger budgets, too",
          "DapQ has the highest average at nearly every budget (RULER, Llama-3-8B: 56.9 versus 52.2 at 256 entries, "
          "67.8 versus 60.6 at 512)", "section 5.2, Table 11",
          "As above. If the question is in the prompt, snapkv's window contains all of it, and dapq's window "
          "contains its last 28 tokens at other positions.",
          prompt((DEMO_ORDER, *PROMPT_SETS),
                 [(f"dapq:budget={b},content=ends,pseudo=32", f"snapkv:budget={b}") for b in BUDGETS[1:]])),
    Claim("Harder retrieval", "the gap is widest where values are UUIDs (S-NIAH-3 59.6 versus 1.4 at 512 entries)",
          "section 5.2, Table 11",
          "Sets whose task the full cache cannot solve are left out (the table above).",
          prompt((KV,), [(f"dapq:budget={b},content=ends,pseudo=32", f"snapkv:budget={b}") for b in BUDGETS])),
    Claim("Pseudo queries recall what the answer attends to",
          "of the entries that the answer attends to most, a window of pseudo queries at the answer's positions "
          "keeps more than SnapKV's window", "section 3.3, Figure 3",
          "The texts are windows of licences and of a policy, and the answer is the full cache's own continuation. "
          "Recall is the share of the most attended entries that are held, averaged over all heads: the paper's own "
          "measure, on a text without a question. Pooling keeps neighbours instead of the most attended entries. So "
          "both methods lose recall by it, and dapq more. Without pooling, as both formulas are printed (kernel=1), "
          "pseudo queries recall more than the prompt's last queries. But a number needs its neighbours "
          "(docs/measured/needle.md), and so both pool by default.",
          recall(("dapq:budget=64,content=ends,pseudo=32", "snapkv:budget=64"),
                 ("dapq:budget=200,content=ends,pseudo=32", "snapkv:budget=200"),
                 ("dapq:budget=64,content=ends,pseudo=32,kernel=1", "snapkv:budget=64,kernel=1"))),
    Claim("Position matters more than content",
          "the content of the pseudo tokens hardly matters: random ones do nearly as well", "section 6.1, Figure 4(a)",
          "The same windows, with random tokens of the prompt in place of its first 4 and last 28.",
          recall(("dapq:budget=64,content=random,pseudo=32", "dapq:budget=64,content=ends,pseudo=32")), level=True),
]

ORDER = [
    Claim("DapQ, SnapKV, PyramidKV, H2O, StreamingLLM",
          "at tight budgets the methods rank in this order (RULER, Qwen2.5-7B at 256 entries: 38.5, 37.7, 19.0, "
          "14.6, 10.0)",
          "DapQ, Table 11",
          "Each method is compared with the next in the paper's order. pyramidkv gives the lower layers more entries"
          " and the upper ones fewer; which layers look for the fact differs between models.",
          prompt((DEMO_ORDER, NEEDLE), [("dapq:budget=128,content=ends,pseudo=32", "snapkv:budget=128"),
                                        ("snapkv:budget=128", "pyramidkv:budget=128"),
                                        ("pyramidkv:budget=128", "h2o:budget=128,stages=prompt"),
                                        ("h2o:budget=128,stages=prompt", "streaming:budget=128,stages=prompt")],
                 ("seen",))),
    Claim("AdaKV level with SnapKV, CAKE below",
          "LongBench at 128 entries a layer: AdaKV 43.3, SnapKV 43.0, CAKE 42.0 (Llama-3.1-8B)", "TAKE, Table 1",
          "adakv and cake distribute the same entries differently, among heads and among layers.",
          prompt((DEMO_ORDER, NEEDLE), [("adakv:budget=128", "snapkv:budget=128"),
                                        ("snapkv:budget=128", "cake:budget=128")], ("seen",)), level=True),
]

TAKE_CLAIMS = [
    Claim("Above SnapKV at a tenth of the cache, the paper read literally",
          "TAKE is above SnapKV in needles and LongBench (47.5 versus 46.5 at 512 entries, Llama-3.1-8B) although it"
          " never holds the whole prompt", "section 5.2, Figure 5, Table 1",
          "`probe_sees=chunk,pooling=avg,kernel=5`: average pooling over 5, and probes that do not see each other. Both "
          "dilute a fact that few entries mark (docs/measured/take.md).",
          prompt((*PROMPT_SETS, KV), [(TAKE, "snapkv:budget=200")])),
    Claim("The same, defaults: probes that see each other, pooled as snapkv", "the same claim", "section 5.2, Figure 5, Table 1",
          "With these defaults take and snapkv are compared on equal terms: the same pooling, and queries that "
          "know the whole question. take never holds more than a chunk and its budgets; snapkv holds the whole "
          "prompt at its peak.",
          prompt((*PROMPT_SETS, KV), [(TAKE_BOTH, "snapkv:budget=200")])),
    Claim("Above AdaKV and CAKE", "TAKE is above AdaKV by 1.2 and above CAKE by 1.1 at 512 entries (LongBench, "
                                  "Llama-3.1-8B)", "section 5.2, Table 1",
          "On SmolLM2 only.",
          prompt((NEEDLE,), [(TAKE_BOTH, "adakv:budget=200"), (TAKE_BOTH, "cake:budget=200")], ("seen",))),
    Claim("What take's options do: probes, pooling",
          "not a claim of the paper, which leaves open whether probes see each other", "docs/measured/take.md",
          "The first three change one option at a time on the bundled model. The others compare the defaults "
          "with the literal reading on every set.",
          prompt((DEMO_TAKE,), [(TAKE_PROBES, TAKE), (TAKE_MAX, TAKE), (TAKE_BOTH, TAKE_MAX)]) +
          prompt((*PROMPT_SETS, KV), [(TAKE_BOTH, TAKE)]) + recall((TAKE_BOTH, TAKE))),
    Claim("Delayed eviction helps",
          "without delayed eviction needles fall from 91.8 to 80.0 %, LongBench from 47.5 to 45.9",
          "section 5.4, Table 2",
          "In a model of four layers the two lower ones follow one in the middle. On SmolLM2, too, `warmup_layers=0`"
          " gained almost nothing (docs/measured/take.md).",
          prompt((DEMO_TAKE,), [(TAKE_BOTH, TAKE_BOTH + ",warmup_layers=0")])),
]

OTHERS = ("snapkv:budget={}", "quest:budget={},page=auto", "sparq:budget={}", "hsa:budget={}")


def equal_traffic(a, others):
    sets = (DEMO_TRAFFIC, *PROMPT_SETS[1:], KV)
    return prompt(sets, [(a.format(t), b.format(t)) for t in (64, 200) for b in others], ("seen",))


ROCKETKV = [
    Claim("Above SnapKV, Quest, SparQ and HSA at equal traffic",
          "with the traffic of 256 entries: needles 100 % versus 98.3, 10.7, 10.3 and 44.3; LongBench 51.1 versus "
          "42.6, 17.8, 25.7 and 49.5 (Llama-3.1-8B)", "section 4.2, Table 2",
          "Bytes read per token are counted, and are in the tables below. They are nearly equal, by the definition "
          "of the budget. snapkv also saves the memory, rocketkv saves part of it, and quest, sparq and hsa hold "
          "everything.",
          equal_traffic("rocketkv:budget={}", OTHERS)),
    Claim("Near exact top-k", "RocketKV is close to exact top-k, which has 100 % and 52.6 in the same table",
          "section 4.2, Table 2",
          "topk reads all keys to find the entries to read. It is an upper bound for the choice, not for traffic.",
          equal_traffic("rocketkv:budget={}", ("topk:budget={}",)), level=True),
    Claim("HSA above Quest and SparQ", "HSA alone is above Quest and SparQ at every budget", "appendix B.1.1, Figure 8",
          "With the traffic of 64 of 2,000 entries sparq reads two channels of 64, and one of 32 on the bundled "
          "model. quest's pages have 31 entries. hsa has pages of six entries and reads a third of the channels.",
          equal_traffic("hsa:budget={}", OTHERS[1:3])),
    Claim("Over turns: RocketKV-MT above RocketKV and the others",
          "SCBench at 1,024 entries: 44.3 versus RocketKV 26.6, SnapKV 17.6, Quest 15.7, SparQ 13.6 (Llama-3.1-8B)",
          "section 4.2, Table 4",
          "Eight questions in eight turns. A method that evicts permanently chooses by the first question and loses "
          "the other facts. rocketkv-mt filters the whole history again for each question.",
          turns(*[("rocketkv-mt:budget={}", other) for other in (
              "rocketkv:budget={}", "snapkv:budget={}", "quest:budget={},page=auto", "sparq:budget={}")])),
    Claim("Over turns: RocketKV-MT level with exact top-k", "exact top-k has 45.0 in the same table",
          "section 4.2, Table 4",
          "Level means within 0.1. With so few entries the filter of the first stage can miss a fact that exact "
          "attention finds.",
          turns(("rocketkv-mt:budget={}", "topk:budget={}")), level=True),
]

CLAIMS = {"MorphKV (two versions, ICML and arXiv:2503.00979)": MORPHKV, "DapQ": DAPQ, "TAKE": TAKE_CLAIMS,
          "RocketKV (arXiv:2502.14051)": ROCKETKV, "Orders of methods at tight budgets": ORDER}

# ---- texts of the page ----

INTRODUCTION = """Written by tools/seeds.py on DATE. MACHINE. SETTINGS Answers are greedy, in the model's chat
template if it has one. The prompts and answers took MINUTES minutes. With `seen` (the default) the question
is the end of the compressed prompt. With `unseen` the text is compressed before the question arrives."""

COMMANDS = ["tools/seeds.py run --model smollm2=models-local/smollm2.gguf --model gemma3=models-local/gemma3.gguf",
            "tools/seeds.py slim > docs/measured/seeds.jsonl",
            "tools/seeds.py page > docs/measured/seeds.md"]

READING = ["""All policies of a set answer the same samples, so differences are paired. A sample of the
bundled model is a text with four or eight questions, and its score is their mean. Intervals are 95 %:
Wilson's for right or wrong answers, Newcombe's for their paired differences, and Student's for means. A rule
decides the verdict. A claim **holds** if all intervals of its differences are on its side of zero, and **does
not hold** if all are on the other side; `in part` means that only some are, and the others include zero. For
a claim that two methods are level, an interval within 0.1 of zero supports it. One interval of twenty is
wrong by chance, so a single one proves nothing.""",
           """Needles of real models are compared by `digits`: the share of the number's digits with which the answer
begins, in agreement with the full cache's answer. At tight budgets these models rarely get a whole number
right, so right or wrong alone would say nothing.""",
           """To repeat or extend the runs: `run` continues with the files in build/seeds, and every set
advances sample by sample. `--shard 1/2` and `--shard 2/2` in two terminals take half of the time. This page
has all samples of all sets. `--samples N` sets the number of samples, `--minutes M` limits the time, and
`--set NAME` runs one set."""]
SHORT = ["""**What these models can show.** The bundled model was trained to find facts, finds them with the full cache,
and is cheap to run. It shows which entries a method loses, as plainly as a unit test. SmolLM2-135M finds a
needle in 2,000 tokens of real text with the full cache. These models cannot show whether 7B and 8B models,
whose heads look for facts in a few layers and hold them in many entries, rank methods in the same order at
8,000 to 128,000 tokens. The papers' averages over LongBench, RULER and HELMET mix tasks that models of this
size cannot solve. `kvcull eval` runs those tasks (docs/how-to/benchmark-files.md) on any model that fits. If
a third of the answers differ, a difference of 0.05 between two methods needs about 500 paired samples of a
task, and a difference of 0.02 about 3,200."""]
ABLE = """Scores of the full cache. Tasks below 0.3 are not used to compare methods."""
TABLES = """Bytes are means: `held` after the prompt, or the maximum while a long answer grows; `peak` from the first
token to the last, including prefill; and cache bytes read by a decode step. 95 % intervals are in
parentheses."""
