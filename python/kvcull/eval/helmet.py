"""the sets of HELMET whose data are files and that have automatic scores (github.com/princeton-nlp/HELMET). HELMET's
own prompts are part of its program. The prompts here are new and have the same structure: two examples, the text, the
question."""
from __future__ import annotations

from typing import Callable, Iterator, List, Sequence

from . import scores
from .data import Folder, Row, fill
from .task import Question, Sample, Task

EXAMPLES = 2


def sized(pattern: str, sizes: Sequence[int], length: int) -> str:
    """Returns the file for the largest of the sizes (8192, 16384, ... tokens) that does not exceed the length, or else
    for the smallest."""
    step = max([i for i in range(len(sizes)) if 8192 << i <= length], default=0)
    return pattern.replace("#", str(sizes[step]))


def passages_text(row: Row, ids: bool = False) -> str:
    """Returns "Document (Title: ...): ..." for each of the record's passages."""
    made = []
    for one in row.objects("ctxs"):
        title = f" (Title: {one.text('title', True)})" if "title" in one else ""
        mark = f"[ID: {one.text('id')}] " if ids else ""
        made.append(f"{mark}Document{title}: {one.text('text', True)}")
    return "\n\n".join(made)


def label_of(passage: Row) -> int:
    """Returns a passage's relevance."""
    value = passage.get("label")
    try:
        if isinstance(value, float) or isinstance(value, bool):
            raise ValueError
        return int(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise passage.wrong("label", 'a whole number "label"') from None


def ranking(row: Row) -> str:
    """Returns the ids by descending relevance. Ids with equal relevance keep their order."""
    return " > ".join(one.text("id") for one in sorted(row.objects("ctxs"), key=lambda one: -label_of(one)))


def examples(demos: List[Row], row: Row, key: str, example: Callable[[Row], str]) -> str:
    """Returns two examples with other questions: the records from number 2 * index on, wrapping around."""
    others = (demos[(EXAMPLES * row.index + i) % len(demos)] for i in range(len(demos)))
    wanted = [one for one in others if one.text(key) != row.text(key)][:EXAMPLES]
    return "".join(example(one) for one in wanted)


class Helmet(Task):
    """A set of HELMET. As in its script, the opening belongs to the answer."""

    group = "helmet"
    template = False
    sizes: Sequence[int] = (50, 105, 220, 440, 1000)
    line = True  # only the first line of the answer is scored

    def __init__(self, name: str, about: str, tokens: int, file: str, demos: str = ""):
        self.name, self.about, self.tokens, self.file, self.demos = f"helmet/{name}", about, tokens, file, demos
        self.files = f"data/{file}"

    @property
    def summary(self) -> str:
        return self.about

    def rows(self, data: Folder, length: int) -> Iterator[Row]:
        """Returns the records of the file for this length."""
        name = sized(self.file, self.sizes, length)
        return data.rows(f"data/{name}", name)

    def demo_rows(self, data: Folder) -> List[Row]:
        """Returns the records for examples."""
        return list(data.rows(f"data/{self.demos}", self.demos))

    def whole(self, question: Question, answer: str) -> str:
        """Returns the opening and the answer."""
        return question.opening + (answer.split("\n")[0] if self.line else answer)


class JsonKv(Helmet):
    """{"context", "question", "answer", "demos": [[key, value], ...]}"""

    sizes = (105, 220, 440, 900, 1800)
    line = False

    def samples(self, data: Folder, length: int) -> Iterator[Sample]:
        for row in self.rows(data, length):
            demos = row.get("demos")
            pairs = demos[:EXAMPLES] if isinstance(demos, list) else []
            if len(pairs) < EXAMPLES or not all(isinstance(pair, list) and len(pair) >= 2 and
                                                all(isinstance(one, str) for one in pair[:2]) for pair in pairs):
                raise row.wrong("demos", "pairs of a key and its value")
            shown = "".join(f"Key: {key}\nCorresponding value: {value}\n\n" for key, value, *_rest in pairs)
            context, question = fill("{context}\n\nFind the value of the key in the JSON object above.\n\n{demos}Key: "
                                     "{question}", "context", context=row.text("context"), demos=shown,
                                     question=row.text("question"))
            yield Sample(context, question, row.texts("answer", single=True), "Corresponding value:")

    def score(self, question: Question, answer: str) -> float:
        return scores.helmet(scores.part, self.whole(question, answer), question.answers, "corresponding value:")


class Kilt(Helmet):
    """{"question", "answers": [text], "ctxs": [{"title", "text"}]}"""

    def samples(self, data: Folder, length: int) -> Iterator[Sample]:
        demos = self.demo_rows(data)
        for row in self.rows(data, length):
            answers = row.texts("answers")
            shown = examples(demos, row, "question", lambda one: f"{passages_text(one)}\n\nQuestion: "
                             f"{one.text('question')}\nAnswer: {one.texts('answers')[0]}\n\n")
            context, question = fill("Answer the question from the documents given, in a few words and in this form:\n"
                                     "Answer: [answer]\n\n{demos}{context}\n\nQuestion: {question}", "context",
                                     demos=shown, context=passages_text(row), question=row.text("question"))
            yield Sample(context, question, answers, "Answer:")

    def score(self, question: Question, answer: str) -> float:
        return scores.helmet(scores.part, self.whole(question, answer), question.answers)


class Rerank(Helmet):
    """{"qid", "query", "ctxs": [{"id", "text", "label": relevance}]}"""

    sizes = (50, 130, 285, 600, 1000)

    def samples(self, data: Folder, length: int) -> Iterator[Sample]:
        demos = self.demo_rows(data)
        for row in self.rows(data, length):
            shown = examples(demos, row, "qid", lambda one: f"{passages_text(one, True)}\n\nQuery: {one.text('query')}\n"
                             f"Ranking: {ranking(one)}\n\n")
            context, question = fill("Here are documents, each with an ID. Rank all of them by how relevant they are to "
                                     "the query, the most relevant first, by their IDs and in this form:\nRanking: ID3 "
                                     "> ID1 > ID2\n\n{demos}{context}\n\nQuery: {question}", "context", demos=shown,
                                     context=passages_text(row, True), question=row.text("query"))
            gains = {one.text("id"): label_of(one) for one in row.objects("ctxs")}
            yield Sample(context, question, [ranking(row)], "Ranking:", {"gains": gains})

    def score(self, question: Question, answer: str) -> float:
        return scores.ndcg(self.whole(question, answer), question.more["gains"])


class HelmetRuler(Helmet):
    """{"context", "query", "type_needle_v", "answer" or "outputs": [text]}"""

    sizes = (8192, 16384, 32768, 65536, 131072)

    def samples(self, data: Folder, length: int) -> Iterator[Sample]:
        for row in self.rows(data, length):
            field = "outputs" if row.get("outputs") and not row.get("answer") else "answer"
            context, question = fill("Something is hidden in the following text: special magic {type}. Remember them, "
                                     "they will be asked for.\n{context}\nWhich special magic {type} for {query} does "
                                     "the text mention?", "context", context=row.text("context"), query=row.text("query"),
                                     type=row.text("type_needle_v"))
            yield Sample(context, question, row.texts(field, single=True),
                         f"The special magic {row['type_needle_v']} for {row['query']}:")


_KILT = "questions about passages among unrelated passages"
TASKS = [
    HelmetRuler("ruler_niah_multikey_2", "a number in lines that all have a key and a number", 50,
                "ruler/niah_multikey_2/validation_#.jsonl"),
    HelmetRuler("ruler_niah_multikey_3", "a UUID in lines that all have two UUIDs", 100,
                "ruler/niah_multikey_3/validation_#.jsonl"),
    HelmetRuler("ruler_niah_multivalue", "four numbers of one key", 50, "ruler/niah_multivalue/validation_#.jsonl"),
    JsonKv("json_kv", "a value of a JSON object", 100, "json_kv/test_k#_dep6.jsonl"),
    Kilt("kilt_nq", _KILT, 20, "kilt/nq-dev-multikilt_1000_k#_dep6.jsonl", "kilt/nq-train-multikilt_1000_k3_dep6.jsonl"),
    Kilt("kilt_triviaqa", _KILT, 20, "kilt/triviaqa-dev-multikilt_1000_k#_dep6.jsonl",
         "kilt/triviaqa-train-multikilt_1000_k3_dep6.jsonl"),
    Kilt("kilt_hotpotqa", _KILT, 20, "kilt/hotpotqa-dev-multikilt_1000_k#_dep3.jsonl",
         "kilt/hotpotqa-train-multikilt_1000_k3_dep3.jsonl"),
    Kilt("kilt_popqa", _KILT, 20, "kilt/popqa_test_1000_k#_dep6.jsonl", "kilt/popqa_test_1000_k3_dep6.jsonl"),
    Rerank("msmarco", "passages ranked by relevance", 200, "msmarco/test_reranking_data_k#_dep3.jsonl",
           "msmarco/test_reranking_data_k10_dep3.jsonl"),
]
