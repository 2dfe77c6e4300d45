#!/usr/bin/env bash
# Builds the extension in place, for an editable install: `scripts/native.sh [release|checked]`.
# cargo itself detects that nothing has changed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/apt.sh
. scripts/cargo.sh

profile=${1:-release}
find_cargo
cargo build --quiet --locked --profile "$profile" --manifest-path formats/native/Cargo.toml
built=${CARGO_TARGET_DIR:-build/native}/$profile/lib_native.so
extension=formats/_native.abi3.so
if ! cmp -s "$built" "$extension"; then
    # A process may have the file loaded, so it is replaced, not overwritten.
    cp "$built" "$extension.new"
    mv "$extension.new" "$extension"
fi
