#!/bin/bash
# assemble.sh CONTEXT OUT: make the packages, in a machine of the suite that they are for.
#
# All of Roost is one virtual environment, /opt/roost, in three layers: roost-common has what nodes
# need, roost-tools adds the commands, roost-controller adds the daemon. roost-node adds no Python.
# Each layer is what its pip install added, so no file is in two packages.
set -euo pipefail

context=$1
out=$2
here=$context/debian
work=$(mktemp -d)
prefix=/opt/roost
version=$(ls "$context"/roost/roost-*.whl | sed -E 's|.*/roost-([^-]+)-.*|\1|')-1~$SUITE
python=$(python3 -c 'import sys; print("{}.{}".format(*sys.version_info))')
next_python=$(python3 -c 'import sys; print("{}.{}".format(sys.version_info[0], sys.version_info[1] + 1))')
architecture=$(dpkg --print-architecture)

listed() { (cd / && find "${prefix#/}" \( -type f -o -type l \) | sort); }

add_layer() { # NAME EXTRA...: what its pip install adds to the environment
    local name=$1 before
    before=$(listed)
    shift
    "$prefix/bin/pip" install --quiet --no-index --no-compile --find-links "$context/wheels" \
        --find-links "$context/roost" "$@"
    # Hooks have a second in all: nothing is compiled when they start, and as root nothing could be.
    comm -13 <(echo "$before") <(listed) | sed -n 's|^opt.*\.py$|/&|p' |
        "$prefix/bin/python" -m compileall -q --invalidation-mode unchecked-hash -i - >/dev/null ||
        true # some library ships a template that is no Python
    comm -13 <(echo "$before") <(listed) >"$work/$name.files"
}

make_environment() {
    python3 -m venv "$prefix"
    local pip_files
    pip_files=$(listed)
    add_layer common 'roost[probe]'
    add_layer tools 'roost[cli,sim]'
    add_layer controller 'roost[daemon]'
    # Each program belongs to one package; those of libraries, roost-train and roost-demo to none.
    sed -i '\#^opt/roost/bin/#d' "$work"/*.files
    # The environment itself, without pip and what activates it for a shell.
    echo "$pip_files" | grep -E '^opt/roost/(pyvenv.cfg|bin/python[0-9.]*|lib64)$' >>"$work/common.files"
    echo opt/roost/bin/roost-probe >>"$work/common.files"
    echo opt/roost/bin/roost-slurm >>"$work/common.files"
    printf 'opt/roost/bin/%s\n' roostctl roost-sim >>"$work/tools.files"
    echo opt/roost/bin/roostd >>"$work/controller.files"
}

layer() { # NAME: copy its files into the package
    mkdir -p "$work/roost-$1"
    tar -C / --no-recursion -c --files-from "$work/$1.files" | tar -C "$work/roost-$1" -x
}

program() { # PACKAGE NAME SECTION: in the path, with its man page
    mkdir -p "$work/$1/usr/bin" "$work/$1/usr/share/man/man$3"
    ln -s "$prefix/bin/$2" "$work/$1/usr/bin/$2"
    "$prefix/bin/python" "$here/man_page.py" "$2" "$3" | gzip -9n >"$work/$1/usr/share/man/man$3/$2.$3.gz"
}

unit() { # PACKAGE FILE [FOLDER]
    install -D -m 644 "$prefix/share/roost/systemd/$2" "$work/$1/usr/lib/systemd/system/${3:-}$(basename "$2")"
}

complete() { # PACKAGE PROGRAM
    install -d "$work/$1/usr/share/bash-completion/completions" "$work/$1/usr/share/zsh/vendor-completions" \
        "$work/$1/usr/share/fish/vendor_completions.d"
    "$prefix/bin/$2" completion bash >"$work/$1/usr/share/bash-completion/completions/$2"
    "$prefix/bin/$2" completion zsh >"$work/$1/usr/share/zsh/vendor-completions/_$2"
    "$prefix/bin/$2" completion fish >"$work/$1/usr/share/fish/vendor_completions.d/$2.fish"
}

fill_common() {
    layer common
    program roost-common roost-slurm 8
    local doc=$work/roost-common/usr/share/doc/roost
    install -d "$doc/examples" "$work/roost-common/etc/roost"
    cp "$context/deploy/README.md" "$context/deploy/CHANGELOG.md" "$doc/"
    cp -R "$context/docs" "$doc/"
    cp "$context/deploy/roostd.yaml" "$doc/examples/"
}

fill_tools() {
    layer tools
    program roost-tools roostctl 1
    program roost-tools roost-sim 1
    complete roost-tools roostctl
    complete roost-tools roost-sim
}

fill_node() {
    program roost-node roost-probe 8
    unit roost-node roost-probe.service
    install -D -m 644 "$here/node/default" "$work/roost-node/etc/default/roost-probe"
    install -D -m 644 "$here/node/tmpfiles.conf" "$work/roost-node/usr/lib/tmpfiles.d/roost-node.conf"
    install -D -m 644 "$here/node/job-map.conf" \
        "$work/roost-node/usr/lib/systemd/system/roostd.service.d/job-map.conf"
}

fill_controller() {
    layer controller
    program roost-controller roostd 8
    unit roost-controller roostd.service
    unit roost-controller roost-unpin.service
    unit roost-controller roost-unpin.timer
    [ "$SUITE" = bookworm ] || unit roost-controller roostd.service.d/restart-steps.conf roostd.service.d/
    install -D -m 644 "$here/controller/group.conf" \
        "$work/roost-controller/usr/lib/systemd/system/roostd.service.d/group.conf"
    install -D -m 644 "$here/controller/sysusers.conf" \
        "$work/roost-controller/usr/lib/sysusers.d/roost-controller.conf"
    install -D -m 644 "$here/controller/logrotate" "$work/roost-controller/etc/logrotate.d/roost"
    install -D -m 644 "$here/controller/roostd.yaml" "$work/roost-controller/etc/roost/roostd.yaml"
}

pack() { # NAME DEPENDS SUMMARY
    local folder=$work/$1 name=${1#roost-} script
    mkdir -p "$folder/DEBIAN"
    cat >"$folder/DEBIAN/control" <<CONTROL
Package: $1
Version: $version
Architecture: $architecture
Maintainer: Roost <roost@localhost>
Section: admin
Priority: optional
Installed-Size: $(du -sk "$folder" | cut -f1)
Depends: $2
Suggests: slurm-client
Description: $3
 Roost puts every GPU job of a Slurm cluster on the right GPUs. Nothing is enabled or started by the
 installation: see /usr/share/doc/roost/docs/install.md.
CONTROL
    (cd "$folder" && find etc -type f 2>/dev/null | sed 's|^|/|' >DEBIAN/conffiles)
    [ -s "$folder/DEBIAN/conffiles" ] || rm "$folder/DEBIAN/conffiles"
    for script in postinst prerm postrm; do
        [ ! -e "$here/$name/$script" ] || install -m 755 "$here/$name/$script" "$folder/DEBIAN/$script"
    done
    dpkg-deb --root-owner-group -Zzstd -z6 --build "$folder" "$out" >/dev/null
}

mkdir -p "$out"
make_environment
fill_common
fill_tools
fill_node
fill_controller
pack roost-common "python3 (>= $python), python3 (<< $next_python), libc6, libstdc++6" "GPU placement for Slurm, shared part"
pack roost-tools "roost-common (= $version)" "GPU placement for Slurm, roostctl and roost-sim"
pack roost-node "roost-common (= $version)" "GPU placement for Slurm, the probe of a GPU node"
pack roost-controller "roost-common (= $version), roost-tools (= $version)" "GPU placement for Slurm, the daemon beside slurmctld"
