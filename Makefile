# Everything a newcomer types. `make` alone lists it. Second runs are quick: what is installed is remembered in .venv/.ready

VENV   := .venv
PY     ?= $(VENV)/bin/python
PYTHON ?= python3
HEAVY  ?= constraints/heavy.txt
PINS   := constraints/base.txt $(HEAVY) constraints/test.txt
READY  := $(if $(filter $(VENV)/bin/python,$(PY)),$(VENV)/.ready)
# modules are compiled when they are first imported: of torch's thousands most never are, and compiling all takes half a minute
PIP    := $(VENV)/bin/python -m pip --disable-pip-version-check install -qq --no-compile
KERNELWRIGHT := $(if $(READY),$(VENV)/bin/kernelwright,$(PY) -m bot)
UV     := uv==0.13.8
# What was said to this make is not for a make that a test or the demo starts. And what is compiled here is kept, in
# .venv and in __pycache__, whatever the shell says: dozens of processes would each compile it again.
ALONE  := env $(addprefix -u ,PYTHONDONTWRITEBYTECODE MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES ARGS MARKS KERNEL PY PYTHON HEAVY TORCH_INDEX)
# Three workers on two cores, since they often wait for a process or a sleep; and no threads of torch beside them.
PAIR   = OMP_NUM_THREADS=1 $(PY) -m pytest -n 3 --dist loadfile
MARKS  ?= not gpu and not browser and not judge and not long and not full
ARGS   ?=

.DEFAULT_GOAL := help
.PHONY: help demo play screenshots test test-browser test-judge test-long test-full storm lint browser gpu-test lock clean

help:
	@echo "make demo      play one comment to one commit on an embedded GitHub; no account, no GPU (KERNEL=softmax, ARGS=...)"
	@echo "make play      the same by hand: serves the page, and the bot answers what you write there, until Ctrl-C"
	@echo "make test      the tests, but those that need a GPU or a browser (ARGS='-k journal', MARKS=...)"
	@echo "make test-judge  every cheat and honest rewrite, and forty wrong kernels, before the judge: two minutes; make test hears a share"
	@echo "make test-long  what takes minutes: the demo with every kernel, a kill in the middle of a real round, all shapes of the suites"
	@echo "make test-full  every wrong kernel the mutator makes, held before the judge: about twenty minutes"
	@echo "make storm     people, kills, lost answers and moved heads, seed by seed (SEEDS=5000, or SEED=17 to see one again)"
	@echo "make lint      ruff, its formatter and mypy"
	@echo "make test-browser  people at the page, in a headless Chromium: about two minutes (make browser first)"
	@echo "make screenshots   take the pictures in docs/images anew, from a campaign that is really run"
	@echo "make browser   install a Chromium with apt where none is found, for screenshots and browser tests"
	@echo "make gpu-test  the tests that need a CUDA device (PY=python3 to use an interpreter that has torch already)"
	@echo "make lock      write constraints/base.txt anew from pyproject.toml (ARGS=--upgrade for newer versions)"
	@echo "make clean     remove .venv and everything made here"
	@echo "make help      this list"
	@echo
	@echo "PYTHON=python3.12 chooses the interpreter of .venv; TORCH_INDEX=<index> another build of torch; HEAVY=<file> other heavy pins."

demo: $(READY)
	@$(ALONE) $(KERNELWRIGHT) demo $(if $(KERNEL),--kernel "$(KERNEL)") $(ARGS)

play: $(READY)
	@$(ALONE) $(KERNELWRIGHT) demo --interactive $(if $(KERNEL),--kernel "$(KERNEL)") $(ARGS)

screenshots: $(READY)
	@$(ALONE) $(PY) -m tests.browser.screenshots docs/images $(ARGS)
	@$(ALONE) $(PY) -m tests.browser.terminal docs/images

test: $(READY)
	@$(ALONE) $(PAIR) -m "$(MARKS)" $(ARGS)

test-browser: $(READY)
	@$(ALONE) $(PY) -m pytest -m browser $(ARGS)

test-judge: $(READY)
	@$(ALONE) $(PAIR) -m judge $(ARGS)

test-long: $(READY)
	@$(ALONE) $(PY) -m pytest -m long $(ARGS)

test-full: $(READY)
	@$(ALONE) $(PY) -m pytest -m full $(ARGS)

storm: $(READY)
	@$(ALONE) STORM_SEED=$(SEED) STORM_SEEDS=$(SEEDS) $(PY) -m pytest -n 2 --dist load tests/scenarios/test_storm.py $(ARGS)

gpu-test: $(READY)
	@$(ALONE) $(PY) -m pytest -m gpu $(ARGS)

lint: $(READY)
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

browser:
	@found=$$(command -v chromium || command -v chromium-browser || command -v google-chrome || true); \
	if [ -n "$$found" ]; then echo "a browser is here: $$found"; exit 0; fi; \
	if ! command -v apt-get >/dev/null; then echo "no Chromium found and no apt-get: install one by hand" >&2; exit 1; fi; \
	as_root=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	echo "installing Chromium with apt-get"; \
	$$as_root apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$as_root apt-get install -y -qq --no-install-recommends chromium fonts-noto-color-emoji >/dev/null

# torch comes first and alone: a machine may hold a small build of exactly this version, and anything that asks for "torch" sooner fetches gigabytes
$(VENV)/.ready: pyproject.toml $(PINS)
	@command -v "$(PYTHON)" >/dev/null || { echo "no $(PYTHON) found; kernelwright needs Python 3.11 or newer: make PYTHON=<path>" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.version_info >= (3, 11) or sys.exit("kernelwright needs Python 3.11 or newer, $(PYTHON) is %d.%d: make PYTHON=python3.12" % sys.version_info[:2])'
	@[ -x $(VENV)/bin/python ] || { echo "making $(VENV)"; "$(PYTHON)" -m venv $(VENV); }
	@torch=$$(grep -m1 '^torch==' "$(HEAVY)") && echo "installing $$torch" && $(PIP) $(if $(TORCH_INDEX),--index-url "$(TORCH_INDEX)") "$$torch"
	@echo "installing the base, every file checked against its hash"
	@$(PIP) --require-hashes -r constraints/base.txt
	@echo "installing triton, numpy and the tools"
	@$(PIP) -r "$(HEAVY)" -r constraints/test.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@$(ALONE) $(VENV)/bin/python -W ignore -c "import torch.fx.experimental.symbolic_shapes, triton.backends.nvidia.compiler, triton.backends.amd.compiler, triton.runtime.interpreter, triton.language.extra.cuda.libdevice, triton.experimental.gluon.nvidia.hopper, matplotlib.figure, pandas, github, libcst.matchers"
	@touch $@

lock:
	@[ -x build/locker/bin/uv ] || { "$(PYTHON)" -m venv build/locker && build/locker/bin/python -m pip install -qq $(UV); }
	@build/locker/bin/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --quiet \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --output-file constraints/base.txt $(ARGS)
	@echo "constraints/base.txt: $$(grep -c '^[a-z].*==' constraints/base.txt) packages"

clean:
	rm -rf $(VENV) build dist demo-output play-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
