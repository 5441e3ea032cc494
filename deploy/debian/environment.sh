#!/bin/bash
# environment.sh CONTEXT OUT: make /opt/roost, the virtual environment, and OUT/PACKAGE.files, what of it
# each package has.
#
# It is made in three layers: roost-common has what nodes need, roost-tools adds the commands,
# roost-controller adds the daemon; roost-node adds no Python. Each layer is what its pip install
# added, so no file is in two packages.
set -euo pipefail

context=$1
work=$2
prefix=/opt/roost

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

mkdir -p "$work"
python3 -m venv "$prefix"
pip_files=$(listed)
add_layer common 'roost[probe]'
add_layer tools 'roost[cli,sim]'
add_layer controller 'roost[daemon]'
# Each program belongs to one package; those of libraries, roost-train and roost-demo to none.
sed -i '\#^opt/roost/bin/#d' "$work"/*.files
# The environment itself, without pip and what activates it for a shell.
echo "$pip_files" | grep -E '^opt/roost/(pyvenv.cfg|bin/python[0-9.]*|lib64)$' >>"$work/common.files"
printf 'opt/roost/bin/%s\n' roost-probe roost-progress roost-slurm >>"$work/common.files"
printf 'opt/roost/bin/%s\n' roostctl roost-sim >>"$work/tools.files"
echo opt/roost/bin/roostd >>"$work/controller.files"
