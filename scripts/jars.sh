#!/usr/bin/env bash
# Downloads the releases of the engine that the tests run, or prints why it cannot (exit 1).
# Runs before the tests: what apt installs for it may replace the Java that they run on.
set -uo pipefail
cd "$(dirname "$0")/.."

.venv/bin/python -m tests.engine.jars >/dev/null
