#!/bin/bash
# assemble.sh CONTEXT OUT: make the packages, in a machine of the suite that they are for.
#
# environment.sh has made /opt/roost and the list of files of each package.
set -euo pipefail

context=$1
out=$2
here=$context/debian
work=/layers
prefix=/opt/roost
# apt may leave out a package that has the version of the installed one: each checkout has its own.
version=$(ls "$context"/roost/roost-*.whl | sed -E 's|.*/roost-([^-]+)-.*|\1|')+git$CHECKOUT_TIME-1~$SUITE
python=$(python3 -c 'import sys; print("{}.{}".format(*sys.version_info))')
next_python=$(python3 -c 'import sys; print("{}.{}".format(sys.version_info[0], sys.version_info[1] + 1))')
architecture=$(dpkg --print-architecture)

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
    program roost-node roost-progress 1
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
    [ ! -d "$folder/etc" ] || (cd "$folder" && find etc -type f | sed 's|^|/|' >DEBIAN/conffiles)
    [ -s "$folder/DEBIAN/conffiles" ] || rm -f "$folder/DEBIAN/conffiles"
    for script in postinst prerm postrm; do
        [ ! -e "$here/$name/$script" ] || install -m 755 "$here/$name/$script" "$folder/DEBIAN/$script"
    done
    dpkg-deb --root-owner-group -Zzstd -z6 --build "$folder" "$out" >/dev/null
}

mkdir -p "$out"
fill_common
fill_tools
fill_node
fill_controller
pack roost-common "python3 (>= $python), python3 (<< $next_python), libc6, libstdc++6" "GPU placement for Slurm, shared part"
pack roost-tools "roost-common (= $version)" "GPU placement for Slurm, roostctl and roost-sim"
pack roost-node "roost-common (= $version)" "GPU placement for Slurm, the probe of a GPU node"
pack roost-controller "roost-common (= $version), roost-tools (= $version)" "GPU placement for Slurm, the daemon beside slurmctld"
