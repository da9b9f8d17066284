# `make check` runs what CI runs; the others are its parts, in the environment of go.py.
.PHONY: check test lint docs
check:
	.ci/run
test:
	python3 go.py test
lint:
	python3 go.py check
docs: lint
	$${ZARRLIFT_VENV:-.venv}/bin/mkdocs serve
