# SPDX-License-Identifier: Apache-2.0
# `make help` lists the commands. Needs Python 3.11, 3.12 or 3.13, make and a way to PyPI; it sets up the rest.

# The newest one that runs: a version manager may have the name without that version.
PYTHON ?= $(shell for minor in 13 12 11; do \
  "python3.$$minor" -c "import ensurepip, sys; sys.exit(sys.version_info[:2] != (3, $$minor))" \
  2> /dev/null && echo "python3.$$minor" && exit; done; echo python3)
VENV ?= .venv
REQUIREMENTS ?= requirements.txt
TESTS ?= tests
DEMO_DIR ?= output/demo
DEMO_STEPS ?= 2000
DEMO_FINETUNE_STEPS ?= 400

READY := $(VENV)/.requirements-installed
RUN := $(VENV)/bin/python
# Not so after a failed or interrupted set-up. An environment of another tool may get pip here.
HAS_PIP := { $(RUN) -m pip --version || $(RUN) -m ensurepip; } > /dev/null 2>&1

# What tests/fuzz runs: `python -m tests.fuzz --help` says more.
FUZZ_CASES ?= 200
FUZZ_CRASHES ?= 24
FUZZ_SEED ?= 1

# Modules are compiled once, not in each of the many processes of the tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup test test-slow test-long test-killed test-beam test-install test-onednn-off test-second \
  test-coverage messages lint docs docs-check fuzz demo demo-finetune clean

help:
	@echo "make setup   virtual environment in $(VENV) with the pinned requirements"
	@echo "make test    the tests (TESTS=tests/model/test_encoder.py for a part)"
	@echo "make test-slow  tests that take minutes, and more cases of what other tests show"
	@echo "make test-long  tests that take more than some seconds"
	@echo "make test-killed  tests of runs that are killed, and of workers that are lost"
	@echo "make test-install  builds the package and uses it without the checkout: 4 minutes"
	@echo "make test-beam  create_pretraining_data.py --runner, with Apache Beam in $(VENV)-beam"
	@echo "make test-onednn-off  the tests of the model's numbers, with TensorFlow's other kernels"
	@echo "make test-second  the tests of text, data and models with another Python (SECOND=python3.13)"
	@echo "             and with the newest TensorFlow of the ranges"
	@echo "make test-coverage  the tests, and how many lines of the code they run"
	@echo "make messages  writes tests/messages.txt, which has the words of all messages"
	@echo "make lint    ruff: rules, format; import-linter: layers; mypy: types of the public names"
	@echo "make docs    the documentation site, in output/site; links and pages are checked"
	@echo "make docs-check  the commands of README.md and docs/, with tiny models and data: 7 minutes"
	@echo "make fuzz    the scripts on damaged input, and killed while they write: FUZZ_CASES=200,"
	@echo "             FUZZ_CRASHES=24; another FUZZ_SEED gives others"
	@echo "make demo    corpus -> SentencePiece -> records -> pre-training -> filled masks and curves,"
	@echo "             in $(DEMO_DIR) (DEMO_STEPS=30 for a short one; finished stages are not repeated)"
	@echo "make demo-finetune  the packaged model english-small learns which package a docstring is from"
	@echo "make clean   delete $(DEMO_DIR) and the tools' caches; $(VENV) stays"

setup: $(READY)

# An environment that is there keeps its Python.
$(READY): $(REQUIREMENTS) requirements-library.txt requirements-dev.txt
	@$(HAS_PIP) || $(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= \
	sys.version_info < (3, 14) and "Python 3.11, 3.12 or 3.13 is needed, this is " \
	+ sys.version.split()[0] + ". Name one: make PYTHON=/path/to/python3.13")'
	@$(HAS_PIP) || $(PYTHON) -c 'import ensurepip' 2> /dev/null || \
	{ echo "$(PYTHON) lacks venv: on Debian and Ubuntu, install python3-venv" >&2; exit 1; }
	$(HAS_PIP) || $(PYTHON) -m venv --clear $(VENV)
	@echo "Installing the requirements takes some minutes."
	$(VENV)/bin/python -m pip install --quiet -r $(REQUIREMENTS) -r requirements-dev.txt
	@touch $@

test: $(READY)
	$(RUN) -m pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder $(TESTS)

test-coverage: $(READY)
	$(RUN) -m coverage erase
	$(RUN) -m coverage run -m pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder $(TESTS)
	$(RUN) -m coverage combine --quiet
	$(RUN) -m coverage report

test-slow: $(READY)
	$(RUN) -m pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder -m slow $(TESTS)

# These start several processes, which are killed or lost.
KILLED := tests/scripts/test_workers.py tests/scripts/test_killed.py

test-long: $(READY)
	$(RUN) -m pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder \
	  -m 'long and not slow' $(KILLED:%=--ignore=%) $(TESTS)

test-killed: $(READY)
	$(RUN) -m pytest -m 'long and not slow' $(KILLED)

# Beam wants older versions of some packages. They and Beam come before those of $(VENV).
BEAM_READY := $(VENV)-beam/.requirements-installed
SITE := -c 'import sysconfig; print(sysconfig.get_path("purelib"))'

$(BEAM_READY): requirements-beam.txt $(READY)
	$(VENV)/bin/python -m venv --clear $(VENV)-beam
	$(VENV)/bin/python $(SITE) > "$$($(VENV)-beam/bin/python $(SITE))/below.pth"
	$(VENV)-beam/bin/python -m pip install --quiet -r requirements.txt -r requirements-beam.txt
	@touch $@

test-beam: $(BEAM_READY)
	TF_CPP_MIN_LOG_LEVEL=3 $(VENV)-beam/bin/python -m pytest -m 'not slow' tests/corpus/test_beam_pipeline.py

test-install:
	tests/install.sh $(PYTHON)

# Other processors use other kernels, whose sums are rounded differently.
NUMERIC := model scripts/test_run_squad.py

test-onednn-off: export TF_ENABLE_ONEDNN_OPTS := 0
test-onednn-off: TESTS := $(NUMERIC:%=tests/%)
test-onednn-off: test

# Versions of Python differ in Unicode's tables, `sum`, argparse and modules that were dropped;
# versions of TensorFlow in the models that are built, saved and served.
SECOND ?= python3.13

test-second:
	$(MAKE) test VENV=$(VENV)-second PYTHON=$(SECOND) REQUIREMENTS=requirements-newest.txt \
	  TESTS="tests/text tests/corpus tests/project tests/test_config.py tests/model tests/api \
	  tests/checkpoints tests/publish"

messages: $(READY)
	$(RUN) -m tests.messages --write

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports --no-cache
	$(VENV)/bin/mypy

DOCS_READY := $(VENV)-docs/.requirements-installed

$(DOCS_READY): requirements-docs.txt $(READY)
	$(VENV)/bin/python -m venv --clear $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet -r requirements-docs.txt
	@touch $@

# Any warning, such as of a link that leads nowhere, ends it with an error.
docs: $(DOCS_READY)
	NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --quiet --strict

docs-check: $(READY)
	$(RUN) -m tests.docs.check

fuzz: $(READY)
	$(RUN) -m tests.fuzz --cases=$(FUZZ_CASES) --crashes=$(FUZZ_CRASHES) --seed=$(FUZZ_SEED)

# --- demo -----------------------------------------------------------------------------------------
# Each stage makes files and runs again when its script or what it reads is newer. A change inside
# albert_tf/ asks for `make clean` first: otherwise each edit would start the training again.

DATA := $(DEMO_DIR)/data
# A run of its own for each length; one that was interrupted goes on where it was.
MODEL := $(DEMO_DIR)/model-$(DEMO_STEPS)-steps

# These let so small a model learn in minutes: short sequences, single pieces masked, Muon, a small
# vocabulary, and the config's initializer_range. The vocabulary and the positions of
# demo/albert_config.json fit these numbers.
VOCAB_SIZE := 4000
SEQUENCE := --max_seq_length=32 --max_predictions_per_seq=6
MASKS := --ngram=1 --nodo_whole_word_mask
# Passes over the documents, each with its own pairs and masks.
PASSES := 5
HELDOUT_PASSES := 2

demo: $(MODEL)/summary.txt $(MODEL)/curves.png
	@echo
	@cat $(MODEL)/summary.txt
	@echo
	@echo "The curves are in $(MODEL)/curves.png. Next, make demo-finetune, or step by step:"
	@echo
	@$(MAKE) --no-print-directory --just-print demo-finetune

$(DATA)/train.txt: demo/make_corpus.py | $(READY)
	$(RUN) -m demo.make_corpus --train_file=$@ --heldout_file=$(DATA)/heldout.txt \
	  --labelled_dir=$(DATA)/packages

$(DATA)/heldout.txt: | $(DATA)/train.txt ;

$(DATA)/spm.model: $(DATA)/train.txt train_sentencepiece.py | $(READY)
	$(RUN) train_sentencepiece.py --input_file=$(DATA)/train.txt \
	  --model_prefix=$(DATA)/spm --vocab_size=$(VOCAB_SIZE)

$(DATA)/heldout.tfrecord: PASSES := $(HELDOUT_PASSES)

$(DATA)/%.tfrecord: $(DATA)/%.txt $(DATA)/spm.model create_pretraining_data.py | $(READY)
	$(RUN) create_pretraining_data.py --input_file=$< --output_file=$@ \
	  --spm_model_file=$(DATA)/spm.model \
	  $(SEQUENCE) $(MASKS) --dupe_factor=$(PASSES)

$(MODEL)/.trained: $(DATA)/train.tfrecord $(DATA)/heldout.tfrecord \
  demo/albert_config.json run_pretraining.py | $(READY)
	@if test -e $@; then rm -rf $(MODEL); fi  # it was trained on other data
	$(RUN) run_pretraining.py --do_train --do_eval \
	  --albert_config_file=demo/albert_config.json --output_dir=$(MODEL) \
	  --input_file=$(DATA)/train.tfrecord --eval_input_file=$(DATA)/heldout.tfrecord \
	  $(SEQUENCE) --train_batch_size=64 --eval_batch_size=64 --max_eval_steps=30 \
	  --optimizer=muon --learning_rate=0.003 --sentence_loss_weight=0.2 --seed=12345 \
	  --num_train_steps=$(DEMO_STEPS) --num_warmup_steps=$$(($(DEMO_STEPS) / 10)) \
	  --save_checkpoints_steps=$$((($(DEMO_STEPS) + 9) / 10)) \
	  --decay_steps=$$((($(DEMO_STEPS) * 2 + 4) / 5)) --iterations_per_loop=$$((($(DEMO_STEPS) + 49) / 50))
	@touch $@

$(MODEL)/curves.png: $(MODEL)/.trained | $(READY)
	$(RUN) -m albert_tf.plot $(MODEL) --png_file=$@

$(MODEL)/summary.txt: $(MODEL)/.trained demo/show_model.py | $(READY)
	$(RUN) -m demo.show_model --run_dir=$(MODEL) --spm_model_file=$(DATA)/spm.model \
	  --summary_file=$@ > /dev/null

PACKAGES := $(DEMO_DIR)/packages-$(DEMO_FINETUNE_STEPS)-steps
PACKAGES_TASK := --task_name=tsv --data_dir=$(DATA)/packages --text_column=text \
  --label_column=package --init_checkpoint=english-small --output_dir=$(PACKAGES)

# A minute or two. A finished training is not repeated.
demo-finetune: $(DATA)/train.txt
	$(RUN) run_classifier.py --do_train --do_eval $(PACKAGES_TASK) \
	  --max_seq_length=64 --train_batch_size=16 --learning_rate=1e-4 --seed=12345 \
	  --train_step=$(DEMO_FINETUNE_STEPS) --warmup_step=$$(($(DEMO_FINETUNE_STEPS) / 10)) \
	  --save_checkpoints_steps=$$(($(DEMO_FINETUNE_STEPS) / 2))
	$(RUN) run_classifier.py --export_dir=$(PACKAGES)/export --output_dir=$(PACKAGES)
	$(RUN) predict.py --saved_model=$(PACKAGES)/export --text="Draw the axes and the legend."

clean:
	rm -rf $(DEMO_DIR) output/site build *.egg-info
	rm -rf .coverage* .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
	find . -path './.venv*' -prune -o -name __pycache__ -prune -exec rm -rf {} +
