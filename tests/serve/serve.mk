# serve.mk - tests of the server: a client of its own in Python's standard library, and clients that people have.
if HAVE_SERVER
check_PROGRAMS += tests/serve/test_reader
tests_serve_test_reader_LDADD = libkvcli.la $(KVC_TEST_LIBS)
endif
SERVE_TESTS = \
	tests/serve/test_clients.sh \
	tests/serve/test_connections.sh \
	tests/serve/test_fields.sh \
	tests/serve/test_fork.sh \
	tests/serve/test_grammar.sh tests/serve/test_tools.sh \
	tests/serve/test_http.sh \
	tests/serve/test_kvcull.sh \
	tests/serve/test_limits.sh \
	tests/serve/test_lm_eval.sh \
	tests/serve/test_openai.sh \
	tests/serve/test_page.sh \
	tests/serve/test_page_compare.sh \
	tests/serve/test_page_looks.sh \
	tests/serve/test_page_markdown.sh \
	tests/serve/test_serve.sh \
	tests/serve/test_slots.sh
if HAVE_SERVER
SHELL_TESTS += $(SERVE_TESTS)
endif
EXTRA_DIST += $(SERVE_TESTS) tests/serve/answers_client.py tests/serve/bytes_model.py tests/serve/client.py tests/serve/lib.sh tests/serve/lm_eval_client.py \
	tests/serve/more_clients.py \
	tests/serve/browser.py tests/serve/page_chat.py tests/serve/page_compare.py tests/serve/page_lib.py \
	tests/serve/page_looks.js tests/serve/page_looks.py tests/serve/page_markdown.py \
	tests/serve/openai_client.py \
	tests/serve/script_model.py tests/serve/scripts.py tests/serve/structured.py \
	tests/serve/test_answers.py tests/serve/test_connections.py tests/serve/test_families.py \
	tests/serve/test_fields.py \
	tests/serve/test_fork.py \
	tests/serve/test_grammar.py tests/serve/test_tools.py \
	tests/serve/test_http.py \
	tests/serve/test_kvcull.py \
	tests/serve/test_limits.py tests/serve/test_required.py \
	tests/serve/test_serve.py tests/serve/test_slots.py
