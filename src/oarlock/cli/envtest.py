"""``oarlock envtest``: programs that stand where envtest looks for Kubernetes'.

envtest (of controller-runtime, and what follows it) starts ``etcd`` and waits for its ``/health``, then with its
address ``kube-apiserver``, and waits for that one's ``/healthz``. The kube-apiserver is a control plane whose objects
are in its memory, so nothing is asked of the etcd. See also: `up`; ``testing.etcd_stand_in``.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from oarlock.server.command import CommandError

__all__ = ["up_words", "write_programs"]

_WRITTEN_BY = "# Written by oarlock envtest"
_PROGRAMS = {
    "kube-apiserver": "from oarlock.cli import envtest, main; main(envtest.up_words(sys.argv[1:]))",
    "etcd": "from oarlock.testing.etcd_stand_in import main; sys.exit(main())",
}


def write_programs(folder: Path) -> None:
    """Write them into `folder`, with a link to kubectl if there is one; print what to set. Raises CommandError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, code in _PROGRAMS.items():
            file = folder / name
            if file.exists() and _WRITTEN_BY not in file.read_text(errors="replace"):
                raise CommandError(f"{file}: it is there, and isn't overwritten; remove it, or give another folder")
            file.write_text(f"#!/bin/sh\n{_WRITTEN_BY}.\nexec '{sys.executable}' -c 'import sys; {code}' \"$@\"\n")
            file.chmod(0o755)
        kubectl, link = shutil.which("kubectl"), folder / "kubectl"
        if kubectl is not None and not link.exists():
            link.symlink_to(kubectl)
    except OSError as error:
        raise CommandError(f"{error.filename or folder}: {error.strerror}") from None
    print(f"export KUBEBUILDER_ASSETS={folder.resolve()}")


def up_words(words: Sequence[str]) -> list[str]:
    """The words of ``oarlock up`` for the flags of a kube-apiserver: objects in memory, the rest in ``--cert-dir``."""
    left: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--etcd-"):
            left.append(word)
        elif "=" not in word and rest and not rest[0].startswith("--"):
            rest.pop(0)  # its value
    folders = [word.partition("=")[2] for word in left if word.startswith("--cert-dir=")]
    return ["up", *left, "--storage=memory://", *(f"--data-dir={folder}" for folder in folders[-1:])]
