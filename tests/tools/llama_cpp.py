"""llama_cpp.py - stands in for llama-cpp-python: the functions that tools/llama_engine.py calls, computed by kvcull's
float arithmetic (the program that KVCULL_FAKE names). So kvcull is compared with itself. Logits are computed if every
row requests them, from the beginning of a text; times mean nothing."""
import ctypes
import json
import os
import subprocess
import tempfile
import types

__version__ = "0"
GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q8_0, GGML_TYPE_IQ4_NL = 0, 1, 2, 3, 8, 20
ENTRIES = {GGML_TYPE_F32: "f32", GGML_TYPE_F16: "f16", GGML_TYPE_Q4_0: "q4_0", GGML_TYPE_Q4_1: "q4_1",
           GGML_TYPE_Q8_0: "q8_0", GGML_TYPE_IQ4_NL: "iq4_nl"}
LLAMA_FLASH_ATTN_TYPE_ENABLED = 1


def kvcull(*arguments):
    return subprocess.run([os.environ["KVCULL_FAKE"], *arguments], check=True, capture_output=True, text=True).stdout


def params():
    return types.SimpleNamespace(type_k=GGML_TYPE_F16)


llama_model_default_params = llama_context_default_params = params


def ignore(*_):
    return 1


llama_backend_init = llama_batch_free = llama_free = llama_model_free = llama_set_n_threads = ignore
llama_memory_clear = llama_get_memory = llama_synchronize = llama_log_callback = llama_log_set = ignore


def llama_memory_seq_cp(memory, source, to, begin, end):
    assert (source, begin, end) == (0, -1, -1) and to > 0, "whole sequences, of the first"


def llama_print_system_info():
    return b"none | "


def llama_model_load_from_file(path, _):
    return path.decode()


def llama_model_get_vocab(path):
    return path


def llama_vocab_n_tokens(path):
    return json.loads(kvcull("info", path, "--json"))["vocab"]


def llama_init_from_model(path, options):
    quantized = options.type_k not in (GGML_TYPE_F32, GGML_TYPE_F16)
    assert not quantized or options.flash_attn_type == LLAMA_FLASH_ATTN_TYPE_ENABLED
    assert options.type_k == options.type_v and options.n_ctx == options.n_batch * options.n_seq_max
    options.path = path
    options.entries = ENTRIES[options.type_k]
    if options.entries == "q4_0" and os.environ["LLAMA_ATTN_ROT_DISABLE"] == "0":
        options.entries = "q4h"  # Q4_0 of rotated entries
    return options


def llama_batch_init(count, _, sequences):
    lists = {name: [0] * count for name in ("token", "pos", "logits", "n_seq_id")}
    return types.SimpleNamespace(**lists, seq_id=[[0] * sequences for _ in range(count)])


def llama_decode(options, batch):
    rows = range(batch.n_tokens)
    assert batch.n_tokens <= options.n_batch and all(batch.n_seq_id[i] == 1 for i in rows)
    if not (batch.logits[0] and batch.pos[0] == 0):
        return 0
    tokens = ",".join(str(batch.token[i]) for i in rows)
    with tempfile.TemporaryDirectory() as work:
        out = os.path.join(work, "out")
        kvcull("logits", "-m", options.path, "--tokens", tokens, "--math", "float", "--kv-type", options.entries, "-o", out,
               "-q")
        with open(out, "rb") as file:
            stored = file.read()
    values = stored[8 + int.from_bytes(stored[:8], "little"):]
    options.values = (ctypes.c_float * (len(values) // 4)).from_buffer_copy(values)
    return 0


def llama_get_logits(options):
    return ctypes.cast(options.values, ctypes.POINTER(ctypes.c_float))
