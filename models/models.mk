# models.mk - models/: sources, folder by folder.

# Opening a model: loading its network onto a device, and its tokenizer.
libkvc_la_SOURCES += \
	models/fingerprint.c \
	models/model.c \
	models/network.c \
	models/network_delta.c models/network_experts.c models/network_load.h \
	models/network_folder.c models/network_info.c models/network_info.h \
	models/network_gguf.c \
	models/network_parts.c \
	models/predictor.c \
	models/same_files.c models/same_files.h \
	models/text.c

# Saved sessions.
libkvc_la_SOURCES += \
	models/session/beside.c \
	models/session/file.c \
	models/session/identity.c \
	models/session/save.c

# Files: GGUF, read and written (libc only), safetensors and JSON.
libkvc_la_SOURCES += \
	models/files/gguf.c \
	models/files/gguf_parts.c \
	models/files/gguf_value.c \
	models/files/gguf_write.c \
	models/files/held_files.c \
	models/files/json.c \
	models/files/json_check.c \
	models/files/map.c \
	models/files/output.c \
	models/files/output_folder.c \
	models/files/safetensors.c \
	models/files/safetensors_folder.c \
	models/files/scaled.c \
	models/files/scaled_pair.c \
	models/files/split_experts.c \
	models/files/tensor_file.c \
	models/files/tensor_index.c

# Descriptions of models: configurations, families, names of tensors.
libkvc_la_SOURCES += \
	models/config/config.c \
	models/config/config_delta.c \
	models/config/config_gguf.c \
	models/config/config_hf.c \
	models/config/config_hf_layers.c \
	models/config/config_hf_refused.c \
	models/config/family.c \
	models/config/metadata.c \
	models/config/names.c \
	models/config/plan.c \
	models/config/rope.c \
	models/config/shapes.c

# Tokenizers (jansson, pcre2, utf8proc).
libkvc_la_SOURCES += \
	models/tokenizer/added.c \
	models/tokenizer/bpe.c \
	models/tokenizer/embedded.c \
	models/tokenizer/folder.c \
	models/tokenizer/folder_pieces.c \
	models/tokenizer/gguf.c \
	models/tokenizer/json.c \
	models/tokenizer/marks.c \
	models/tokenizer/match.c \
	models/tokenizer/named_splits.c \
	models/tokenizer/protobuf.c \
	models/tokenizer/sentencepiece.c \
	models/tokenizer/special_names.c \
	models/tokenizer/split.c \
	models/tokenizer/steps.c \
	models/tokenizer/templates.c \
	models/tokenizer/tokenizer.c \
	models/tokenizer/unicode.c \
	models/tokenizer/vocab.c

# Grammars that answers must match (jansson, pcre2).
libkvc_la_SOURCES += \
	models/grammar/filter.c \
	models/grammar/gbnf.c \
	models/grammar/gbnf_characters.c \
	models/grammar/gbnf_check.c \
	models/grammar/gbnf_nodes.c \
	models/grammar/gbnf_read.c \
	models/grammar/grammar.c \
	models/grammar/points.c \
	models/grammar/regex.c \
	models/grammar/schema.c \
	models/grammar/schema_nested.c \
	models/grammar/schema_number.c \
	models/grammar/schema_string.c \
	models/grammar/schema_text.c \
	models/grammar/schema_types.c \
	models/grammar/sequence.c

# Chat templates: a part of Jinja (jansson, utf8proc).
libkvc_la_SOURCES += \
	models/jinja/access.c \
	models/jinja/case.c \
	models/jinja/character_table.c \
	models/jinja/characters.c models/jinja/characters.h \
	models/jinja/date.c \
	models/jinja/evaluate.c \
	models/jinja/execute.c \
	models/jinja/field.c models/jinja/field.h \
	models/jinja/format.c \
	models/jinja/functions.c \
	models/jinja/lexer.c \
	models/jinja/list_filters.c \
	models/jinja/lists.c \
	models/jinja/memory.c \
	models/jinja/operators.c \
	models/jinja/parse.c \
	models/jinja/parse_expression.c \
	models/jinja/parse_postfix.c \
	models/jinja/percent.c \
	models/jinja/print.c \
	models/jinja/render.c \
	models/jinja/round.c \
	models/jinja/scope.c \
	models/jinja/string_classes.c \
	models/jinja/string_methods.c \
	models/jinja/tests.c \
	models/jinja/text.c \
	models/jinja/text_filters.c \
	models/jinja/tojson.c \
	models/jinja/value.c

# Chat templates' variables, and the named templates.
libkvc_la_SOURCES += \
	models/chat/named.c \
	models/chat/template.c \
	models/chat/turn_end.c

# Writing model files.
libkvc_la_SOURCES += \
	models/convert/convert.c \
	models/convert/dequantize.c \
	models/convert/folder.c \
	models/convert/folder_config.c \
	models/convert/folder_text.c \
	models/convert/folder_tokenizer.c \
	models/convert/make_model.c \
	models/convert/quantize.c \
	models/convert/search.c \
	models/convert/blocks_scaled.c \
	models/convert/blocks_table.c \
	models/convert/blocks_offset.c \
	models/convert/random_row.c \
	models/convert/read_back.c \
	models/convert/tensor.c \
	models/convert/text.c \
	models/convert/stacked.c \
	models/convert/to_folder.c \
	models/convert/unused.c \
	models/convert/vocab.c
