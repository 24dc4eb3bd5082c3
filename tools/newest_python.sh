#!/usr/bin/env bash
# Runs tests/unit and tests/walk on the Python of a newer Debian, in a folder made by debootstrap. Run it before a
# release: it needs root, about 700 MB and half an hour.
#
#   tools/newest_python.sh [FOLDER] [SUITE] [-- ARGUMENTS OF PYTEST]
#
# FOLDER keeps the Debian (default: ../newest-python), so that the next run is shorter. SUITE is "sid" by default. What
# is committed is tested, not the working tree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=../newest-python suite=sid
[ "${1:---}" = -- ] || { folder=$1; shift; }
[ "${1:---}" = -- ] || { suite=$1; shift; }
[ "${1:-}" != -- ] || shift
[ "$(id -u)" = 0 ] || { echo "debootstrap and chroot need root"; exit 1; }

if ! [ -x "$folder/usr/bin/python3" ]; then
    command -v debootstrap >/dev/null || { apt-get update -qq; apt-get install -y -qq debootstrap >/dev/null; }
    mirror=$(apt-get indextargets --format '$(SITE)' | head -n 1)
    echo "Debian $suite is unpacked into $folder"
    debootstrap --variant=minbase --include=python3,python3-venv,python3-dev,ca-certificates,git,openssl,make \
        "$suite" "$folder" "$mirror" >"$folder.log" 2>&1 || { tail -n 20 "$folder.log"; exit 1; }
fi
folder=$(realpath "$folder")
cp /etc/resolv.conf /etc/hosts "$folder/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/"

rm -rf "$folder/srv/main" && mkdir -p "$folder/srv/main"
git archive HEAD | tar -x -C "$folder/srv/main"
git init -q "$folder/srv/main" && git -C "$folder/srv/main" add -A
mkdir -p "$folder/srv/shared"

# The mounts live in a namespace of their own and end with it.
# shellcheck disable=SC2016
exec unshare --mount --propagation private bash -euc '
    folder=$1; shared=$2; shift 2
    mount -t proc proc "$folder/proc"
    mount --bind /dev "$folder/dev"
    [ ! -d "$shared" ] || mount --bind "$shared" "$folder/srv/shared"
    exec env -u PIP_FIND_LINKS chroot "$folder" /bin/bash -euc "
        cd /srv/main
        python3 --version
        [ -x /srv/venv/bin/python ] || python3 -m venv /srv/venv
        /srv/venv/bin/python -m pip install --quiet --disable-pip-version-check --editable .[dev]
        exec /srv/venv/bin/python -m pytest -n auto --dist worksteal tests/unit tests/walk \"\$@\"
    " in-the-folder "$@"
' newest-python "$folder" "$(realpath ../shared)" "$@"
