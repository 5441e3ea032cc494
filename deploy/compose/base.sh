#!/bin/bash
# base.sh SUITE: make roost/base:SUITE, a minimal Debian image (bookworm, trixie, sid).
#
# It is Docker Hub's debian:SUITE-slim where that can be pulled; otherwise it is made from the
# host's Debian mirror with mmdebstrap, which checks the archive's signature.
set -euo pipefail

suite=${1:?usage: base.sh SUITE}
image=roost/base:$suite

say() { echo "base: $*" >&2; }

if docker image inspect "$image" >/dev/null 2>&1; then
    say "$image is there"
    exit 0
fi
if [ -z "${ROOST_NO_PULL:-}" ] && timeout 120 docker pull -q "debian:$suite-slim" >/dev/null 2>&1; then
    docker tag "debian:$suite-slim" "$image"
    say "$image is debian:$suite-slim, pulled"
    exit 0
fi
command -v mmdebstrap >/dev/null || {
    [ "$(id -u)" = 0 ] || { say "no registry answers, and installing mmdebstrap needs root"; exit 1; }
    exec {lock}>/tmp/roost-base.lock # images of several suites are built side by side; apt runs once
    flock "$lock"
    command -v mmdebstrap >/dev/null || {
        say "installing mmdebstrap"
        apt-get update -qq >&2
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            -o DPkg::Lock::Timeout=300 mmdebstrap >&2
    }
    exec {lock}>&-
}
mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
    awk '$1 == "Debian" && $2 == "Debian" {print $3; exit}')
options=(--variant=minbase --quiet)
# A mirror that serves an old snapshot has expired Release files; where the host accepts them, so
# does the image. Signatures are checked all the same.
eval "$(apt-config shell check_valid_until Acquire::Check-Valid-Until)"
[ "${check_valid_until:-true}" != false ] || options+=(--aptopt='Acquire::Check-Valid-Until "false"')
started=$SECONDS
scratch=/tmp
[ "$(df --output=avail /dev/shm 2>/dev/null | tail -1)" -lt $((2 * 1024 * 1024)) ] || scratch=/dev/shm
TMPDIR=$scratch mmdebstrap "${options[@]}" "$suite" - ${mirror:+"$mirror"} | docker import - "$image" >/dev/null
say "$image made from the Debian mirror in $((SECONDS - started)) s"
