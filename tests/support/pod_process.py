"""A pod as a node would run it, without a node: the container of a workload's template as a process of this machine.

It has what the template says: a read-only image as its root, the user, volumes of Secrets, emptyDirs
and claims; the service account's token where pods have it; the image's environment with that of the cluster. It differs
in one thing: it listens on a free port of 127.0.0.1 instead of its own address. Needs root, for mount namespaces.
"""

from __future__ import annotations

import base64
import os
import shlex
import shutil
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from database_process import free_port
from image_root import UnpackedImage

__all__ = ["ACCOUNT", "PodProcess", "no_pods"]

ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount"
READY_S = 120.0

Tree = dict[str, Any]


def no_pods() -> str:
    """Why pods can't be run here, empty if they can."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return "pods need root, and unshare"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    return f"no mount namespace can be made: {done.stderr.strip()}" if done.returncode else ""


class PodProcess:
    """One pod of `workload`, a Deployment or StatefulSet as the cluster has it. `claims` keeps what volumes hold.

    `secret` reads the data of a Secret by its name; `token` makes one for the service account.
    """

    def __init__(
        self, folder: Path, image: UnpackedImage, workload: Tree, cluster: tuple[str, Path], claims: Path
    ) -> None:
        self.folder, self.image, self.claims = folder, image, claims
        self.spec: Tree = workload["spec"]["template"]["spec"]
        self._claimed = {one["metadata"]["name"] for one in workload["spec"].get("volumeClaimTemplates") or ()}
        [self.container] = self.spec["containers"]
        self.port = free_port()
        self._url, self._ca = cluster
        self._log = folder / "pod.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def user(self) -> int:
        return int(self.spec["securityContext"]["runAsUser"])

    def start(self, token: str, secret: Callable[[str], Mapping[str, str]]) -> PodProcess:
        """Run it, until its startup probe and its readiness probe succeed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        mounts = [(self._account(token), ACCOUNT, True), *self._volumes(secret)]
        with open(self._log, "ab") as log:
            command = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", self._script(mounts)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment(), cwd="/")
        for probe in ("startupProbe", "readinessProbe"):
            self._wait(probe)
        return self

    def probe(self, name: str) -> int:
        """The status of what a kubelet asks: without a client certificate, and whatever the server's is; 0 for none."""
        asked = self.container[name]["httpGet"]
        assert asked["scheme"] == "HTTPS"
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        url = f"https://127.0.0.1:{self.port}{asked['path']}"
        try:
            with urllib.request.urlopen(
                url, context=trusting, timeout=self.container[name]["timeoutSeconds"]
            ) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0

    def terminate(self) -> None:
        """What a kubelet sends first."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)

    def ended(self) -> int:
        """The exit code, which must come within the grace period."""
        assert self.process is not None
        return self.process.wait(self.spec["terminationGracePeriodSeconds"])

    def kill(self) -> None:
        """End it at once, if it runs."""
        if self.process is not None and self.runs:
            self.process.kill()
            self.process.wait()

    def _wait(self, name: str) -> None:
        until = time.monotonic() + READY_S
        while self.probe(name) != 200:
            assert self.process is not None
            assert self.process.poll() is None, f"exit code {self.process.returncode}:\n{self.log}"
            assert time.monotonic() < until, f"{name} doesn't succeed:\n{self.log}"
            time.sleep(0.05)

    def _environment(self) -> dict[str, str]:
        parts = urlsplit(self._url)
        variables = dict(one.partition("=")[::2] for one in self.image.config["Env"])
        variables |= {one["name"]: one["value"] for one in self.container.get("env") or ()}
        where = {"KUBERNETES_SERVICE_HOST": str(parts.hostname), "KUBERNETES_SERVICE_PORT": str(parts.port)}
        return {**variables, **where, "PATH": f"{variables['PATH']}:{os.environ['PATH']}"}

    def _account(self, token: str) -> Path:
        """The files of the service account, which only the pod's group may read."""
        return self._files(
            "account", {"token": token.encode(), "ca.crt": self._ca.read_bytes(), "namespace": b"default"}
        )

    def _files(self, name: str, contents: Mapping[str, bytes]) -> Path:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        for file, content in contents.items():
            (folder / file).write_bytes(content)
            os.chown(folder / file, 0, self.user)
            (folder / file).chmod(0o640)
        return folder

    def _volumes(self, secret: Callable[[str], Mapping[str, str]]) -> list[tuple[Path, str, bool]]:
        sources = {one["name"]: one for one in self.spec.get("volumes") or ()}
        found = []
        for mount in self.container.get("volumeMounts") or ():
            name = mount["name"]
            if "secret" in sources.get(name, {}):
                data = secret(sources[name]["secret"]["secretName"])
                folder = self._files(name, {key: base64.b64decode(text) for key, text in data.items()})
            else:
                assert name in self._claimed or sources[name].get("emptyDir") == {}
                folder = (self.claims if name in self._claimed else self.folder) / f"volume-{name}"
                folder.mkdir(parents=True, exist_ok=True)
                os.chown(folder, 0, int(self.spec["securityContext"]["fsGroup"]))
                folder.chmod(0o2775)
            found.append((folder, mount["mountPath"].strip("/"), bool(mount.get("readOnly"))))
        return found

    def _script(self, mounts: list[tuple[Path, str, bool]]) -> str:
        """Mounts everything, then becomes the container's process."""
        security = self.container["securityContext"]
        root, lines = self.image.root, []
        lines.append(f"mount --bind {quoted(root)} {quoted(root)}")
        for source, inside in ((Path("/dev"), "dev"), (Path("/proc"), "proc")):
            lines.append(f"mount --rbind {source} {quoted(root / inside)}")
        for source, inside, _ in mounts:
            lines.append(f"mount --bind {quoted(source)} {quoted(root / inside)}")
        lines += [f"mount -o remount,bind,ro {quoted(root / inside)}" for _, inside, only_read in mounts if only_read]
        if security["readOnlyRootFilesystem"]:
            lines.append(f"mount -o remount,bind,ro {quoted(root)}")
        for inside in ("dev", "proc", *(inside for _, inside, _ in mounts)):  # as a runtime does, in its own layer
            (root / inside).mkdir(parents=True, exist_ok=True)
        listening = ["--bind-address=127.0.0.1", f"--secure-port={self.port}"]
        arguments = [one for one in self.container["args"] if not one.startswith(("--bind-address", "--secure-port"))]
        user = [f"--setuid={self.user}", f"--setgid={self.spec['securityContext']['runAsGroup']}"]
        where = [f"--root={root}", f"--wd={self.image.config['WorkingDir']}"]
        command = ["unshare", *where, *user, *self.image.config["Entrypoint"], *arguments, *listening]
        return "\n".join([*lines, f"exec {shlex.join(command)}"])


def quoted(path: Path) -> str:
    return shlex.quote(str(path))
