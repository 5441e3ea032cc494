#!/bin/bash
# What runs in a container of the cluster, which stands for one machine.
#
#   roost-container controller NODE...   slurmctld and roostd, configured for these nodes
#   roost-container node TOPOLOGY        slurmd and roost-probe, on a fake driver of this topology
#   roost-container roostd               roostd alone, to start it again where it was killed
#   roost-container probe                the probe alone, likewise
#   roost-container healthy              exit 0 while the machine does its part
#   roost-container systemd TOPOLOGY     where systemd is PID 1: a cluster of this machine alone, with
#                                        Slurm under its own units and all set up for Roost's
#
# Two folders are shared: /etc/munge with the cluster's key, which the controller makes, and
# /etc/slurm. There each node first leaves what its probe sees of its GPUs; from that the controller
# makes Slurm's configuration, for which the nodes wait.
set -euo pipefail

SHARED=/etc/slurm
FAKE_DRIVER=/var/lib/fake-nvml
PORT=7471

wait_for() { # FILE
    until [ -e "$1" ]; do sleep 0.1; done
}

make_munge_key() {
    [ ! -e /etc/munge/munge.key ] || return 0
    head -c 1024 /dev/urandom >/etc/munge/new.key
    chown -R munge: /etc/munge
    chmod 400 /etc/munge/new.key
    mv /etc/munge/new.key /etc/munge/munge.key
}

start_munged() {
    wait_for /etc/munge/munge.key
    install -d -o munge -g munge -m 755 /run/munge
    setpriv --reuid munge --regid munge --clear-groups munged --force
}

configure_slurm() { # NODE...
    local topologies=() node
    for node in "$@"; do
        wait_for "$SHARED/topology/$node.json"
        topologies+=("$SHARED/topology/$node.json")
    done
    roost-slurm config "${topologies[@]}" --out "$SHARED" --force
    # CgroupPlugin is read even where nothing uses cgroups; version 1 starts on any host.
    echo CgroupPlugin=cgroup/v1 >"$SHARED/cgroup.conf"
    {
        cat /usr/share/roost-container/slurm.conf
        sed -n 's/^NodeName=.*/& Sockets=2 CoresPerSocket=16 RealMemory=4000 State=UNKNOWN/p' "$SHARED/nodes.conf"
    } >"$SHARED/slurm.conf.new"
    mv "$SHARED/slurm.conf.new" "$SHARED/slurm.conf"
}

start_roostd() {
    install -d -o slurm -g slurm /run/roost /var/lib/roost
    setpriv --reuid slurm --regid slurm --init-groups \
        roostd --config /etc/roost/roostd.yaml >>/var/log/roostd.log 2>&1 &
    echo $! >/run/roostd.pid
}

run_controller() { # NODE...
    make_munge_key
    start_munged
    install -d "$SHARED/topology"
    [ -e "$SHARED/slurm.conf" ] || configure_slurm "$@"
    install -d -o slurm -g slurm /var/spool/slurmctld
    start_roostd
    exec slurmctld -D
}

make_gpus() { # TOPOLOGY
    local count i
    mkdir -p "$FAKE_DRIVER"
    python3 -m roost_probe.testing create --topology "$1" --node "$(hostname)" \
        --state "$FAKE_DRIVER/state" --lib-dir "$FAKE_DRIVER" --sysfs "$FAKE_DRIVER/sys"
    chmod 666 "$FAKE_DRIVER/state" # whatever user the probe has
    # Slurm only looks whether the device files are there; major 240 is for local use.
    count=$(probe --print-topology | grep -c ^GPU)
    for ((i = 0; i < count; i++)); do mknod -m 666 "/dev/nvidia$i" c 240 "$i"; done
}

probe() { # OPTION...: in a subshell, whose process it takes over
    export ROOST_FAKE_NVML_STATE=$FAKE_DRIVER/state LD_LIBRARY_PATH=$FAKE_DRIVER
    exec roost-probe --sysfs-root "$FAKE_DRIVER/sys" "$@"
}

start_probe() {
    mkdir -p /run/roost-probe
    probe --daemon "controller:$PORT" --node "$(hostname)" \
        --agent-socket /run/roost-probe/agent.sock >>/var/log/roost-probe.log 2>&1 &
    echo $! >/run/roost-probe.pid
}

tell_topology() {
    (probe --print-topology --json) >"$SHARED/topology/.$(hostname)"
    mv "$SHARED/topology/.$(hostname)" "$SHARED/topology/$(hostname).json"
}

run_node() { # TOPOLOGY
    start_munged
    [ -e "$FAKE_DRIVER/state" ] || make_gpus "$1"
    wait_for "$SHARED/topology"
    tell_topology
    start_probe
    wait_for "$SHARED/slurm.conf"
    mkdir -p /var/spool/slurmd
    exec slurmd -D -N "$(hostname)"
}

start_under_systemd() { # TOPOLOGY
    make_munge_key
    make_gpus "$1"
    mkdir -p "$SHARED/topology"
    tell_topology
    configure_slurm "$(hostname)"
    install -d -o slurm -g slurm /var/spool/slurmctld
    mkdir -p /var/spool/slurmd
    systemctl start munge slurmctld slurmd
}

is_healthy() {
    if [ -e /run/roostd.pid ]; then
        # Every node answers, and roostd's heartbeat is fresh.
        ! sinfo --noheader --Node --format %T | grep -qvE '^(idle|mixed|allocated|completing)$' &&
            find /run/roost/heartbeat -newermt '-15 seconds' | grep -q .
    else
        [ -S /run/roost-probe/agent.sock ] && pgrep -x slurmd >/dev/null
    fi
}

case "${1:-}" in
controller) run_controller "${@:2}" ;;
node) run_node "$2" ;;
roostd) start_roostd ;;
probe) start_probe ;;
healthy) is_healthy ;;
systemd) start_under_systemd "$2" ;;
*) exec "$@" ;;
esac
