# models.mk - models/: sources of this folder.

# Files: GGUF in and out (libc only), safetensors and JSON.
libkvc_la_SOURCES += \
	models/convert.c models/convert.h models/convert_folder.c models/convert_tensor.c \
	models/convert_text.c models/convert_text.h models/convert_vocab.c \
	models/dequantize.c models/quantize.c models/quantize.h \
	models/gguf.c models/gguf.h models/gguf_file.h models/gguf_value.c \
	models/gguf_write.c models/gguf_write.h \
	models/held_files.c models/held_files.h \
	models/json.c models/json.h models/json_check.c \
	models/map.c models/map.h \
	models/make_model.c models/shapes.c models/shapes.h models/random_row.c models/random_row.h \
	models/output.c models/output.h \
	models/plan.c models/plan.h \
	models/safetensors.c models/safetensors.h models/safetensors_file.h models/safetensors_folder.c \
	models/tensor_file.c \
	models/tensor_index.c models/tensor_index.h

# Families: configuration, names, loading.
libkvc_la_SOURCES += models/config.c models/config.h models/config_gguf.c models/family.c models/names.c models/names.h \
	models/network.c models/network.h models/network_gguf.c models/rope.c
libkvc_la_SOURCES += models/config_hf.c models/network_folder.c models/model.c models/model.h models/text.c

# Text: tokenizers and chat templates (jansson, pcre2, utf8proc).
libkvc_la_SOURCES += models/template.c models/template.h models/template_families.c models/tokenizer.c models/tokenizer.h models/tokenizer_added.c \
    models/tokenizer_bpe.c models/tokenizer_folder.c models/tokenizer_gguf.c models/tokenizer_json.c \
    models/tokenizer_json.h models/tokenizer_parts.h models/tokenizer_split.c models/tokenizer_match.c models/tokenizer_steps.c \
    models/tokenizer_embedded.c models/tokenizer_unicode.c models/tokenizer_vocab.c
