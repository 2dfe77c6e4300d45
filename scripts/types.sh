#!/usr/bin/env bash
# Runs mypy on a copy laid out as installed: at the root it would take `formats` for a second
# package.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf build/types
mkdir -p build/types
cp -Rp je_tools build/types/je_tools
cp -Rp commands formats build/types/je_tools/
find build/types -name __pycache__ -prune -exec rm -rf {} +
mypy=$PWD/.venv/bin/mypy
cd build/types
"$mypy" --config-file ../../pyproject.toml --cache-dir ../mypy-cache -p je_tools
