#!/usr/bin/env bash
# Runs rustfmt and clippy on the crates of formats/native.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/apt.sh
. scripts/cargo.sh

find_cargo
find_cargo_tool fmt
find_cargo_tool clippy
cd formats/native
cargo fmt --all --check
cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
