#!/usr/bin/env bash
# je-tools as users have it, for the bench: built and installed anew into build/installed.
set -euo pipefail
cd "$(dirname "$0")/.."

rm -rf build/lib build/bdist.* build/installed
.venv/bin/python -m venv build/installed
build/installed/bin/python -m pip install --quiet --disable-pip-version-check .
