#!/usr/bin/env bash
# Installs Chromium with apt if there is none: the tests open the audit's page in it. If apt cannot,
# prints what to install (exit 1).
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/apt.sh

python=.venv/bin/python
"$python" -m tests.browser >/dev/null 2>&1 && exit 0
# Ubuntu's package of this name only asks for a snap, and says so itself.
apt_install chromium && "$python" -m tests.browser && exit 0
"$python" -m tests.browser
