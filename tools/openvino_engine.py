#!/usr/bin/env python3
"""openvino_engine.py - runs OpenVINO GenAI for tools/beside_llama.py: a GGUF file on this machine's CPU. The library
itself measures the times. Prompts are random tokens, different each time, because its cache of prefixes would hide the
cost of a prompt that it has seen.
"""
import statistics
import sys

from llama_engine import fail

NEEDS = "no openvino_genai in {}; in a virtual environment: pip install openvino-genai, and run this with its python"
PRECISIONS = {"f16": "f16", "q8_0": "u8"}  # 8 bits with a scale and a zero point for each row


def bring_openvino():
    """Returns the module, or exits with a one-line error."""
    try:
        import openvino_genai
    except ImportError:
        fail(NEEDS.format(sys.executable))
    return openvino_genai


class OpenVino:
    """A model with a fixed number of threads."""

    def __init__(self, lib, path, threads, entries):
        self.lib = lib
        try:
            self.pipeline = lib.LLMPipeline(path, "CPU", INFERENCE_NUM_THREADS=threads,
                                            KV_CACHE_PRECISION=PRECISIONS[entries])
            self.vocab = len(self.pipeline.get_tokenizer().get_vocab())
        except RuntimeError as error:
            fail(f"{path}: OpenVINO cannot load it: {str(error).strip().splitlines()[-1]}")

    def generate(self, tokens, steps):
        """Returns the seconds until the first token, and the median seconds of `steps` tokens after it."""
        import numpy
        import openvino
        config = self.lib.GenerationConfig()
        config.max_new_tokens = config.min_new_tokens = steps + 1
        config.ignore_eos, config.apply_chat_template = True, False
        ids = numpy.array([tokens], dtype=numpy.int64)
        inputs = self.lib.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))
        metrics = self.pipeline.generate(inputs, config).perf_metrics
        return metrics.get_ttft().mean / 1e3, statistics.median(metrics.raw_metrics.m_durations) / 1e6
