#!/bin/bash
# A Docker engine with compose for tests, on machines that may have neither.
#
#   eval "$(deploy/compose/engine.sh up)"   use the running engine, else install and start one
#   deploy/compose/engine.sh down           stop what `up` started; leaves a foreign engine alone
#   deploy/compose/engine.sh running        exit 0 while an engine that `up` started runs
#   deploy/compose/engine.sh with COMMAND   `up`, the command, and `down` where this call started it
#
# `up` prints the environment to use: DOCKER_HOST and DOCKER_CONFIG where they differ from the
# defaults, and ROOST_COMPOSE, the compose command. Everything else goes to stderr.
#
# The engine it starts has its own socket, pid file and data, no default bridge, and never touches
# iptables or forwarding: builds use the host's network, clusters use internal networks. Its data
# live in memory where 6 GiB are free there, since removing a gigabyte of layers from a disk takes
# half a minute.
set -euo pipefail

RUN_DIR=${ROOST_ENGINE_DIR:-/run/roost-engine}
# Named like the folder, so that two engines of two checkouts share nothing.
DATA_NAME=$(basename "$RUN_DIR")-data
MEMORY_NEEDED_KIB=$((6 * 1024 * 1024))

say() { echo "engine: $*" >&2; }
die() {
    say "$*"
    exit 1
}

runs() { # PROGRAM PIDFILE; a process that only waits to be reaped has no program any more
    [ -s "$2" ] && [[ "$(readlink "/proc/$(cat "$2")/exe")" == */$1 ]]
}

is_ours_running() { runs dockerd "$RUN_DIR/dockerd.pid"; }

answers() { timeout 10 docker info >/dev/null 2>&1; }

install_packages() {
    [ "$(id -u)" = 0 ] ||
        die "$* must be installed, which needs root: use sudo, or start an engine with compose first"
    grep -qsE '^ID(_LIKE)?=.*debian' /etc/os-release ||
        die "$* must be installed, and only Debian's packages are known here: start an engine with compose first"
    say "installing: $*"
    # The package would start a service of its own, which changes the host's firewall.
    local policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        trap "rm -f $policy" EXIT
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
    fi
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        -o DPkg::Lock::Timeout=300 "$@" >&2
}

data_folder() {
    local free_kib
    free_kib=$(df --output=avail /dev/shm 2>/dev/null | tail -1)
    if [ "${free_kib:-0}" -ge "$MEMORY_NEEDED_KIB" ]; then
        echo "/dev/shm/$DATA_NAME"
    else
        echo "/var/tmp/$DATA_NAME"
    fi
}

start_own() {
    command -v dockerd >/dev/null || {
        packages=(docker.io)
        [ -z "$(apt-cache search --names-only '^docker-cli$')" ] || packages+=(docker-cli)
        install_packages "${packages[@]}"
    }
    [ ! -e "$RUN_DIR" ] || down # what a killed one left
    mkdir -p "$RUN_DIR"
    data_folder >"$RUN_DIR/data-folder"
    say "starting dockerd, data in $(cat "$RUN_DIR/data-folder")"
    setsid dockerd --host "unix://$RUN_DIR/docker.sock" --pidfile "$RUN_DIR/dockerd.pid" \
        --exec-root "$RUN_DIR/exec" --data-root "$(cat "$RUN_DIR/data-folder")" \
        --bridge=none --iptables=false --ip6tables=false --ip-masq=false --ip-forward=false \
        >"$RUN_DIR/dockerd.log" 2>&1 </dev/null &
    export DOCKER_HOST="unix://$RUN_DIR/docker.sock"
    for _ in $(seq 1 150); do
        ! answers || return 0
        sleep 0.2
    done
    tail -20 "$RUN_DIR/dockerd.log" >&2
    die "dockerd did not answer within 30 s; its log is above and in $RUN_DIR/dockerd.log"
}

compose_command() {
    if docker compose version >/dev/null 2>&1; then
        echo "docker compose"
    elif docker-compose version >/dev/null 2>&1; then
        echo docker-compose
    fi
}

# Debian 12 has only compose 1. The package of Debian 13 holds one binary that needs nothing newer
# than Debian 12's libc: it is fetched with apt, which checks the archive's signature, into a
# folder of its own and unpacked, not installed.
fetch_compose_plugin() {
    local work mirror
    mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
        awk '$1 == "Debian" && $2 == "Debian" {print $3; exit}')
    [ -n "$mirror" ] || return 1
    work=$(mktemp -d)
    mkdir -p "$work"/{lists,cache/archives}/partial "$RUN_DIR/docker-config/cli-plugins"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$work/sources.list"
    local apt=(apt-get -qq -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
    (
        cd "$work"
        "${apt[@]}" update >&2 && "${apt[@]}" download docker-compose >&2 && dpkg-deb -x docker-compose_*.deb tree
    ) || { rm -rf "$work"; return 1; }
    cp "$work/tree/usr/libexec/docker/cli-plugins/docker-compose" "$RUN_DIR/docker-config/cli-plugins/"
    rm -rf "$work"
}

find_compose() {
    [ -z "$(compose_command)" ] || return 0
    if [ -x "$RUN_DIR/docker-config/cli-plugins/docker-compose" ] || fetch_compose_plugin; then
        export DOCKER_CONFIG="$RUN_DIR/docker-config"
    fi
    [ -n "$(compose_command)" ] || install_packages docker-compose
    [ -n "$(compose_command)" ] || die "no compose command could be had; install Docker's compose plugin"
}

up() {
    if is_ours_running; then
        export DOCKER_HOST="unix://$RUN_DIR/docker.sock"
    fi
    if ! answers; then start_own; fi
    find_compose
    say "Docker $(docker version --format '{{.Server.Version}}'), $(compose_command) $($(compose_command) version --short)"
    [ -z "${DOCKER_HOST:-}" ] || echo "export DOCKER_HOST='$DOCKER_HOST'"
    [ -z "${DOCKER_CONFIG:-}" ] || echo "export DOCKER_CONFIG='$DOCKER_CONFIG'"
    echo "export ROOST_COMPOSE='$(compose_command)'"
}

stop_own() {
    local pid
    pid=$(cat "$RUN_DIR/dockerd.pid")
    docker --host "unix://$RUN_DIR/docker.sock" ps -q |
        xargs -r docker --host "unix://$RUN_DIR/docker.sock" kill >/dev/null
    kill "$pid"
    for _ in $(seq 1 150); do
        [ -d "/proc/$pid" ] || return 0
        sleep 0.2
    done
    die "dockerd (pid $pid) does not stop; see $RUN_DIR/dockerd.log"
}

down() {
    [ -e "$RUN_DIR/data-folder" ] || {
        say "no engine of ours is here"
        return 0
    }
    ! is_ours_running || stop_own
    local data containerd=$RUN_DIR/exec/containerd/containerd.pid
    data=$(cat "$RUN_DIR/data-folder")
    # A dockerd that was killed leaves its helper and mounts behind, the innermost last.
    ! runs containerd "$containerd" || kill "$(cat "$containerd")"
    awk -v data="$data" -v run="$RUN_DIR/" 'index($2, data) == 1 || index($2, run) == 1 {print $2}' /proc/mounts |
        sort -r | xargs -r -n1 umount
    rm -rf "$data" "$RUN_DIR"
    say "stopped, data removed"
}

with_engine() { # COMMAND...: several processes of it may use the engine at once
    local was_running=no environment status=0
    ! is_ours_running || was_running=yes
    environment=$(up)
    (eval "$environment" && "$@") || status=$?
    [ "$was_running" = yes ] || down
    return "$status"
}

case "${1:-}" in
up) up ;;
down) down ;;
running) is_ours_running ;;
with) with_engine "${@:2}" ;;
*) die "usage: engine.sh up|down|running|with COMMAND" ;;
esac
