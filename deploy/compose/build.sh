#!/bin/bash
# build.sh SUITE [TARGET...]: build roost/TARGET:SUITE from this checkout; targets are debian, slurm,
# which is the default, clean, systemd, and site: roost/slurm and what tests/e2e/site needs beside.
#
# Roost's wheel and its dependencies are fetched by the host's pip, with the host's own index and
# certificates, for the Python of the image; the image is then built without a package index.
# Downloads are kept in build/compose, so that a second build is a matter of seconds; images that are
# as new as their sources are left alone.
set -euo pipefail

suite=${1:?usage: build.sh SUITE [debian|slurm|clean|systemd|site]...}
targets=("${@:2}")
[ $# -gt 1 ] || targets=(slurm)
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
context=$root/build/compose/$suite
python=${PYTHON:-$root/.venv/bin/python}
[ -x "$python" ] || python=python3

. "$here/sources.sh"

say() { echo "build: $*" >&2; }

quietly() { # COMMAND...: its output only where it fails
    local log
    log=$(mktemp)
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

python_version() { # of the image
    case "$suite" in
    bookworm) echo 3.11 ;;
    trixie) echo 3.13 ;;
    *) docker run --rm --network host "roost/base:$suite" \
        sh -c 'apt-get update -qq && apt-cache show python3-minimal' 2>/dev/null |
        sed -nE 's/^Version: ([0-9]+\.[0-9]+).*/\1/p' | head -1 ;;
    esac
}

requirements() { # WHEEL: what it asks for
    "$python" - "$1" <<'PYTHON'
import sys, zipfile

with zipfile.ZipFile(sys.argv[1]) as wheel:
    metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    lines = wheel.read(metadata).decode().splitlines()
print(*(line for line in lines if line.startswith(("Requires-Dist", "Provides-Extra"))), sep="\n")
PYTHON
}

fetch_wheels() {
    local version wheel wanted
    version=$(python_version)
    rm -rf "$context/roost"
    quietly "$python" -m pip wheel --no-deps --wheel-dir "$context/roost" "$root"
    wheel=$(echo "$context"/roost/roost-*.whl)
    wanted="Python $version
$(requirements "$wheel")"
    if [ "$(cat "$context/wanted" 2>/dev/null)" != "$wanted" ]; then
        say "fetching wheels for Python $version"
        rm -rf "$context/dependencies"
        quietly "$python" -m pip download --dest "$context/dependencies" \
            --python-version "$version" --only-binary=:all: "$wheel[daemon,probe,cli]"
        rm -f "$context"/dependencies/roost-*.whl
        echo "$wanted" >"$context/wanted"
    fi
}

fetch_test_wheels() {
    local wanted
    wanted="Python $(python_version): pytest pytest-asyncio pytest-rerunfailures pytest-timeout pytest-xdist"
    [ "$(cat "$context/wanted-by-tests" 2>/dev/null)" != "$wanted" ] || return 0
    rm -rf "$context/test-dependencies"
    # shellcheck disable=SC2086 # a list on purpose
    quietly "$python" -m pip download --dest "$context/test-dependencies" \
        --python-version "$(python_version)" --only-binary=:all: ${wanted#*: }
    echo "$wanted" >"$context/wanted-by-tests"
}

copy_files() { # what the image gets beside Roost
    rm -rf "$context/files"
    install -D -m 755 "$here/container.sh" "$context/files/usr/local/sbin/roost-container"
    install -D -m 644 "$here/roostd.yaml" "$context/files/etc/roost/roostd.yaml"
    install -D -m 644 "$here/slurm.conf" "$context/files/usr/share/roost-container/slurm.conf"
}

image_of() { docker image inspect --format '{{.Id}}' "roost/$1:$suite" 2>/dev/null; }

are_built() { # whether every target is the image that was built here from these sources
    local target
    for target in "${targets[@]}"; do
        is_as_new "$context/built-$target" "$root" &&
            [ "$(image_of "$target")" = "$(cat "$context/built-$target")" ] || return 1
    done
}

started=$SECONDS
docker info >/dev/null 2>&1 || eval "$("$here/engine.sh" up)"
mkdir -p "$context"
exec {lock}>"$context/lock" # another process may build other targets of the same suite
flock "$lock"
if are_built; then
    say "${targets[*]} for $suite are as new as their sources"
    exit
fi
touch "$context/begun" # a source that changes meanwhile counts as newer
"$here/base.sh" "$suite"
fetch_wheels
copy_files
for target in "${targets[@]}"; do
    dockerfile=(--build-arg "BASE=roost/base:$suite" --file "$here/Dockerfile" --target "$target")
    if [ "$target" = site ]; then
        fetch_test_wheels
        dockerfile=(--build-arg "ROOST=roost/slurm:$suite" --file "$here/Dockerfile.site")
    fi
    # The host's network, since the engine that engine.sh starts has no other that leads out.
    quietly docker build --network host "${dockerfile[@]}" --tag "roost/$target:$suite" "$context"
    image_of "$target" >"$context/built-$target"
    touch --reference="$context/begun" "$context/built-$target"
done
say "${targets[*]} for $suite built in $((SECONDS - started)) s"
