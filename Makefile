# `make check` runs what CI runs; the others are its parts, in the environment of go.py.
.PHONY: check test lint docs release-check
check:
	.ci/run
test:
	python3 go.py test
lint:
	python3 go.py check
docs: lint
	$${ZARRLIFT_VENV:-.venv}/bin/mkdocs serve
# The tools come from an environment of their own; ZARRLIFT_RELEASE names one that exists.
release-check:
	[ -n "$${ZARRLIFT_RELEASE:-}" ] || tests/environments/install release .venv-release
	$${ZARRLIFT_RELEASE:-.venv-release}/bin/python release/check.py
