#!/bin/sh
# tools/fastkvzip_file.py: a model runs with gates that it converted, its output has the numbers of its input, and bad
# inputs are refused in one line.
. "${top_srcdir:-.}/tests/cli/lib.sh"
python=${KVCULL_PYTHON:-python3}
"$python" -c 'import numpy, torch' 2>/dev/null ||
    { echo "skipped: no torch in $python; KVCULL_PYTHON names a Python that has it"; exit 77; }

# Random gates for the bundled model: in the order of the authors' file, with a number of the training.
"$python" - "$work" <<'END' || exit 1
import sys

import numpy
import torch

torch.manual_seed(1)
hidden, heads, group, channels, sinks = 128, 2, 4, 16, 3
shapes = {"k_base": (heads, 1, sinks, channels), "b": (heads, 1, group), "q_proj.weight": (heads * group * channels, hidden),
          "q_proj.bias": (heads * group * channels,), "k_proj.weight": (heads * channels, hidden),
          "q_norm.weight": (channels,), "k_norm.weight": (channels,)}
layers = [{name: torch.randn(shape).to(torch.float32 if name == "k_base" else torch.bfloat16)
           for name, shape in shapes.items()} for _ in range(4)]
torch.save({"module": layers, "loss": numpy.float64(0.5), "losses": numpy.zeros(2)}, sys.argv[1] + "/gates.pt")
torch.save({"module": [dict(layer, extra=layer["b"]) for layer in layers]}, sys.argv[1] + "/extra.pt")
torch.save({"module": [dict(layer, b=layer["b"].long()) for layer in layers]}, sys.argv[1] + "/whole.pt")
torch.save(layers, sys.argv[1] + "/list.pt")
torch.save({"module": [print]}, sys.argv[1] + "/code.pt")
END
convert() { # STATUS NAME
    "$python" "$source/tools/fastkvzip_file.py" "$work/$2.pt" -o "$work/$2.safetensors" >"$work/out" 2>"$work/err"
    status=$?
    that "$2: exit $status, $1 is expected: $(head -n 1 "$work/err")" [ $status = "$1" ]
}
convert 0 gates
ok run -m "$demo" -p 'the old sailor found the red kettle near the harbor .' -n 2 --temp 0 -q \
    --kv "fastkvzip:budget=7,file=$work/gates.safetensors"
"$python" - "$work" <<'END'
import json
import struct
import sys

import torch

raw = open(sys.argv[1] + "/gates.safetensors", "rb").read()
size, = struct.unpack("<Q", raw[:8])
table = json.loads(raw[8:8 + size])
layers = torch.load(sys.argv[1] + "/gates.pt", weights_only=False)["module"]
assert len(table) == 28
for name, about in table.items():
    _, l, rest = name.split(".", 2)
    first, last = about["data_offsets"]
    kind = {"F32": torch.float32, "BF16": torch.bfloat16}[about["dtype"]]
    numbers = torch.frombuffer(bytearray(raw[8 + size + first:8 + size + last]), dtype=kind)
    assert torch.equal(numbers, layers[int(l)][rest].reshape(-1)), name
END
that 'the numbers are those of the input' [ $? = 0 ]
refused() { # NAME PATTERN
    convert 1 "$1"
    that "$1: one line" [ "$(wc -l <"$work/err")" = 1 ]
    has "^fastkvzip_file: .*$1.pt: .*$2" "$work/err"
}
refused extra 'layer 0: has the tensors b, extra, .*; it must have b, k_base'
refused whole 'layer 0: b: is of type torch.int64'
refused list "has no list 'module'"
refused code 'cannot be read as tensors'
refused nosuch 'No such file'
finish
