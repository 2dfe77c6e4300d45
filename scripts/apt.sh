# Sourced: `apt_install PACKAGE` installs with apt where that can be done without a question.
apt_install() {
    local root=()
    command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || return 1
        root=(sudo -n)
    fi
    echo "installing $1 with apt" >&2
    # A fresh machine has no package lists; an old one may have stale ones.
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$1" >&2 && return 0
    "${root[@]}" apt-get update -q >&2 || return 1
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$1" >&2
}
