#!/usr/bin/env bash
# The main job over the shipped environments: is each intact, and what does it hold?
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }

for home in $(find fixtures -name '*.jdb' -exec dirname {} + | sort -u); do
    say je-tools verify "$home"
    je-tools verify "$home"
    say je-tools summary "$home"
    je-tools summary "$home"
done
sample=fixtures/v17-crash-txn/env
say je-tools dump "$sample" --limit 40
je-tools dump "$sample" --limit 40

cat <<END

What to look at
  verify   printed the findings of each environment: none, or notes, for these; exit code 0.
           Damage one and see: cp -r $sample /tmp/hurt, change a byte in
           the middle of /tmp/hurt/00000000.jdb, then .venv/bin/je-tools verify /tmp/hurt
  summary  counts and bytes per entry type, beside the engine's own DbPrintLog -S, whose
           output is kept in fixtures/*/truth/summary.txt
  dump     the first 40 entries of a log whose writer was killed with transactions open;
           --type, --db, --txn, --key, --format jsonl and others are in .venv/bin/je-tools dump --help
END
