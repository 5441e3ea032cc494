#!/bin/sh
# Installs the Debian packages that the demonstration and the tests use, where they are missing:
# a compiler for the fake driver, Slurm and MUNGE, slurmdbd and its database for the tests of limits
# and priorities, a browser for the simulator's report and
# the web page, promtool for the alert rules. Starts none of their services.
# Without root or apt it says what is missing and exits with 0: the callers work without these packages.
set -eu

needs="" # package:command pairs are checked by command, so that other distributions pass too
for pair in gcc:gcc libc6-dev:/usr/include/stdio.h munge:munged slurmctld:slurmctld slurmd:slurmd \
            slurm-client:scontrol slurmdbd:slurmdbd mariadb-server:mariadbd lua5.1:lua5.1 \
            chromium:chromium prometheus:promtool python3-venv:; do
    package=${pair%%:*} probe=${pair#*:}
    case $probe in
        "") "${PYTHON:-python3}" -c 'import ensurepip' 2>/dev/null || needs="$needs $package" ;;
        /*) [ -e "$probe" ] || needs="$needs $package" ;;
        *)  PATH="$PATH:/usr/sbin:/sbin" command -v "$probe" >/dev/null || needs="$needs $package" ;;
    esac
done
# Slurm's Lua plugin is a package of its own and no command.
if ! find /usr/lib -name job_submit_lua.so 2>/dev/null | grep -q .; then
    needs="$needs slurm-wlm-basic-plugins"
fi
[ -n "$needs" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "system packages:$needs are missing and this machine has no apt-get; going on without" >&2
    exit 0
fi
if [ "$(id -u)" = 0 ]; then sudo=""; elif sudo -n true 2>/dev/null; then sudo="sudo"; else
    echo "system packages:$needs are missing and you are not root; going on without" >&2
    exit 0
fi

# dpkg would start munged and Slurm's daemons; a throw-away policy keeps it from that.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap '$sudo rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' | $sudo tee $policy >/dev/null
    $sudo chmod 755 $policy
fi
echo "installing$needs" >&2
$sudo apt-get update -qq
log=$(mktemp)
status=0
# shellcheck disable=SC2086 # a list on purpose
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $needs >"$log" || status=$?
[ "$status" = 0 ] || tail -n 30 "$log" >&2 # dpkg tells its reason there
rm -f "$log"
exit "$status"
