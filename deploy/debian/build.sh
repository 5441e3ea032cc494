#!/bin/bash
# build.sh SUITE...: make dist/SUITE/*.deb, Roost's Debian packages for bookworm (Python 3.11) and trixie (3.13).
#
# The host's pip fetches the wheels, with the host's own index and certificates; a container of the
# suite assembles the packages without any index. Downloads stay in build/deb.
set -euo pipefail

[ $# -gt 0 ] || { echo "usage: build.sh bookworm|trixie..." >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
compose=$root/deploy/compose
python=${PYTHON:-$root/.venv/bin/python}
[ -x "$python" ] || python=python3

. "$compose/sources.sh"

say() { echo "deb: $*" >&2; }

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

fetch_wheels() { # SUITE CONTEXT
    local version wanted
    case $1 in
    bookworm) version=3.11 ;;
    trixie) version=3.13 ;;
    *) say "$1: want bookworm or trixie"; exit 2 ;;
    esac
    rm -rf "$2/roost"
    quietly "$python" -m pip wheel --no-deps --wheel-dir "$2/roost" "$root"
    wanted="Python $version
$(sed -n '/^dependencies/,/^\[project.scripts/p' "$root/pyproject.toml")"
    [ "$(cat "$2/wanted" 2>/dev/null)" != "$wanted" ] || return 0
    say "fetching wheels for Python $version"
    rm -rf "$2/wheels"
    quietly "$python" -m pip download --dest "$2/wheels" --python-version "$version" --only-binary=:all: \
        "$(echo "$2"/roost/roost-*.whl)[probe,daemon,cli,sim]"
    rm -f "$2"/wheels/roost-*.whl
    echo "$wanted" >"$2/wanted"
}

checkout_time() { # UTC, of the commit, or of the build where files differ from it
    local format=%Y%m%d%H%M%S changed
    changed=$(git -C "$root" status --porcelain 2>/dev/null) || changed="no checkout of git"
    if [ -z "$changed" ]; then
        TZ=UTC0 git -C "$root" log -1 --format=%cd --date="format-local:$format"
    else
        date -u "+$format"
    fi
}

build() { # SUITE
    local context=$root/build/deb/$1 out=$root/dist/$1 started=$SECONDS image=roost/deb:$1 base=roost/base:$1
    local container lock
    mkdir -p "$context" "$out"
    exec {lock}>"$context/lock" # another process may build the same
    flock "$lock"
    if is_as_new "$out/.built" "$root"; then
        say "$out is as new as its sources"
        exec {lock}>&-
        return
    fi
    rm -f "$out/.built"
    touch "$context/begun" # a source that changes meanwhile counts as newer
    # The image of the containers' tests, where it is there, spares an installation of Python.
    if docker image inspect "roost/debian:$1" >/dev/null 2>&1; then
        base=roost/debian:$1
    else
        "$compose/base.sh" "$1"
    fi
    fetch_wheels "$1" "$context"
    rm -rf "$context"/{debian,docs,deploy}
    mkdir "$context/deploy"
    cp -R "$here" "$root/docs" "$context/"
    cp "$root/README.md" "$root/CHANGELOG.md" "$root/deploy/roostd.yaml" "$context/deploy/"
    quietly docker build --network host --build-arg "BASE=$base" --build-arg "SUITE=$1" \
        --build-arg "CHECKOUT_TIME=$(checkout_time)" \
        --tag "$image" --file "$here/Dockerfile" "$context"
    container=$(docker create "$image" true)
    rm -f "$out"/roost*.deb
    docker cp "$container:/packages/." "$out" >/dev/null
    docker rm "$container" >/dev/null
    mv "$context/begun" "$out/.built"
    exec {lock}>&-
    say "$(ls "$out" | tr '\n' ' ')in $out, $((SECONDS - started)) s"
}

docker info >/dev/null 2>&1 || eval "$("$compose/engine.sh" up)"
for suite in "$@"; do build "$suite"; done
