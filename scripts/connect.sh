#!/usr/bin/env bash
# Installs what Spark Connect needs beside PySpark into build/connect, for one test. It is not in
# .venv, because a test there shows that the format jelog needs no pandas.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
version=$("$python" -c 'import pyspark; print(pyspark.__version__)')
[ "$(cat build/connect/stamp 2>/dev/null)" = "$version" ] && exit 0
rm -rf build/connect
# numpy and pyarrow are in .venv.
"$python" - <<'END' | xargs -d '\n' "$python" -m pip install --quiet --disable-pip-version-check \
    --target build/connect
import importlib.metadata
for line in importlib.metadata.requires("pyspark"):
    name, _, extra = line.partition("; extra == ")
    if extra == '"connect"' and not name.startswith(("numpy", "pyarrow")):
        print(name)
END
echo "$version" >build/connect/stamp
