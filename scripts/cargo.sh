# Sourced. `find_cargo` puts a cargo of at least rust-version (formats/native/Cargo.toml) on PATH,
# and installs one with apt if there is none; `find_cargo_tool fmt|clippy` finds the tools of `make
# lint`. If that fails, they print how to install it and return 1.
MIN_RUST=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' formats/native/Cargo.toml)

_has_cargo() {
    local version
    version=$(cargo --version 2>/dev/null | cut -d' ' -f2) && [ -n "$version" ] &&
        [ "$(printf '%s\n' "$MIN_RUST" "$version" | sort -V | head -n1)" = "$MIN_RUST" ]
}

find_cargo() {
    local packages
    _has_cargo && return 0
    # The folder of rustup, which only a new login shell has on its PATH.
    export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    _has_cargo && return 0
    # Debian 12 has a recent Rust in packages for the build of browsers.
    for packages in "rustc-web cargo-web" "rustc cargo"; do
        # shellcheck disable=SC2086
        _is_recent_in_apt $packages && apt_install $packages && _has_cargo && return 0
    done
    echo "je-tools is built with cargo $MIN_RUST or newer: install it from https://rustup.rs" >&2
    return 1
}

# Checks that apt's candidate of a package is recent enough; reads the lists if there are none.
_is_recent_in_apt() {
    local version
    command -v apt-cache >/dev/null || return 1
    version=$(apt-cache policy "$1" | sed -n 's/^ *Candidate: *\([0-9.]*\).*/\1/p')
    if [ -z "$version" ]; then
        apt_update || return 1
        version=$(apt-cache policy "$1" | sed -n 's/^ *Candidate: *\([0-9.]*\).*/\1/p')
    fi
    [ -n "$version" ] &&
        [ "$(printf '%s\n' "$MIN_RUST" "$version" | sort -V | head -n1)" = "$MIN_RUST" ]
}

find_cargo_tool() {
    local package
    cargo "$1" --version >/dev/null 2>&1 && return 0
    case $1 in
    fmt) set -- fmt rustfmt-web rustfmt ;;
    clippy) set -- clippy rust-web-clippy rust-clippy ;;
    esac
    for package in "${@:2}"; do
        _is_recent_in_apt "$package" && apt_install "$package" &&
            cargo "$1" --version >/dev/null 2>&1 && return 0
    done
    echo "make lint runs cargo $1: install it, e.g. by rustup component add ${1/fmt/rustfmt}" >&2
    return 1
}
