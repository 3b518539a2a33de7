# What the scripts share; to be sourced, from the repository's root.

say() { printf '%s\n' "$*"; }
step() { printf '==> %s\n' "$*"; }
fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }

# Runs a command as root: directly, or through sudo.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif has sudo; then
        sudo "$@"
    else
        fail "this needs root, and there is no sudo: $*"
    fi
}

# apt_install PACKAGE...: installs Debian packages, where there is apt.
apt_install() {
    has apt-get || fail "please install these yourself and run this again: $*"
    step "installing: $*"
    as_root apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

need_rust() {
    # A fresh rustup is often not yet on the PATH of a running shell.
    if ! has cargo && [ -x "$HOME/.cargo/bin/cargo" ]; then
        PATH=$HOME/.cargo/bin:$PATH
    fi
    has cargo || fail "Rust is missing (cargo); install it with rustup, or from your distribution if that has 1.88 or later"
    has cc || fail "a C compiler is missing (cc); on Debian: apt-get install build-essential"
}

# What builds and runs a program for arm64 on another machine: Rust's library for it, a C compiler and linker, and
# qemu, which runs it.
ARM64=aarch64-unknown-linux-gnu

need_arm64() {
    need_rust
    has rustup || fail "rustup is missing, which brings Rust's library for $ARM64"
    rustup target add "$ARM64"
    has aarch64-linux-gnu-gcc && has qemu-aarch64-static ||
        apt_install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
}

build_arm64() {
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc \
        cargo build --release --locked --target "$ARM64"
}

run_arm64() { qemu-aarch64-static -L /usr/aarch64-linux-gnu "$@"; }

# The embedded ClickHouse engine, as the npm package of this version, in .engine/.
ENGINE_VERSION=26.7.3-stable.1

need_engine() {
    local package manifest
    case "$(uname -s)-$(uname -m)" in
        Linux-x86_64) package=@chdb/lib-linux-x64-gnu ;;
        Linux-aarch64) package=@chdb/lib-linux-arm64-gnu ;;
        *) fail "there is no embedded engine for $(uname -s) on $(uname -m); set store.url to a ClickHouse server" ;;
    esac
    manifest=.engine/node_modules/$package/package.json
    if [ -f "${manifest%/*}/libchdb.so" ] && grep -q "\"version\": *\"$ENGINE_VERSION\"" "$manifest"; then
        return
    fi
    has npm || apt_install npm
    step "installing the embedded ClickHouse engine into .engine/ (about 500 MB)"
    mkdir -p .engine
    npm install --prefix .engine --no-audit --no-fund --loglevel=error "$package@$ENGINE_VERSION" ||
        fail "npm could not install $package; is the network reachable, and is there room on the disk?"
    [ -f "${manifest%/*}/libchdb.so" ] || fail "$package holds no libchdb.so"
}

# Go, whose own installer puts it where the PATH may not lead.
need_go() {
    if ! has go && [ -x /usr/local/go/bin/go ]; then
        PATH=$PATH:/usr/local/go/bin
    fi
    has go || apt_install golang-go
}

# Prometheus's own checker of rules, in PROMTOOL; out of Debian's package, which is not installed.
need_promtool() {
    PROMTOOL=$(command -v promtool || echo "$PWD/target/promtool/usr/bin/promtool")
    [ ! -x "$PROMTOOL" ] || return 0
    has apt-get || fail "promtool is missing; it comes with Prometheus"
    step "getting promtool out of Debian's package prometheus"
    mkdir -p target/promtool
    (cd target/promtool && { apt-get download -q prometheus || { as_root apt-get update -q && apt-get download -q prometheus; }; } &&
        dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool && rm prometheus_*.deb)
}
