# python.mk - the Python package and its tests. pip installs the package (docs/how-to/python.md).
python_files = \
	python/README.md \
	python/pyproject.toml \
	python/setup.py \
	python/kvcull/__init__.py \
	python/kvcull/__main__.py \
	python/kvcull/_find.py \
	python/kvcull/_handles.py \
	python/kvcull/_headers.py \
	python/kvcull/_library.py \
	python/kvcull/engine.py \
	python/kvcull/errors.py \
	python/kvcull/generation.py \
	python/kvcull/grammar.py \
	python/kvcull/hugging_face.py \
	python/kvcull/host.py \
	python/kvcull/model.py \
	python/kvcull/policy.py \
	python/kvcull/policy.pyi \
	python/kvcull/py.typed \
	python/kvcull/replay.py \
	python/kvcull/sampling.py \
	python/kvcull/session.py \
	python/kvcull/eval/__init__.py \
	python/kvcull/eval/__main__.py \
	python/kvcull/eval/conversations.py \
	python/kvcull/eval/data.py \
	python/kvcull/eval/figures.py \
	python/kvcull/eval/helmet.py \
	python/kvcull/eval/infinitebench.py \
	python/kvcull/eval/lm.py \
	python/kvcull/eval/longbench.py \
	python/kvcull/eval/longwriting.py \
	python/kvcull/eval/prompts.py \
	python/kvcull/eval/provenance.py \
	python/kvcull/eval/report.py \
	python/kvcull/eval/results.py \
	python/kvcull/eval/run.py \
	python/kvcull/eval/scores.py \
	python/kvcull/eval/summary.py \
	python/kvcull/eval/task.py \
	python/examples/compare_methods.py \
	python/tests/benchmark_files.py \
	python/tests/conftest.py \
	python/tests/test_documents.py \
	python/tests/test_eval_command.py \
	python/tests/test_figures.py \
	python/tests/test_fork.py \
	python/tests/test_grammar.py \
	python/tests/test_host.py \
	python/tests/test_interface.py \
	python/tests/test_interrupt.py \
	python/tests/test_lm_eval.py \
	python/tests/test_model.py \
	python/tests/test_policy.py \
	python/tests/test_press.py \
	python/tests/test_replay.py \
	python/tests/test_scores.py \
	python/tests/test_session.py \
	python/tests/test_tasks.py \
	python/tests/test_transformers.py \
	python/tests/test_types.py
EXTRA_DIST += $(python_files)
SHELL_TESTS += tests/python/test_python.sh tests/python/test_install.sh
EXTRA_DIST += tests/python/test_python.sh tests/python/test_install.sh
