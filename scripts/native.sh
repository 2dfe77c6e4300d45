#!/usr/bin/env bash
# Builds the extension in place, for an editable install: `scripts/native.sh [release|checked]`.
# cargo itself detects that nothing has changed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/apt.sh
. scripts/cargo.sh

profile=${1:-release}
find_cargo
# As setuptools-rust builds it for the wheel: with other arguments, each would build the crate anew.
cargo rustc --quiet --lib --locked --profile "$profile" --manifest-path formats/native/Cargo.toml \
    --features pyo3/extension-module --crate-type cdylib
built=${CARGO_TARGET_DIR:-build/native}/$profile/lib_native.so
extension=formats/_native.abi3.so
if ! cmp -s "$built" "$extension"; then
    # A process may have the file loaded, so it is replaced, not overwritten.
    cp "$built" "$extension.new"
    mv "$extension.new" "$extension"
fi
