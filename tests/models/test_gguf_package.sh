#!/bin/sh
# GGUF files from convert, read by the package gguf: it knows every key, type and tensor name, and dequantizes the
# matrices. PYTHON is an interpreter that has the package.
. "${top_srcdir:-.}/tests/cli/lib.sh"
not_in_valgrind
python=${PYTHON:-python3}
"$python" -c 'import gguf' 2>/dev/null || { echo "skipped: $python has no package gguf; PYTHON names another"; exit 77; }
for golden in llama2 llama3 mixtral qwen2 qwen2-moe qwen3 qwen3-moe olmoe gpt-oss phi3 phi3-longrope gemma2 gemma3 \
    smollm3 olmo2 olmo3 granite glm4 cohere phi2 stablelm; do
    ok convert "$source/tests/data/golden/$golden" -o "$work/$golden.gguf" --type f16 -q
done
ok mkmodel --shape small --type f32 -o "$work/small-f32.gguf" -q
for type in bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs mxfp4; do
    ok convert "$work/small-f32.gguf" -o "$work/small-$type.gguf" --type $type -q
done
if "$python" - "$work"/*.gguf >"$work/out" 2>"$work/err" <<'END'; then good; else bad 'the package gguf'; fi
import sys
import gguf

def names(of):
    for name, value in vars(of).items():
        if isinstance(value, type):
            yield from names(value)
        elif isinstance(value, str) and not name.startswith("_"):
            yield value

known = set(names(gguf.Keys)) | {"{arch}.use_parallel_residual", "tokenizer.ggml.eog_token_id"}
bad = []
for path in sys.argv[1:]:
    file = gguf.GGUFReader(path)
    architecture = file.get_field("general.architecture").contents()
    index = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}.get(architecture)
    if index is None:
        bad.append(f"{path}: architecture {architecture}")
        continue
    for key in file.fields:
        general = key.replace(architecture + ".", "{arch}.", 1) if key.startswith(architecture + ".") else key
        if not key.startswith("GGUF.") and general not in known:
            bad.append(f"{path}: key {key}")
    gguf.LlamaFileType(file.get_field("general.file_type").contents())
    own = [gguf.TENSOR_NAMES[tensor] for tensor in gguf.MODEL_TENSORS[index]]
    for tensor in file.tensors:
        stem = tensor.name.rsplit(".", 1)[0]
        parts = stem.split(".")
        if parts[0] == "blk":
            stem = ".".join(["blk", "{bid}"] + parts[2:])
        if stem not in own:
            bad.append(f"{path}: tensor {tensor.name}")
        gguf.dequantize(tensor.data, tensor.tensor_type)
for line in bad:
    print(line)
sys.exit(bool(bad))
END
finish
