#!/usr/bin/env bash
# Installs a JDK 17 or newer with apt if there is none: the tests and the bench run the real engine.
# If apt cannot, prints what to install (exit 1).
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/apt.sh

python=.venv/bin/python
[ -x "$python" ] || python=python3
"$python" -m tests.engine.java >/dev/null 2>&1 && exit 0
for package in default-jdk-headless openjdk-17-jdk-headless; do
    apt_install "$package" && "$python" -m tests.engine.java && exit 0
done
"$python" -m tests.engine.java
