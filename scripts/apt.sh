# Sourced. `apt_install PACKAGE…` installs with apt if that needs no question, `apt_update` reads
# the package lists.
apt_install() {
    echo "installing $* with apt" >&2
    # A fresh machine has no package lists; an old one may have stale ones.
    _apt install -y -q --no-install-recommends "$@" && return 0
    apt_update || return 1
    _apt install -y -q --no-install-recommends "$@"
}

apt_update() {
    _apt update -q
}

_apt() {
    local root=()
    command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || return 1
        root=(sudo -n)
    fi
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$@" >&2
}
