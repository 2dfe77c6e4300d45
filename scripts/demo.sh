#!/usr/bin/env bash
# Runs the main commands on the shipped environments: verify, summary, dump and audit.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }
run() { say "$@"; "$@"; }

# The audit runs on Spark. Without a JDK it reports what is missing, after the other commands.
command -v "${JAVA_HOME:+$JAVA_HOME/bin/}java" >/dev/null || scripts/jdk.sh || true

sample=fixtures/v17-crash-txn/env
run je-tools verify "$sample"
run je-tools summary "$sample"
run je-tools dump "$sample" --limit 20
mkdir -p build
say je-tools audit run fixtures --output build/audit
code=0
je-tools audit run fixtures --output build/audit || code=$?
if [ "$code" -ne 3 ]; then
    echo "demo: the audit ended with exit code $code instead of 3" >&2
    exit $((code ? code : 1))
fi

cat <<END

What to look at
  verify   printed nothing of one log and said that it is intact; exit code 0. Damage a copy and
           see: cp -r $sample /tmp/hurt, change a byte in the middle of
           /tmp/hurt/00000000.jdb, then .venv/bin/je-tools verify /tmp/hurt
  summary  counts and bytes per entry type, beside the engine's own DbPrintLog -S, whose
           output is kept in fixtures/*/truth/summary.txt
  dump     the first 20 entries of a log whose writer was killed with transactions open;
           --type, --db, --txn, --key, --format jsonl and others are in .venv/bin/je-tools dump --help
  audit    did all of that for every environment below fixtures/ at once, the worst first; exit
           code 3, since some of them are damaged or too old on purpose

  the page    $PWD/build/audit/report.html
  the tables  $PWD/build/audit/{environments,files,entry_stats,findings,vlsn_ranges,txns,checkpoints}/*.parquet
  the summary $PWD/build/audit/audit.json
END
