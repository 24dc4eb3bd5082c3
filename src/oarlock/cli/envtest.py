"""``oarlock envtest``: programs that stand where envtest looks for Kubernetes'.

envtest (of controller-runtime, and what follows it) starts ``etcd`` and waits for its ``/health``, then with its
address ``kube-apiserver``, and waits for that one's ``/healthz``. The kube-apiserver is a control plane whose objects
are in its memory, so nothing is asked of the etcd. Tests for envtest count on what a kube-apiserver alone doesn't do:
nobody empties namespaces or makes service accounts there, unless ``--controllers`` says so.
See also: `up`; ``testing.etcd_stand_in``.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from oarlock.server.command import CommandError

_WRITTEN_BY = "# Written by oarlock envtest"
_PROGRAMS = {
    "kube-apiserver": "from oarlock.cli import envtest, main; main(envtest.up_words(sys.argv[1:], {controllers!r}))",
    "etcd": "from oarlock.testing.etcd_stand_in import main; sys.exit(main())",
}


def write_programs(folder: Path, controllers: Sequence[str] = ()) -> None:
    """Write them into `folder`, with a link to kubectl if there is one; print what to set.

    `controllers` are those that run in the kube-apiserver, as ``oarlock up --controllers`` has them; none of
    kube-controller-manager's unless given. Raises CommandError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, code in _PROGRAMS.items():
            file = folder / name
            if file.exists() and _WRITTEN_BY not in file.read_text(errors="replace"):
                raise CommandError(
                    f"{file}: this file exists and isn't overwritten: remove it, or write to another folder"
                )
            line = shlex.join([sys.executable, "-c", f"import sys; {code.format(controllers=','.join(controllers))}"])
            file.write_text(f'#!/bin/sh\n{_WRITTEN_BY}.\nexec {line} "$@"\n')
            file.chmod(0o755)
        kubectl, link = shutil.which("kubectl"), folder / "kubectl"
        if kubectl is not None and not link.exists():
            link.symlink_to(kubectl)
    except OSError as error:
        raise CommandError(f"{error.filename or folder}: {error.strerror}") from None
    print(f"export KUBEBUILDER_ASSETS={folder.resolve()}")


def up_words(words: Sequence[str], controllers: str = "") -> list[str]:
    """The words of ``oarlock up`` for the flags of a kube-apiserver: objects in memory, the rest in ``--cert-dir``.

    `controllers` are those of kube-controller-manager's that run unless the flags say which.
    """
    left: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--etcd-"):
            left.append(word)
        elif "=" not in word and rest and not rest[0].startswith("--"):
            rest.pop(0)  # its value
    folders = [word.partition("=")[2] for word in left if word.startswith("--cert-dir=")]
    own = [] if any(word.startswith("--controllers") for word in left) else [f"--controllers={controllers}"]
    return ["up", *own, *left, "--storage=memory://", *(f"--data-dir={folder}" for folder in folders[-1:])]
