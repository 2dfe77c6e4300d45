#!/usr/bin/env bash
# Builds je-tools and installs it into build/installed, as users have it, for the bench.
set -euo pipefail
cd "$(dirname "$0")/.."

rm -rf build/lib* build/bdist.* build/installed
.venv/bin/python -m venv build/installed
build/installed/bin/python -m pip install --quiet --disable-pip-version-check .
