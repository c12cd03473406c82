# models.mk - tests of models/: files, descriptions, families beside transformers, conversion, text.
check_PROGRAMS += \
	tests/models/test_config \
	tests/models/test_config_gguf \
	tests/models/test_convert \
	tests/models/test_gguf \
	tests/models/test_gguf_keys \
	tests/models/test_gguf_parts \
	tests/models/test_gguf_refused \
	tests/models/test_gguf_write \
	tests/models/test_experts \
	tests/models/test_gbnf \
	tests/models/test_gbnf_drawn \
	tests/models/test_golden \
	tests/models/test_gpt_oss \
	tests/models/test_hostile \
	tests/models/test_jinja \
	tests/models/test_json_check \
	tests/models/test_marks \
	tests/models/test_optional_parts \
	tests/models/test_rope \
	tests/models/test_safetensors \
	tests/models/test_scaled \
	tests/models/test_schema \
	tests/models/test_sequence \
	tests/models/test_template \
	tests/models/test_template_names \
	tests/models/test_text_alone \
	tests/models/test_to_folder \
	tests/models/test_tokenizer \
	tests/models/test_tokenizer_golden \
	tests/models/test_tokenizer_hostile \
	tests/models/test_tokenizer_match \
	tests/models/test_tokenizer_pieces \
	tests/models/test_tokenizer_splits \
	tests/models/test_turn_end \
	tests/models/test_type_values
# A program for tests/models/test_templates.sh, no test itself.
noinst_PROGRAMS += tests/models/jinja_render
tests_models_jinja_render_LDADD = libkvc.la $(KVC_LIBS)
# The same for tests/models/test_schemas.sh.
noinst_PROGRAMS += tests/models/grammar_answers
tests_models_grammar_answers_LDADD = libkvc.la $(KVC_LIBS)
SHELL_TESTS += tests/models/test_gguf_package.sh tests/models/test_schemas.sh tests/models/test_templates.sh
EXTRA_DIST += tests/models/test_gguf_package.sh tests/models/test_schemas.sh tests/models/test_schemas.py tests/models/test_templates.sh tests/data/tokenizers \
	tests/data/templates tools/compare_folders.py tools/compare_templates.py
