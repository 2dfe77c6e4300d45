#!/usr/bin/env bash
# Runs the unit tests of the core crate: `scripts/rust-test.sh [cargo's options]`.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/apt.sh
. scripts/cargo.sh

find_cargo
cargo test --quiet --locked --manifest-path formats/native/Cargo.toml -p je-tools-core "$@"
