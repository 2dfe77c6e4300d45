#!/usr/bin/env bash
# Checks the crates of formats/native with the oldest Rust that builds them. Clippy rejects newer
# functions of the library, but not newer syntax. rustup downloads that Rust, about 60 MB.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/apt.sh
. scripts/cargo.sh

find_cargo
if ! command -v rustup >/dev/null; then
    echo "the crates were not checked with Rust $MIN_RUST, as there is no rustup" >&2
    exit 0
fi
rustup toolchain install --profile minimal --no-self-update "$MIN_RUST" >/dev/null 2>&1
CARGO_TARGET_DIR=$PWD/build/oldest cargo "+$MIN_RUST" check --quiet --locked --workspace \
    --all-targets --manifest-path formats/native/Cargo.toml
