"""openvino_genai.py - stands in for OpenVINO GenAI: it checks what tools/openvino_engine.py asks for, and answers with
fixed times: a tenth of a second for a prompt and a hundredth for each step."""
import types

__version__ = "0"


class GenerationConfig:
    pass


class TokenizedInputs:
    def __init__(self, ids, mask):
        assert ids.values.shape == mask.values.shape and mask.values.all(), "every token counts"
        self.tokens = ids.values[0].tolist()


class LLMPipeline:
    def __init__(self, path, device, INFERENCE_NUM_THREADS, KV_CACHE_PRECISION):
        if not path.endswith(".gguf"):
            raise RuntimeError("Check failed:\nnot a file of this kind")
        assert device == "CPU" and INFERENCE_NUM_THREADS >= 1 and KV_CACHE_PRECISION in ("f16", "u8")
        self.seen = []

    def get_tokenizer(self):
        return types.SimpleNamespace(get_vocab=lambda: dict.fromkeys(range(1000)))

    def generate(self, inputs, config):
        assert inputs.tokens not in self.seen, "each prompt is new: the library caches prefixes"
        assert max(inputs.tokens) < 1000 and config.ignore_eos and not config.apply_chat_template
        assert config.max_new_tokens == config.min_new_tokens > 1
        self.seen.append(inputs.tokens)
        raw = types.SimpleNamespace(m_durations=[1e4] * (config.max_new_tokens - 1))
        ttft = types.SimpleNamespace(mean=100)
        return types.SimpleNamespace(perf_metrics=types.SimpleNamespace(raw_metrics=raw, get_ttft=lambda: ttft))
