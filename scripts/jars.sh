#!/usr/bin/env bash
# The tests ask releases of the engine: fetches their jars, or says why it cannot (exit 1).
# Before the tests begin, since what apt installs for it may replace the Java that they run on.
set -uo pipefail
cd "$(dirname "$0")/.."

.venv/bin/python -m tests.engine.jars >/dev/null
