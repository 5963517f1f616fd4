# Everything a newcomer types. `make` alone lists it. Second runs are quick: what is installed is remembered in .venv/.ready

VENV   := .venv
PY     ?= $(VENV)/bin/python
PYTHON ?= python3
HEAVY  ?= constraints/heavy.txt
PINS   := constraints/base.txt $(HEAVY) constraints/test.txt
READY  := $(if $(filter $(VENV)/bin/python,$(PY)),$(VENV)/.ready)
PIP    := $(VENV)/bin/python -m pip --disable-pip-version-check install -qq
KERNELWRIGHT := $(if $(READY),$(VENV)/bin/kernelwright,$(PY) -m bot)
UV     := uv==0.13.8
# what was said to this make is not for a make that a test or the demo starts
ALONE  := env $(addprefix -u ,MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES ARGS MARKS KERNEL PY PYTHON HEAVY TORCH_INDEX)
MARKS  ?= not gpu and not browser and not long and not full
ARGS   ?=

.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-full lint browser gpu-test lock clean

help:
	@echo "make demo      play one comment to one commit on an embedded GitHub; no account, no GPU (KERNEL=softmax, ARGS=...)"
	@echo "make test      the tests, but those that need a GPU or a browser (ARGS='-k journal', MARKS=...)"
	@echo "make test-long  the demo with every kernel, and a kill in the middle of a real round: about ten minutes"
	@echo "make test-full  every wrong kernel the mutator makes, held before the judge: about twenty minutes"
	@echo "make lint      ruff, its formatter and mypy"
	@echo "make browser   install a Chromium with apt where none is found, for screenshots and browser tests"
	@echo "make gpu-test  the tests that need a CUDA device (PY=python3 to use an interpreter that has torch already)"
	@echo "make lock      write constraints/base.txt anew from pyproject.toml (ARGS=--upgrade for newer versions)"
	@echo "make clean     remove .venv and everything made here"
	@echo "make help      this list"
	@echo
	@echo "PYTHON=python3.12 chooses the interpreter of .venv; TORCH_INDEX=<index> another build of torch; HEAVY=<file> other heavy pins."

demo: $(READY)
	@$(ALONE) $(KERNELWRIGHT) demo $(if $(KERNEL),--kernel "$(KERNEL)") $(ARGS)

test: $(READY)
	@$(ALONE) $(PY) -m pytest -n 2 --dist loadfile -m "$(MARKS)" $(ARGS)

test-long: $(READY)
	@$(ALONE) $(PY) -m pytest -m long $(ARGS)

test-full: $(READY)
	@$(ALONE) $(PY) -m pytest -m full $(ARGS)

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
	@touch $@

lock:
	@[ -x build/locker/bin/uv ] || { "$(PYTHON)" -m venv build/locker && build/locker/bin/python -m pip install -qq $(UV); }
	@build/locker/bin/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --quiet \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --output-file constraints/base.txt $(ARGS)
	@echo "constraints/base.txt: $$(grep -c '^[a-z].*==' constraints/base.txt) packages"

clean:
	rm -rf $(VENV) build dist demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
