#!/usr/bin/env bash
# Makes dist/je-tools-VERSION-MACHINE.pex from the wheel in dist: je-tools and all that it needs
# except Spark, in one file for hosts without a network.
# `scripts/bundle.sh [python3.11 python3.12 …]`: the file runs with the versions of these Pythons,
# which must be installed; by default with that of .venv. Each adds some 80 MB of packages.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${BIN:-.venv/bin}/python
wheel=$(ls -t dist/je_tools-*.whl | head -1)
version=$(basename "$wheel" | cut -d- -f2)
out=dist/je-tools-$version-$(uname -m).pex
targets=(--python "$python")
if [ $# -gt 0 ]; then
    targets=()
    for each; do
        targets+=(--python "$each")
    done
fi
# The file unpacks itself once into a virtual environment below PEX_ROOT: later it starts as fast as
# an installed je-tools, and worker processes find it. If it cannot write there, it unpacks below
# TMPDIR at each start.
"$python" -m pex "$wheel" --console-script je-tools "${targets[@]}" --venv prepend \
    --inherit-path=false --python-shebang "/usr/bin/env python3" --no-emit-warnings --output-file "$out"
ls -l "$out"
