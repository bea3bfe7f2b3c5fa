# Every target makes the virtual environment itself; only python3.11 is needed, and another Python,
# as in `make train PYTHON=python3.13`, has an environment of its own. The GPU's targets add what
# CUDA=cuda13 or cuda12 stands for, and NO_VENV=1 runs them with PYTHON as it is.
PYTHON ?= python3.11
VENV ?= .venv$(patsubst python%,-%,$(filter-out python3.11,$(notdir $(PYTHON))))
EXTRAS ?= dev
CUDA ?= cuda13
ARM_PYTHON ?= arm/python
ARM_TESTS ?= $(addprefix tests/kernels/,test_other_processors.py jit/test_target.py) \
	$(wildcard tests/kernels/*/test_*_tuned.py)
BIN := $(VENV)/bin
ARGS ?=
ifdef NO_VENV
GPU_READY :=
GPU_PYTHON := PYTHONPATH=. $(PYTHON)
else
GPU_READY := $(VENV)/.ready-$(CUDA)
GPU_PYTHON := $(BIN)/python
endif

.DEFAULT_GOAL := test
.PHONY: train test test-kernels test-avx2 test-arm test-browser test-null-driver screenshots test-gpu test-on-gpu gpu-wheels check lint types fast-tests attack attack-ranks fuzz docs bench bench-shared bench-gpu clean

# Packages alone, from where the sources are: half a minute, where what is compiled takes minutes.
# It comes with the other targets, and an environment that has it trains with it.
train: $(if $(wildcard $(VENV)/.ready),$(VENV)/.ready,$(VENV)/.ready-train)
	PYTHONPATH=.:$$PYTHONPATH $(BIN)/python examples/mnist.py $(ARGS)

test: $(VENV)/.ready
	$(BIN)/python -m pytest $(ARGS)

# Kernels are compiled at their first call, where the tests leave them out unless they ask for them.
test-kernels: $(VENV)/.ready
	TRAINKIT_JIT=eager $(BIN)/python -m pytest $(ARGS)

# What processors with AVX2 alone run, on one with AVX-512.
test-avx2: $(VENV)/.ready
	$(BIN)/python -m trainkit kernels --levels x86-64-v3
	NUMBA_CPU_NAME=x86-64-v3 NUMBA_CPU_FEATURES=+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe \
		OPENBLAS_CORETYPE=Haswell $(BIN)/python -m pytest -m "not gpu" tests/kernels $(ARGS)

# ARM's kernels on x86. ARM_PYTHON runs a Python for ARM under qemu-aarch64: docs/kernels.md. ARGS
# may name more tests, as tests/kernels. Some start Python anew, so its bytecode has to be kept.
test-arm: $(VENV)/.ready
	$(BIN)/python -m trainkit kernels --levels aarch64
	PYTHONDONTWRITEBYTECODE= PYTHONPATH=.:$$PYTHONPATH $(ARM_PYTHON) -m pytest -m "not gpu" \
		-W "ignore:numba is not installed:RuntimeWarning" $(ARM_TESTS) $(ARGS)

test-gpu: $(GPU_READY)
	$(GPU_PYTHON) -m pytest -m gpu $(ARGS)

# Real CuPy over a driver that does nothing: what is launched, copied and refused. No GPU is needed.
test-null-driver: $(VENV)/.ready-null-driver
	$(BIN)/python -m pytest -m null_driver tests/null_driver $(ARGS)

# All other tests where tensors are made by default, which is the GPU; in processes and with a time
# limit where pytest-xdist and pytest-timeout are installed. OUT=folder keeps a report.
test-on-gpu: $(GPU_READY)
	$(GPU_PYTHON) -m tests.gpu_session.suite whole $(ARGS)

# What a GPU machine without a network lacks, into wheels/; ARGS="--python 3.13".
gpu-wheels: $(VENV)/.ready
	PYTHONPATH=. $(BIN)/python -m tests.gpu_session.wheels $(ARGS)

# TensorBoard's pages in a browser, which the system has to have: apt-get install chromium.
test-browser: $(VENV)/.ready-browser
	$(BIN)/python -m pytest tests/browser $(ARGS)

screenshots: $(VENV)/.ready-browser
	PYTHONPATH=. $(BIN)/python -m tests.browser.screenshots docs/images

check: lint types fast-tests

lint: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.ready
	$(BIN)/mypy
	$(BIN)/python -m tests.editors.pages
	$(BIN)/python -m tests.editors.signatures

fast-tests: $(VENV)/.ready
	$(BIN)/python -m pytest -q -m "not gpu and not slow"

# Signals at random moments of a run; ARGS="--signals 300 --seed 1".
attack: $(VENV)/.ready
	PYTHONPATH=. $(BIN)/python -m tests.attacks.signals $(ARGS)

# One of several processes is killed at random moments; ARGS="--kills 50 --processes 3".
attack-ranks: $(VENV)/.ready
	PYTHONPATH=. $(BIN)/python -m tests.attacks.killed_ranks $(ARGS)

# Damaged files of all formats; ARGS="--seconds 60 --seed 1", ARGS="--mutations 10000 --format npz".
fuzz: $(VENV)/.ready
	PYTHONPATH=. TRAINKIT_JIT=0 $(BIN)/python -m tests.attacks.fuzz $(ARGS)

# The site, in site/: the reference from the docstrings, then all pages; a dead link is an error.
docs: $(VENV)/.ready-docs
	$(BIN)/python docs/reference.py
	$(BIN)/zensical build --strict --clean
	rm -f site/*.py
	$(BIN)/python docs/check_site.py

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/run.py $(ARGS)

# The rows of docs/benchmarks.md on machines that others use too: beside a busy process on each core,
# and with half of a core's time, which only root may ask for.
bench-shared: $(VENV)/.ready
	$(BIN)/python benchmarks/run.py bench_start mlp_step_b32 cnn_step lstm_step transformer_step \
		--busy --rounds 3 --write-docs $(ARGS)
	$(BIN)/python benchmarks/run.py bench_start --quota 0.5 --rounds 2 --write-docs $(ARGS)

bench-gpu: $(GPU_READY)
	$(GPU_PYTHON) benchmarks/gpu.py $(ARGS)

clean:
	rm -rf .venv .venv-*

# The stamp is written last, so an installation that broke off is done again. Bytecode is compiled for
# what is imported, which is a small part of what is installed: for all of it that takes a minute.
$(VENV)/.ready: pyproject.toml setup.py trainkit/core/dispatch/_native.pyx $(wildcard trainkit/core/dispatch/native_code/*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing packages for [$(EXTRAS)] into $(VENV), compiling the eager path and kernels: minutes"
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e ".[$(EXTRAS)]"
	touch $@

$(VENV)/.ready-train: pyproject.toml
	@echo "making $(VENV) and installing what training needs, once: half a minute"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
		print(*project['dependencies'], *project['optional-dependencies']['examples'], sep='\n')" \
		>$(VENV)/train.txt
	$(BIN)/python -m pip install --no-compile --disable-pip-version-check -r $(VENV)/train.txt
	@echo "done; compiled parts, which make eager steps and convolutions faster, come with: make $(VENV)/.ready"
	touch $@

# The packages of an extra alone: with -e the project, which stands already, would be built once more.
define install_extra
$(BIN)/python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	print(*project['optional-dependencies']['$(1)'], sep='\n')" >$(VENV)/extra-$(1).txt
$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -r $(VENV)/extra-$(1).txt
endef

$(VENV)/.ready-docs: $(VENV)/.ready
	$(call install_extra,docs)
	touch $@

$(VENV)/.ready-$(CUDA): $(VENV)/.ready
	$(call install_extra,$(CUDA))
	touch $@

$(VENV)/.ready-null-driver: $(VENV)/.ready
	$(call install_extra,null-driver)
	touch $@

$(VENV)/.ready-browser: $(VENV)/.ready
	$(call install_extra,browser)
	touch $@
