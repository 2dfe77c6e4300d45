#!/usr/bin/env bash
# Tests the extension for other processors in an emulator, on an x86-64 Debian: `make aarch64`.
# They are aarch64, and x86-64 with no vector instructions beyond SSE2.
# A compiler, a linker and the emulator are installed with apt. Packages for aarch64 are only unpacked
# below build/aarch64, through package lists of their own, so that the system stays as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/apt.sh
. scripts/cargo.sh

target=aarch64-unknown-linux-gnu
work=$PWD/build/aarch64
root=$work/root
tree=$work/tree
manifest=formats/native/Cargo.toml

# Rust's libraries have to be of the compiler's version, so both come from Debian.
apt_install rustc-web gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
find_cargo

unpack_packages() {
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/packages" "$root"
    cat >"$work/apt.conf" <<END
APT::Architectures { "amd64"; "arm64"; };
APT::Sandbox::User "root";
Dir::State::lists "$work/lists";
Dir::Cache "$work/cache";
END
    export APT_CONFIG=$work/apt.conf
    apt-get update -q >&2
    (cd "$work/packages" && apt-get download -q "${@/%/:arm64}" >&2)
    unset APT_CONFIG
    for package in "$work"/packages/*.deb; do
        dpkg -x "$package" "$root"
    done
}

# The names of wheels' platforms are compared as texts, so all of them are listed.
unpack_wheels() {
    local version platforms=()
    for version in {17..36}; do
        platforms+=(--platform "manylinux_2_${version}_aarch64")
    done
    .venv/bin/python -m pip download -q --disable-pip-version-check --dest "$work/wheels" \
        --only-binary :all: --python-version 311 --implementation cp --abi cp311 --abi abi3 \
        --abi none "${platforms[@]}" "$@"
    mkdir -p "$work/site"
    for wheel in "$work"/wheels/*.whl; do
        .venv/bin/python -m zipfile -e "$wheel" "$work/site"
    done
}

# The folders as an installed package has them, with the extension for aarch64.
lay_tree() {
    rm -rf "$tree"
    mkdir -p "$tree"
    cp -r je_tools tests pyproject.toml "$tree"
    cp -r commands "$tree/je_tools/commands"
    mkdir "$tree/je_tools/formats"
    tar -C formats -c --exclude native --exclude '*.so' . | tar -C "$tree/je_tools/formats" -x
    cp "$1" "$tree/je_tools/formats/_native.abi3.so"
    ln -s "$PWD/fixtures" "$tree/fixtures"
    # A test reads the stub where it is in the source tree.
    ln -s je_tools/formats "$tree/formats"
}

if [ ! -e "$work/unpacked" ]; then
    unpack_packages libstd-rust-web-dev python3.11-minimal libpython3.11-minimal \
        libpython3.11-stdlib libc6 libgcc-s1 libstdc++6 zlib1g libssl3 libffi8 libexpat1 \
        libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 libncursesw6 libtinfo6 libcrypt1
    mapfile -t needed < <(.venv/bin/python -c 'import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["project"]["dependencies"], sep="\n")')
    unpack_wheels "${needed[@]}" hypothesis pytest pytest-timeout pytest-xdist
    touch "$work/unpacked"
fi

export PROPTEST_CASES=${PROPTEST_CASES:-16}
CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="qemu-x86_64 -cpu qemu64" scripts/rust-test.sh

export RUSTC=/usr/bin/rustc CARGO_TARGET_DIR=$work/target
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="--sysroot $root/usr"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
cargo test --quiet --locked --manifest-path "$manifest" --target "$target" -p je-tools-core
cargo build --quiet --locked --release --manifest-path "$manifest" --target "$target"

lay_tree "$CARGO_TARGET_DIR/$target/release/lib_native.so"
cd "$tree"
OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$work/site \
    qemu-aarch64 -L "$root" "$root/usr/bin/python3.11" -m pytest -q -n 0 -p no:cacheprovider \
    -m "not exhaustive" tests/formats/test_native.py tests/formats/je/log tests/formats/ignite
