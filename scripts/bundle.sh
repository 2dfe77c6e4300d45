#!/usr/bin/env bash
# Makes dist/je-tools-VERSION-MACHINE.pex out of the wheel in dist: je-tools and all that it needs,
# without Spark, in one file for hosts without network.
# `scripts/bundle.sh [python3.11 python3.12 …]`: the file runs with the versions of these Pythons,
# which are on this machine, by default with that of .venv only. Each adds some 80 MB of packages.
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
# It unpacks into a virtual environment below PEX_ROOT, so that it starts as fast as an installed
# je-tools from then on, and worker processes find it. Without a folder that can be written, it
# unpacks below TMPDIR each time.
"$python" -m pex "$wheel" --console-script je-tools "${targets[@]}" --venv prepend \
    --inherit-path=false --python-shebang "/usr/bin/env python3" --no-emit-warnings --output-file "$out"
ls -l "$out"
