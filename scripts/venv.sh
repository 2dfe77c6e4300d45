#!/usr/bin/env bash
# Creates .venv and installs the project into it, editable: `scripts/venv.sh base|dev|site`.
# base: what a user needs, including Spark, and the extra that makes a wheel; dev: also the extras
# test and lint; site: base and the extra that builds the site.
# A .venv is reused as long as pyproject.toml, this script and the Python are the same. The
# extension is rebuilt if its sources have changed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/apt.sh
. scripts/cargo.sh

what=${1:-base}
# An activated .venv must not be recreated by its own Python.
PATH=$(printf '%s' "$PATH" | tr ':' '\n' | grep -vxF -- "$PWD/.venv/bin" | paste -sd: -)
python=""
for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if command -v "$candidate" >/dev/null &&
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "je-tools needs Python 3.11 or newer; none found (set PYTHON=/path/to/python)" >&2
    exit 1
fi

version=$("$python" -c 'import sys; print(sys.version, sys.prefix)')
stamp=$({ cat pyproject.toml scripts/venv.sh; echo "$version $PWD"; } | cksum)
if [ "$(cat ".venv/stamp-$what" 2>/dev/null)" = "$stamp" ]; then
    exec scripts/native.sh
fi
find_cargo

# Debian and Ubuntu ship Python without ensurepip, which a virtual environment needs.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    short=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    if ! apt_install "$short-venv" && ! apt_install python3-venv; then
        echo "$python cannot make virtual environments: install the package $short-venv" >&2
        exit 1
    fi
fi

# An unfinished or outdated environment is recreated, to drop what pyproject.toml no longer names.
if [ "$(cat .venv/stamp-base 2>/dev/null)" != "$stamp" ]; then
    rm -rf .venv
    "$python" -m venv .venv
fi
case $what in
base) target='.[spark,dist]' ;;
dev) target='.[spark,dist,test,lint]' ;;
site) target='.[spark,dist,site]' ;;
*) echo "usage: scripts/venv.sh base|dev|site" >&2; exit 2 ;;
esac
echo "installing $target into .venv" >&2
# pip runs cargo, which keeps its build for the next time; scripts/native.sh puts it in place.
.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable "$target"
echo "$stamp" >.venv/stamp-base
echo "$stamp" >".venv/stamp-$what"
scripts/native.sh
