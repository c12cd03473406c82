# models.mk - tests of models/: files, descriptions, families beside transformers, conversion, text.
check_PROGRAMS += \
	tests/models/test_config \
	tests/models/test_config_gguf \
	tests/models/test_convert \
	tests/models/test_gguf \
	tests/models/test_gguf_refused \
	tests/models/test_gguf_write \
	tests/models/test_experts \
	tests/models/test_golden \
	tests/models/test_hostile \
	tests/models/test_json_check \
	tests/models/test_rope \
	tests/models/test_safetensors \
	tests/models/test_template \
	tests/models/test_tokenizer \
	tests/models/test_tokenizer_golden \
	tests/models/test_tokenizer_hostile \
	tests/models/test_tokenizer_match
EXTRA_DIST += tests/data/tokenizers tests/data/templates tools/make_tokenizer_golden.py tools/make_templates_golden.py
