"""seeds_claims.py - the headline claims of the papers, with the comparisons of tools/seeds.py's runs that bear on each.
Figures of ours stand nowhere in these words: the page has them from the runs."""
from seeds import BUDGETS, TAKE, TAKE_BOTH, TAKE_MAX, TAKE_PROBES


class Comparison:
    """Policy a beside policy b on the same samples; lower: less is better; value: a further figure of the task."""

    def __init__(self, name, task, question, a, b, lower=False, value=None):
        self.set, self.task, self.question, self.a, self.b = name, task, question, a, b
        self.lower, self.value = lower, value


class Claim:
    """level: that a is about as good as b (or better), not that it is better."""

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
DECODE_SNAPKV = "snapkv:budget={0}+snapkv-decode:budget={0}"


def prompt(sets, pairs, ways=("seen", "unseen")):
    """Needles of real models are compared by their digits: at tight budgets whole numbers are rarely right."""
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
          "on long answers MorphKV is more accurate than H2O and methods that keep a window (18.2 % above H2O in the "
          "mean; LongWriter 69.5 beside 68.5, Llama-3.1-8B)", "section 1, Table 1",
          "The eight questions of one answer ask for facts of the prompt that nothing pointed to before: morphkv, "
          "which chooses by the last 32 tokens, has by then let them go, as h2o and streaming have. The paper's "
          "answers go on with what their own last tokens are about. docs/measured/needle.md takes morphkv's part "
          "of this task apart.",
          long_answers(("morphkv:budget={}", "h2o:budget={}"), ("morphkv:budget={}", "streaming:budget={}"))),
    Claim("Long answers: above SnapKV",
          "and than SnapKV, which keeps every token of the answer (9.4 % in the mean; LongGenBench 45 beside 44 Llama, "
          "52 beside 49 Mistral, 47 beside 39 Qwen); the second here evicts the answer's tokens, too, as ours can",
          "section 1, Table 2",
          "snapkv pools its scores over neighbours and chooses once, while the questions are still to come; "
          "morphkv chooses anew at every step by what is asked now. Where answers keep to the prompt's facts the "
          "first is better. At the same memory as morphkv's, snapkv-decode beside snapkv is the fair rival; the "
          "paper's SnapKV holds every token of the answer.",
          long_answers(("morphkv:budget={}", "snapkv:budget={}"), ("morphkv:budget={}", DECODE_SNAPKV))),
    Claim("Coarse eviction costs little",
          "evicting at every 8th step, completion is 71.9 % instead of 72.1, accuracy 46.1 instead of 47.0",
          "arXiv version, appendix A.5, Table 10",
          "Between two evictions the cache grows by a step's entry each, so a coarse one has a few entries more "
          "and chooses by fresher rows.",
          long_answers(("morphkv:budget={},every=4", "morphkv:budget={}"),
                       ("morphkv:budget={},every=16", "morphkv:budget={}")), level=True),
    Claim("Fusion by maximum",
          "max() fusion is better than sum() where few tokens matter: LongBench by 1 %, LongGenBench; sum() is better "
          "in open-ended writing", "sections 5.2, 6.1, Tables 4 and 5",
          "A fact is attended to by one or two of the 32 queries: the maximum sees that, the sum drowns it in what "
          "all of them look at.",
          long_answers(("morphkv:budget={},fusion=max", "morphkv:budget={}"))),
    Claim("A wide window for answers that need the prompt",
          "a window of 200 instead of 32 lifts LongGenBench's accuracy: 42 to 45, 50 to 52, 40 to 47",
          "section 6.2, Table 6",
          "A wide window keeps the votes of earlier questions, and its own 128 entries are taken from the same "
          "budget.",
          [Comparison("demo-answer", "eight questions in one answer", "answer",
                      "morphkv:budget=256,window=128,fusion=max", "morphkv:budget=256,fusion=max")]),
    Claim("Tight budgets in long prompts: above SnapKV at the same bytes",
          "at 1 to 7 % of the cache MorphKV's scores fall far less than those of SnapKV, which keeps lists per query "
          "head and so has G times fewer entries for its bytes", "section 6.3, Figure 10",
          "With lists per query head snapkv holds G times the entries of a budget; with one list for a group, as "
          "kvcull has it by default, both have the same entries for the same bytes, and what is left of the claim "
          "is whether morphkv chooses better.",
          prompt((DEMO_TRAFFIC,), [("morphkv:budget=256", "snapkv:budget=64,per=head")], ("seen",)) +
          prompt((DEMO_ORDER, NEEDLE), [("morphkv:budget=128", "snapkv:budget=128")], ("seen",))),
]

DAPQ = [
    Claim("The needle at 3 % of the cache",
          "with 256 of 8,000 entries DapQ finds 99.5 % of the needles, SnapKV 91.0; with 128 it is 95.8 and 74.7, with "
          "64 68.3 and 61.7 (Llama-3-8B)", "abstract, Table 15",
          "Our dapq pools as snapkv does (its formula as printed does not). Where both keep a fact that was asked "
          "for there is nothing to be above. Unseen, neither window asks for anything: dapq's is made of the text's "
          "own first and last tokens.",
          prompt(PROMPT_SETS, [("dapq:budget=64", "snapkv:budget=64")])),
    Claim("Above SnapKV at larger budgets, too",
          "the highest average at nearly every budget (RULER, Llama-3-8B: 56.9 beside 52.2 at 256 entries, 67.8 beside "
          "60.6 at 512)", "section 5.2, Table 11",
          "As above: where the question is in the prompt, snapkv's window has it word by word, and dapq's window "
          "has its last 28 tokens at other positions.",
          prompt((DEMO_ORDER, *PROMPT_SETS), [(f"dapq:budget={b}", f"snapkv:budget={b}") for b in BUDGETS[1:]])),
    Claim("Harder retrieval", "the gap is widest where values are UUIDs (S-NIAH-3 59.6 beside 1.4 at 512 entries)",
          "section 5.2, Table 11",
          "A set whose task the full cache cannot do is left out (the table above).",
          prompt((KV,), [(f"dapq:budget={b}", f"snapkv:budget={b}") for b in BUDGETS])),
    Claim("Pseudo queries recall what the answer attends to",
          "of the entries to which the answer attends most, a window of pseudo queries at the answer's positions keeps "
          "more than SnapKV's window", "section 3.3, Figure 3",
          "Windows of licences and of a policy, of which the answer is the full cache's own continuation; recall "
          "is the share of the entries most attended to that are held, in the mean of all heads: the paper's own "
          "measure, on a text without a question. Pooling keeps neighbours in place of what is most attended to, so "
          "that both lose recall by it, and dapq more; without any, as both formulas are printed (kernel=1), pseudo "
          "queries recall more than the prompt's last ones. A number needs its neighbours, though "
          "(docs/measured/needle.md), and so both pool by default.",
          recall(("dapq:budget=64", "snapkv:budget=64"), ("dapq:budget=200", "snapkv:budget=200"),
                 ("dapq:budget=64,kernel=1", "snapkv:budget=64,kernel=1"))),
    Claim("Position matters more than content",
          "what the pseudo tokens are hardly matters: random ones do nearly as well", "section 6.1, Figure 4(a)",
          "The same windows; random tokens of the prompt in place of its first 4 and last 28.",
          recall(("dapq:budget=64,content=random", "dapq:budget=64")), level=True),
]

ORDER = [
    Claim("DapQ, SnapKV, PyramidKV, H2O, StreamingLLM",
          "at tight budgets they come in this order (RULER, Qwen2.5-7B at 256 entries: 38.5, 37.7, 19.0, 14.6, 10.0)",
          "DapQ, Table 11",
          "Each is compared with the one that the paper has next. pyramidkv gives the lower layers more and the "
          "upper ones less; which layers look for the fact differs from model to model.",
          prompt((DEMO_ORDER, NEEDLE), [("dapq:budget=128", "snapkv:budget=128"),
                                        ("snapkv:budget=128", "pyramidkv:budget=128"),
                                        ("pyramidkv:budget=128", "h2o:budget=128,stages=prompt"),
                                        ("h2o:budget=128,stages=prompt", "streaming:budget=128,stages=prompt")],
                 ("seen",))),
    Claim("AdaKV level with SnapKV, CAKE below",
          "LongBench at 128 entries a layer: AdaKV 43.3, SnapKV 43.0, CAKE 42.0 (Llama-3.1-8B)", "TAKE, Table 1",
          "adakv and cake share out the same entries otherwise, among heads and among layers.",
          prompt((DEMO_ORDER, NEEDLE), [("adakv:budget=128", "snapkv:budget=128"),
                                        ("snapkv:budget=128", "cake:budget=128")], ("seen",)), level=True),
]

TAKE_CLAIMS = [
    Claim("Above SnapKV at a tenth of the cache, defaults",
          "TAKE is above SnapKV in needles and LongBench (47.5 beside 46.5 at 512 entries, Llama-3.1-8B) though it "
          "never holds the whole prompt", "section 5.2, Figure 5, Table 1",
          "The defaults are the paper's where it states them: pooling by the mean of 5, and probes, as we read it, "
          "that do not see each other. A fact that few entries mark is thinned out by both "
          "(docs/measured/take.md).",
          prompt((*PROMPT_SETS, KV), [(TAKE, "snapkv:budget=200")])),
    Claim("The same, probes that see each other, pooled as snapkv", "as above", "section 5.2, Figure 5, Table 1",
          "With these two options take is compared with snapkv on equal terms: the same pooling, and queries that "
          "know the whole question. It never holds more than a chunk and its budgets, where snapkv holds the whole "
          "prompt at its peak.",
          prompt((*PROMPT_SETS, KV), [(TAKE_BOTH, "snapkv:budget=200")])),
    Claim("Above AdaKV and CAKE", "by 1.2 and 1.1 at 512 entries (LongBench, Llama-3.1-8B)", "section 5.2, Table 1",
          "On SmolLM2 alone.",
          prompt((NEEDLE,), [(TAKE_BOTH, "adakv:budget=200"), (TAKE_BOTH, "cake:budget=200")], ("seen",))),
    Claim("What take's options do: probes, pooling",
          "not a claim of the paper, which leaves open whether probes see each other", "docs/measured/take.md",
          "The first three are of the bundled model, one option at a time; then both options beside the defaults "
          "on every set.",
          prompt((DEMO_TAKE,), [(TAKE_PROBES, TAKE), (TAKE_MAX, TAKE), (TAKE_BOTH, TAKE_MAX)]) +
          prompt((*PROMPT_SETS, KV), [(TAKE_BOTH, TAKE)]) + recall((TAKE_BOTH, TAKE))),
    Claim("Delayed eviction helps", "without it needles fall from 91.8 to 80.0 %, LongBench from 47.5 to 45.9",
          "section 5.4, Table 2",
          "In a model of four layers the two lower ones follow one in the middle; on SmolLM2 `warmup_layers=0` "
          "gained next to nothing, either (docs/measured/take.md).",
          prompt((DEMO_TAKE,), [(TAKE_BOTH, TAKE_BOTH + ",warmup_layers=0")])),
]

OTHERS = ("snapkv:budget={}", "quest:budget={},page=auto", "sparq:budget={}", "hsa:budget={}")


def equal_traffic(a, others):
    sets = (DEMO_TRAFFIC, *PROMPT_SETS[1:], KV)
    return prompt(sets, [(a.format(t), b.format(t)) for t in (64, 200) for b in others], ("seen",))


ROCKETKV = [
    Claim("Above SnapKV, Quest, SparQ and HSA at equal traffic",
          "with 256 entries' worth of bytes read: needles 100 % beside 98.3, 10.7, 10.3 and 44.3; LongBench 51.1 "
          "beside 42.6, 17.8, 25.7 and 49.5 (Llama-3.1-8B)", "section 4.2, Table 2",
          "Bytes read per token are counted, and stand in the tables below: they are nearly equal by the budget's "
          "definition. snapkv also saves the memory; rocketkv saves part of it; quest, sparq and hsa hold "
          "everything.",
          equal_traffic("rocketkv:budget={}", OTHERS)),
    Claim("Near exact top-k", "which has 100 % and 52.6 there", "section 4.2, Table 2",
          "topk reads all keys to know which entries to read: it is the ceiling of what can be chosen, not of "
          "traffic.",
          equal_traffic("rocketkv:budget={}", ("topk:budget={}",)), level=True),
    Claim("HSA above Quest and SparQ", "alone, at every budget", "appendix B.1.1, Figure 8",
          "At 64 entries' worth of 2,000 sparq sees two channels of 64, and one of 32 on the bundled model; "
          "quest's pages are 31 entries wide; hsa has pages of six and a third of the channels.",
          equal_traffic("hsa:budget={}", OTHERS[1:3])),
    Claim("Over turns: RocketKV-MT above RocketKV and the others",
          "SCBench at 1,024 entries: 44.3 beside RocketKV 26.6, SnapKV 17.6, Quest 15.7, SparQ 13.6 (Llama-3.1-8B)",
          "section 4.2, Table 4",
          "Eight questions in eight turns. What evicts for good chooses by the first question and has lost the "
          "other facts; rocketkv-mt filters the whole history anew for each.",
          turns(*[("rocketkv-mt:budget={}", other) for other in (
              "rocketkv:budget={}", "snapkv:budget={}", "quest:budget={},page=auto", "sparq:budget={}")])),
    Claim("Over turns: RocketKV-MT level with exact top-k", "45.0 there", "section 4.2, Table 4",
          "Level is within 0.1; with so few entries the filter of the first stage can miss a fact that exact "
          "attention finds.",
          turns(("rocketkv-mt:budget={}", "topk:budget={}")), level=True),
]

CLAIMS = {"MorphKV (two versions, ICML and arXiv:2503.00979)": MORPHKV, "DapQ": DAPQ, "TAKE": TAKE_CLAIMS,
          "RocketKV (arXiv:2502.14051)": ROCKETKV, "Orders of methods at tight budgets": ORDER}

# ---- words of the page ----

INTRODUCTION = """Written by tools/seeds.py on DATE. MACHINE. SETTINGS Answers are greedy, in the model's template
where it has one. The runs took MINUTES minutes of prompts and answers. By default the question is the end of the
prompt that is compressed (`seen`); `unseen`, the text is compressed before it is asked."""

COMMANDS = ["tools/seeds.py run --model smollm2=models-local/smollm2.gguf --model gemma3=models-local/gemma3.gguf",
            "tools/seeds.py slim > docs/measured/seeds.jsonl",
            "tools/seeds.py page > docs/measured/seeds.md"]

READING = ["""All policies of a set answer the same samples, so differences are paired. A sample of the bundled model
is a text with four or eight questions, and its score their mean. Intervals are of 95 %: of what is right or wrong
Wilson's and, paired, Newcombe's; of means Student's. **Holds** and **does not hold** are said by rule: where all
intervals of a claim's differences lie on its side of nothing, or all on the other; `in part` where only some do, and
the others say nothing. Of a claim that two are level, an interval within 0.1 of nothing is for it. Of twenty
intervals one misses by chance, so a single one is no proof.""",
           """Real models' needles are compared by `digits`: the share of the number's digits that the answer begins
with as the full cache's answer does. At tight budgets these models rarely get a whole number right, and right or
wrong alone would tell nothing.""",
           """To run it again, or further: `run` goes on with what lies in build/seeds, and every set advances sample
by sample. The whole of it is about an hour and a half of one core of this machine, some 25 minutes of which are the
bundled model's (an estimate from the processor time of its first samples); with `--shard 1/2` and `--shard 2/2` in
two terminals it is half of that. What is here is the beginning of that run, as far as it came. `--samples N` asks for
more samples or fewer, `--minutes M` ends it, `--set NAME` runs one."""]
SHORT = ["""**What these models can tell.** The bundled model was trained to find facts, does so with the full cache,
and is asked cheaply: it shows what a method lets go of, as plainly as a unit test. SmolLM2-135M finds a needle in
2,000 tokens of real text with the full cache. What they cannot tell: whether the orders of 7B and 8B models, whose
heads look for facts in a few layers and hold them in many entries, are the same at 8,000 to 128,000 tokens; the
papers' LongBench, RULER and HELMET averages mix tasks that are beyond models of this size. `kvcull eval` runs those
tasks (docs/how-to/benchmark-files.md) on any model that fits; to settle a difference of 0.05 between two methods, some 500 paired
samples of a task are needed where a third of the answers differ, and for one of 0.02 some 3,200."""]
ABLE = """The full cache, before anything is compressed; tasks below 0.3 are not asked of methods."""
TABLES = """Bytes are means: `held` after the prompt, or the most while a long answer grows; `peak` from the first
token to the last, prefill with it; read of the cache by a decode step. In brackets 95 %."""
