#!/usr/bin/env python3
"""llama_engine.py - shared by tools/beside_llama.py, tools/int8_distance.py and tools/entry_distance.py: llama.cpp
through llama-cpp-python's low-level functions, kvcull as a program, and the models for both.

Times measure a single call of llama_decode, without Python's overhead. All other settings are the library's defaults:
512 rows at once (n_ubatch), flash attention if the library chooses it, repacked weights.
"""
import argparse
import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile

NEEDS = ("no llama_cpp in {}; in a virtual environment: CMAKE_ARGS=-DGGML_NATIVE=ON pip install --no-binary "
         "llama-cpp-python llama-cpp-python==0.3.36, and run this with its python")


def fail(text, status=4):
    print(f"{os.path.basename(sys.argv[0])}: {text}", file=sys.stderr)
    sys.exit(status)


@functools.cache  # keeps the callback alive while the library may call it
def silent(lib):
    return lib.llama_log_callback(lambda level, text, user: None)


def bring_llama():
    """Returns the module, or exits with a one-line error."""
    try:
        import llama_cpp
    except ImportError:
        fail(NEEDS.format(sys.executable))
    llama_cpp.llama_log_set(silent(llama_cpp), None)
    llama_cpp.llama_backend_init()
    return llama_cpp


class Llama:
    """A model and a context. Sequences have separate entries (kv_unified off), like kvcull's sessions."""

    def __init__(self, lib, path, tokens, sequences=1, outputs=False, cache="f16", rotate=True):
        """tokens: number of tokens of the longest sequence. outputs: compute the logits of every row. rotate: rotate
        quantized entries where the library does so by default, which is in heads whose size is a multiple of 64."""
        self.lib = lib
        self.model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        if not self.model:
            fail(f"{path}: llama.cpp cannot load it")
        each = -(-tokens // 256) * 256
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_seq_max = each * sequences, each, sequences
        params.n_outputs_max = params.n_outputs_max_per_seq = each if outputs else 0
        params.type_k = params.type_v = getattr(lib, "GGML_TYPE_" + cache.upper())
        if cache not in ("f16", "f32"):  # quantized values need flash attention
            params.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_ENABLED
        os.environ["LLAMA_ATTN_ROT_DISABLE"] = "0" if rotate else "1"  # the library reads it when a context is made
        self.context = lib.llama_init_from_model(self.model, params)
        if not self.context:
            fail(f"{path}: llama.cpp makes no context of {tokens} tokens for it")
        self.vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))
        self.batch = lib.llama_batch_init(each, 0, 1)
        self.memory = lib.llama_get_memory(self.context)

    def close(self):
        self.lib.llama_batch_free(self.batch)
        self.lib.llama_free(self.context)
        self.lib.llama_model_free(self.model)

    def threads(self, count):
        self.lib.llama_set_n_threads(self.context, count, count)

    def clear(self):
        self.lib.llama_memory_clear(self.memory, False)

    def copy(self, count):
        """Copies sequence 0 to sequences 1 to count - 1."""
        for sequence in range(1, count):
            self.lib.llama_memory_seq_cp(self.memory, 0, sequence, -1, -1)

    def load(self, rows, logits):
        """rows: (token, position, sequence) of each row. logits: compute the rows' logits."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position, logits
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence

    def compute(self):
        status = self.lib.llama_decode(self.context, self.batch)
        self.lib.llama_synchronize(self.context)
        if status:
            fail(f"llama_decode gives {status}")

    def logits(self):
        """Returns a pointer to the last call's logits [rows, vocab]."""
        return self.lib.llama_get_logits(self.context)


def kvcull(program, *arguments):
    """Returns kvcull's standard output. If it fails, exits with its error and status."""
    try:
        made = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        fail(f"{program}: {error.strerror}; ./dev build makes build/kvcull")
    if made.returncode:
        sys.stderr.write(made.stderr)
        sys.exit(made.returncode)
    return made.stdout


def kvcull_json(program, *arguments):
    return json.loads(kvcull(program, *arguments, "--json"))


def add_model_options(parser):
    parser.add_argument("models", nargs="*", metavar="MODEL", help="GGUF files, or folders with --types")
    parser.add_argument("--kvcull", default="build/kvcull", metavar="PROGRAM")
    parser.add_argument("--types", default="", metavar="LIST",
                        help="convert the models to each of these types first")


def parse(parser):
    """Returns the arguments. A wrong option ends the program with a one-line error and status 2."""
    parser.error = lambda text: fail(f"{text}; --help lists the options", 2)
    arguments = parser.parse_args()
    arguments.types = [name for name in arguments.types.split(",") if name]
    if not arguments.models and not getattr(arguments, "shape", None):
        parser.error("no model is named")
    for model in arguments.models:
        if os.path.isdir(model) and not arguments.types:
            parser.error(f"{model}: a folder, which llama.cpp does not read; --types has it converted")
        if not os.path.exists(model):
            fail(f"{model}: no such file", 3)
    return arguments


@contextlib.contextmanager
def made(program, *command):
    """Makes a GGUF file with kvcull, and removes it afterwards."""
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "model.gguf")
        kvcull(program, *command, "-o", path, "-q")
        yield path


def every_model(arguments):
    """Yields a name and a file for each model and type, one file at a time."""
    for shape in [arguments.shape] if getattr(arguments, "shape", None) else []:
        for kind in arguments.types or ["f16"]:
            with made(arguments.kvcull, "mkmodel", "--shape", shape, "--type", kind) as path:
                yield f"{shape} {kind}", path
    for model in arguments.models:
        name = os.path.basename(os.path.normpath(model))
        for kind in arguments.types:
            with made(arguments.kvcull, "convert", model, "--type", kind) as path:
                yield f"{name} {kind}", path
        if not arguments.types:
            yield name, model


def positive(text):
    if not text.isdigit() or not 1 <= int(text) <= 1 << 20:
        raise argparse.ArgumentTypeError(f"{text}: not a number from 1 to {1 << 20}")
    return int(text)


def positives(text):
    return [positive(part) for part in text.split(",")]
