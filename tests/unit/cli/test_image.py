"""``oarlock image``: an image of a server, written without a container engine."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import marshal
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oarlock.cli.image.packages import compiled
from oarlock.server.about import VERSION

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root file system that has Python by name."""
    folder = tmp_path_factory.mktemp("root")
    (folder / "usr" / "bin").mkdir(parents=True)
    (folder / "usr" / "bin" / PYTHON).write_text("#!/bin/sh\n")
    (folder / "usr" / "bin" / PYTHON).chmod(0o755)
    (folder / "bin").symlink_to("usr/bin")
    return folder


class Image:
    """A written image."""

    def __init__(self, file: Path) -> None:
        with tarfile.open(file) as archive:
            self.blobs = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]
        assert json.loads(self.blobs["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
        [self.described] = json.loads(self.blobs["index.json"])["manifests"]
        self.manifest = json.loads(self.blob(self.described))
        self.configuration = json.loads(self.blob(self.manifest["config"]))

    def blob(self, descriptor: dict[str, Any]) -> bytes:
        content = self.blobs[f"blobs/{descriptor['digest'].replace(':', '/')}"]
        assert descriptor["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
        assert descriptor["size"] == len(content)
        return content

    def layers(self) -> list[tarfile.TarFile]:
        made = []
        for layer, identifier in zip(self.manifest["layers"], self.configuration["rootfs"]["diff_ids"], strict=True):
            content = gzip.decompress(self.blob(layer))
            assert identifier == f"sha256:{hashlib.sha256(content).hexdigest()}"
            made.append(tarfile.open(fileobj=io.BytesIO(content)))  # noqa: SIM115
        return made


@pytest.mark.slow
def test_an_image_is_whole_and_its_server_can_be_imported(oarlock: Callable[..., Any], folder: Path, root: Path):
    (folder / "oarlock.token").write_text("secret")
    (folder / ".hidden").write_text("x")
    done = oarlock("image", "things.py", "-o", "../a.tar", "--base", str(root), "--tag", "shop:1")
    assert done.returncode == 0, done.stderr
    image = Image(folder.parent / "a.tar")
    assert image.described["annotations"]["org.opencontainers.image.ref.name"] == "shop:1"
    config = image.configuration["config"]
    assert config["Entrypoint"] == [f"/usr/bin/{PYTHON}", "-m", "oarlock"]
    assert (config["Cmd"], config["User"]) == (["serve", "things.py"], "65532:65532")
    assert json.loads(image.blobs["manifest.json"])[0]["RepoTags"] == ["shop:1"]
    unpacked = folder.parent / "unpacked"
    for layer in image.layers():
        assert {(entry.mtime, entry.uid, entry.gid) for entry in layer} == {(0, 0, 0)}
        layer.extractall(unpacked, filter="tar")
    assert os.readlink(unpacked / "bin") == "usr/bin"
    assert sorted(path.name for path in (unpacked / "app").iterdir()) == ["__pycache__", "things.py"]
    done = subprocess.run(
        [sys.executable, "-S", "-m", "oarlock", "check", "things.py"],
        cwd=unpacked / "app",
        env={"PYTHONPATH": str(unpacked / "opt" / "oarlock"), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Thing (things)" in done.stdout, done.stderr


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """No packages: for tests of something else."""
    monkeypatch.setattr("oarlock.cli.image.command.ALWAYS", ("PyYAML",))


def test_the_same_files_make_the_same_image(
    oarlock: Callable[..., Any], folder: Path, root: Path, monkeypatch: pytest.MonkeyPatch
):
    small(monkeypatch)
    for name in ("a.tar", "b.tar"):
        assert oarlock("image", "things.py", "-o", f"../{name}", "--base", str(root)).returncode == 0
        os.utime(folder / "things.py", (1, 1))
    assert (folder.parent / "a.tar").read_bytes() == (folder.parent / "b.tar").read_bytes()


def test_another_image_can_be_the_base(
    oarlock: Callable[..., Any], folder: Path, root: Path, monkeypatch: pytest.MonkeyPatch
):
    small(monkeypatch)
    assert oarlock("image", "things.py", "-o", "../a.tar", "--base", str(root)).returncode == 0
    for base in ("../a.tar", "../layout"):
        if base == "../layout":
            with tarfile.open(folder / "../a.tar") as archive:
                archive.extractall(folder / base, filter="data")
        done = oarlock("image", "things.py", "-o", "../b.tar", "--base", base)
        assert done.returncode == 0, done.stderr
        image = Image(folder.parent / "b.tar")
        assert len(image.manifest["layers"]) == 5
        assert image.configuration["config"]["Entrypoint"][0] == f"/usr/bin/{PYTHON}"
        image.layers()


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_tar_of_a_root_file_system_can_be_the_base(
    oarlock: Callable[..., Any], folder: Path, root: Path, monkeypatch: pytest.MonkeyPatch, mode: Any
):
    small(monkeypatch)
    with tarfile.open(folder.parent / "root.tar", mode) as archive:
        archive.add(root, ".")
    done = oarlock("image", "things.py", "-o", "../a.tar", "--base", "../root.tar")
    assert done.returncode == 0, done.stderr
    assert len(Image(folder.parent / "a.tar").layers()) == 3


def test_what_cant_be_a_base_is_refused(oarlock: Callable[..., Any], folder: Path, root: Path):
    (folder / "text").write_text("no archive")
    (root / "usr" / "bin" / PYTHON).rename(root / "usr" / "bin" / "python3.4")
    layout = folder / "layout"
    layout.mkdir()
    (layout / "oci-layout").write_text("{}")
    for base, told in (
        ("none", "--base=none: No such file or directory"),
        ("text", "--base=text: it can't be read"),
        (str(root), f"it has python3.4, but the packages here are for {PYTHON}"),
        ("layout", "index.json: No such file or directory"),
    ):
        done = oarlock("image", "things.py", "-o", "../a.tar", "--base", base)
        assert done.returncode == 1
        assert told in done.stderr
    for index, told in (
        ("[]", "index.json isn't a JSON object"),
        ('{"manifests": []}', "it has no image for linux/"),
        ('{"manifests": [{"digest": "sha256:../../x"}]}', "isn't a SHA-256 digest"),
        ('{"manifests": [{"platform": {"architecture": "pdp11"}}]}', "it has no image for linux/"),
    ):
        (layout / "index.json").write_text(index)
        done = oarlock("image", "things.py", "-o", "../a.tar", "--base", "layout")
        assert done.returncode == 1
        assert told in done.stderr


def test_a_package_that_isnt_installed_is_named(oarlock: Callable[..., Any], root: Path):
    for name, told in (
        ("no-such-package", "no-such-package isn't installed here"),
        ("!", "write the name of a package"),
    ):
        done = oarlock("image", "things.py", "-o", "../a.tar", "--base", str(root), "--package", name)
        assert done.returncode == 1
        assert told in done.stderr


def test_a_dockerfile_does_the_same(oarlock: Callable[..., Any]):
    done = oarlock("image", "things.py", "--dockerfile", "--package", "asyncpg")
    assert done.returncode == 0
    assert f"RUN pip install --no-cache-dir oarlock=={VERSION} asyncpg" in done.stdout
    assert 'CMD ["serve", "things.py"]' in done.stdout


def test_compiled_files_are_the_same_bytes_again_and_hold_the_code():
    source = b"A = ('x', frozenset({'a', 'b', 'c'}), 'x')\ndef f(a): return a + 1\n"
    written = compiled(source, "/app/m.py")
    assert written is not None
    assert written == compiled(source, "/app/m.py")
    names: dict[str, Any] = {}
    exec(marshal.loads(written[16:]), names)
    assert names["f"](1) == 2
    assert compiled(b"def {{ name }}(): pass", "template.py") is None
