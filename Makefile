# Commands for a fresh machine with python3 (3.11 or newer), make and the package registry.
# PYTHON=/path/to/python3 chooses the interpreter. What they do is in ci/, which CI calls too.
.PHONY: help demo test docs install-c clean
export PYTHON

help:
	@echo "make demo   install what this machine needs into .venv and run kernels on real input"
	@echo "make test   install the development tools and run ruff, mypy and the tests"
	@echo "make docs   build the manual into build/site; a warning is an error"
	@echo "make install-c PREFIX=/usr/local   build and install libxtarget, for programs in C and C++"
	@echo "make clean  remove .venv and build output"

demo:
	@ci/setup.sh auto
	@.venv/bin/python examples/demo.py

test:
	@ci/setup.sh dev
	@PYTHON= ci/test.sh all

docs:
	@ci/setup.sh docs
	@.venv/bin/python -m sphinx -W --keep-going -q -b html docs build/site
	@echo "build/site/index.html"

PREFIX ?= /usr/local
install-c:
	@cmake -S src/libxtarget -B build/libxtarget
	@cmake --build build/libxtarget
	@cmake --install build/libxtarget --prefix "$(PREFIX)"

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache
