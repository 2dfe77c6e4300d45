#!/usr/bin/env bash
# The tests look at the audit's page in Chromium: installs it with apt where none is found and apt
# can, and otherwise says what to install (exit 1).
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/apt.sh

python=.venv/bin/python
"$python" -m tests.browser >/dev/null 2>&1 && exit 0
# Ubuntu's package of this name asks for a snap, which says so itself.
apt_install chromium && "$python" -m tests.browser && exit 0
"$python" -m tests.browser
