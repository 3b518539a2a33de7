# A bare Debian 12 in a chroot, for the tests of the package; to be sourced after lib.sh. Where it cannot be had,
# the test says so and checks nothing.

skip() {
    printf '\n!!! THE DEBIAN PACKAGE IS NOT TESTED: %s !!!\n\n' "$*" >&2
    exit 0
}
[ "$(id -u)" -eq 0 ] || skip "this needs root; run it with sudo"
has apt-get || skip "this needs Debian's apt-get"
has debootstrap || (apt_install debootstrap) || skip "debootstrap cannot be installed"

made=$PWD/target/package
chroot=$made/chroot
log=$chroot/var/lib/watchtower/test.log
daemon=
# Where the daemon's web port is.
web=
finish() {
    [ -z "$daemon" ] || kill -KILL "$daemon" 2>/dev/null || true
    ! mountpoint -q "$chroot/proc" || umount "$chroot/proc"
    # The rest of a test that was ended before it was done.
    rm -rf --one-file-system "$chroot"
}
trap finish EXIT

wrong() {
    [ ! -f "$log" ] || cat "$log" >&2
    fail "$*"
}

# bare_system: a fresh one in $chroot, unpacked from one that is made once.
bare_system() {
    local mirror
    if [ ! -f "$made/bookworm.tar" ]; then
        step "making a bare Debian 12 in target/package/bookworm.tar"
        mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' 'Created-By: Packages' | head -1)
        [ -n "$mirror" ] || skip "apt knows no mirror of Debian 12"
        rm -rf "$chroot"
        mkdir -p "$made"
        debootstrap --variant=minbase bookworm "$chroot" "$mirror" >"$made/debootstrap.log" || {
            tail -3 "$made/debootstrap.log" >&2
            skip "debootstrap failed; is the network reachable?"
        }
        tar -C "$chroot" -cf "$made/bookworm.tar.new" .
        mv "$made/bookworm.tar.new" "$made/bookworm.tar"
    fi
    ! mountpoint -q "$chroot/proc" || umount "$chroot/proc"
    rm -rf --one-file-system "$chroot"
    mkdir -p "$chroot"
    tar -C "$chroot" -xf "$made/bookworm.tar"
    # The daemon starts itself once more as the engine, by /proc/self/exe.
    mount -t proc proc "$chroot/proc" || skip "/proc cannot be mounted in a chroot here"
}

clean=(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C)
inside() { "${clean[@]}" chroot "$chroot" "$@"; }

# install_deb FILE [OPTION...]: with nobody there to answer questions.
install_deb() {
    cp "$1" "$chroot/watchtower.deb"
    inside dpkg "${@:2}" --install /watchtower.deb </dev/null >"$made/dpkg.log" 2>&1 || {
        cat "$made/dpkg.log" >&2
        fail "dpkg could not install $1"
    }
}

# repacked VERSION: the package once more, as this version.
repacked() {
    sed -i "s/^Version: .*/Version: $1/" "$made/root/DEBIAN/control"
    dpkg-deb --root-owner-group -Zgzip -z1 --build "$made/root" "$made/next.deb" >/dev/null
}

# start_daemon [OPTION...]: as its unit would, with more options, and waits until it answers.
start_daemon() {
    local end=$((SECONDS + 60))
    web=
    # In place of the shell, so that what is stopped below is the daemon itself.
    (
        exec "${clean[@]}" chroot "$chroot" setpriv --reuid watchtower --regid watchtower --clear-groups \
            env STATE_DIRECTORY=/var/lib/watchtower watchtower "$@" serve
    ) >"$log" 2>&1 &
    daemon=$!
    until [ -n "$web" ] && curl -fsS -m 5 "http://$web/healthz" >/dev/null; do
        [ $SECONDS -lt $end ] && kill -0 $daemon 2>/dev/null || wrong "the daemon does not answer on /healthz"
        sleep 0.2
        web=$(listens web)
    done
}

# listens PORT: the address of `web`, `otlp_grpc` or `otlp_http`, as the log has it.
listens() { sed 's/\x1b\[[0-9;]*m//g' "$log" | sed -n "s/.* listening .*$1=\([^ ]*\).*/\1/p"; }

stop_daemon() {
    kill -TERM $daemon
    wait $daemon || wrong "the daemon ended with $?"
    daemon=
}
