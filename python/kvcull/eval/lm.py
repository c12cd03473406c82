"""A provider for lm-eval (github.com/EleutherAI/lm-evaluation-harness): runs its tasks with any policy, without a
server.

    python -m kvcull.eval lm run --model kvcull --model_args "model=MODEL,kv=snapkv:budget=512" --tasks TASK

The context of a request is the prompt, which the policy compresses; the continuation is read token by token. Requests
with the same context, such as the choices of a question, share its session by forks.
"""
from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

try:
    from lm_eval.api.model import LM
    from lm_eval.api.registry import register_model
except ImportError as error:
    raise ImportError("this needs the package lm-eval: pip install lm-eval") from error

from ..model import Model
from ..session import Session


def log_probability(logits: np.ndarray, token: int) -> Tuple[float, bool]:
    """Returns a token's log-probability, and whether it is the most likely one."""
    row = logits.astype(np.float64)
    highest = row.max()
    return float(row[token] - highest - np.log(np.exp(row - highest).sum())), int(row.argmax()) == token


@register_model("kvcull")
class KvcullLM(LM):
    """lm-eval's model "kvcull".

    model: a GGUF file or a Hugging Face folder. kv: a policy; ";" may stand for "," between its options, because lm-eval
    divides its arguments at commas. cache_type, backend, threads, math: as in kvcull.Model and kvcull.Session.
    max_tokens: limit of an answer if the task sets none. Other arguments of lm-eval (batch_size, device) have no
    effect.
    """

    def __init__(self, model: str, kv: str = "full", cache_type: str = "f16", backend: Optional[str] = None,
                 threads: int = 0, math: str = "int8", max_tokens: int = 256, batch_size: Any = None,
                 max_batch_size: Any = None, device: Any = None):
        super().__init__()
        self.model = Model(model, backend=backend, threads=int(threads), math=math)
        self.kv, self.cache_type, self.max_tokens = str(kv).replace(";", ","), cache_type, int(max_tokens)
        self.model.engine.check(self.kv)

    @property
    def tokenizer_name(self) -> str:
        """Identifies the tokenizer in lm-eval's caches."""
        return os.path.basename(os.path.abspath(self.model.info.path))

    def chat_template(self, chat_template: Any = False) -> str:
        """Identifies the chat template in lm-eval's results."""
        return "the model's own" if chat_template else ""

    def apply_chat_template(self, chat_history: List[Dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Renders a conversation with the model's chat template."""
        return self.model.chat_text(chat_history, answer=add_generation_prompt)

    def _tokens(self, text: str) -> List[int]:
        """Returns a text's tokens. Does not add the token that begins a text if a chat template has written it."""
        tokens = [int(one) for one in self.model.tokenize(text)]
        return tokens[1:] if tokens[:1] == tokens[1:2] == [self.model.info.bos] else tokens

    def _pair(self, context: str, continuation: str) -> Tuple[List[int], List[int]]:
        """Divides the tokens of both texts. Blanks at the end of a context belong to the continuation."""
        if not context:
            tokens = self._tokens(continuation)
            return (tokens[:1], tokens[1:]) if tokens[:1] == [self.model.info.bos] else ([self._begin()], tokens)
        blanks = len(context) - len(context.rstrip())
        if blanks:
            context, continuation = context[:-blanks], context[-blanks:] + continuation
        whole, front = self._tokens(context + continuation), self._tokens(context)
        return whole[:len(front)], whole[len(front):]

    def _begin(self) -> int:
        info = self.model.info
        return info.bos if info.bos >= 0 else max(info.eos, 0)

    def _session(self, expected: int) -> Session:
        return self.model.session(self.kv, cache_type=self.cache_type, expected=expected)

    @staticmethod
    def _read(session: Session, logits: np.ndarray, tokens: Sequence[int]) -> Iterator[Tuple[float, bool]]:
        for number, token in enumerate(tokens):
            yield log_probability(logits, token)
            if number + 1 < len(tokens):
                logits = session.decode(token)

    def loglikelihood(self, requests: List[Any]) -> List[Tuple[float, bool]]:
        """Returns, for each (context, continuation), the log-probability and whether greedy decoding gives it."""
        groups: Dict[Tuple[int, ...], List[Tuple[int, List[int]]]] = {}
        for index, request in enumerate(requests):
            front, rest = self._pair(*request.args[:2])
            groups.setdefault(tuple(front), []).append((index, rest))
        found: List[Tuple[float, bool]] = [(0.0, True)] * len(requests)
        for begun, members in groups.items():
            with self._session(max(len(rest) for _index, rest in members)) as session:
                logits = session.prompt(list(begun))
                for index, rest in members:
                    with session.fork() as copy:
                        parts = list(self._read(copy, logits, rest))
                    found[index] = sum(one for one, _best in parts), all(best for _one, best in parts)
        return found

    def loglikelihood_rolling(self, requests: List[Any]) -> List[float]:
        """Returns the log-probability of each whole text, read token by token under the policy."""
        found = []
        for request in requests:
            front, rest = self._pair("", request.args[0])
            with self._session(len(rest)) as session:
                found.append(sum(one for one, _best in self._read(session, session.prompt(front), rest)))
        return found

    def generate_until(self, requests: List[Any]) -> List[str]:
        """Returns the answer to each (context, options)."""
        answers = []
        for request in requests:
            context, options = request.args[0], dict(request.args[1] or {})
            until = options.get("until") or []
            limit = int(options.get("max_gen_toks") or options.get("max_tokens") or self.max_tokens)
            warm = float(options.get("temperature") or 0) if options.get("do_sample", True) else 0.0
            with self._session(limit) as session:
                answers.append(session.answer(self._tokens(context), tokens=limit, temperature=warm,
                                              stop=[until] if isinstance(until, str) else list(until)))
        return answers


def main(arguments: Sequence[str]) -> int:
    """Runs lm-eval's command with the model "kvcull"."""
    import sys

    from lm_eval.__main__ import cli_evaluate
    before, sys.argv = sys.argv, ["lm_eval", *arguments]
    try:
        cli_evaluate()
    finally:
        sys.argv = before
    return 0


__all__ = ["KvcullLM", "log_probability", "main"]
