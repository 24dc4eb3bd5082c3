"""Writes a server as one file: a zip of packages and the server's files behind a line that names the interpreter.

Libraries of compiled code can't be loaded from a zip, so the file unpacks itself where its contents' digest says.
Source: PEP 441. See also: ``image.packages``, which finds the files.
"""

from __future__ import annotations

import hashlib
import stat
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from oarlock.cli.building.options import ExecutableOptions
from oarlock.cli.image.command import app_files
from oarlock.cli.image.packages import files_of, with_requirements
from oarlock.cli.loading import ServerSources, load_server, sources_of
from oarlock.cli.progress import shown_progress
from oarlock.server.command import CommandError

EPOCH = (1980, 1, 1, 0, 0, 0)

_MAIN = '''\
"""Unpacks what is beside it, once, and runs the server."""

import os
import pathlib
import shutil
import sys
import tempfile
import zipfile

NAME, DIGEST, VERSION, SERVER = {name!r}, {digest!r}, {version!r}, {server!r}


def unpacked() -> pathlib.Path:
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    folder = pathlib.Path(cache) / "oarlock" / f"{{NAME}}-{{DIGEST}}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = tempfile.mkdtemp(dir=folder.parent, prefix=f"{{NAME}}-")
        with zipfile.ZipFile(sys.argv[0]) as file:
            file.extractall(made)
        try:
            os.rename(made, folder)
        except OSError:  # another process was quicker
            shutil.rmtree(made, ignore_errors=True)
    return folder


if sys.version_info[:2] != VERSION:
    sys.exit(f"{{sys.argv[0]}} is for Python {{VERSION[0]}}.{{VERSION[1]}}, and this is {{sys.version.split()[0]}}")
root = unpacked()
sys.path[:] = [str(root / "app"), str(root / "packages"), *sys.path[1:]]
from oarlock.cli import main  # noqa: E402

server = str(root / "app" / SERVER) if SERVER.partition(":")[0].endswith(".py") else SERVER
main(["serve", server, *sys.argv[1:]])
'''


def write(options: ExecutableOptions) -> int:
    """The exit code. Raises `CommandError`, `DeclarationError`."""
    name = load_server(options.server).name
    sources = sources_of(options.server)
    output = options.output or Path("dist", f"{name}.pyz")
    version = sys.version_info[:2]
    python = options.python or f"python{version[0]}.{version[1]}"
    line = python if python.startswith("/") else f"/usr/bin/env {python}"
    digest = hashlib.sha256()
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("wb") as file, shown_progress(quiet=options.quiet) as progress:
            file.write(f"#!{line}\n".encode())
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for inside, path in _files(sources, options.package):
                    progress.show(f"packing {inside}")
                    content = path.read_bytes()
                    digest.update(f"{inside}\n{len(content)}\n".encode() + content)
                    _add(archive, inside, content)
                facts = {"name": name, "digest": digest.hexdigest()[:16], "version": version}
                _add(archive, "__main__.py", _MAIN.format(server=sources.argument, **facts).encode())
        output.chmod(output.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    except OSError as error:
        raise CommandError(f"{error.filename or output}: {error.strerror}") from None
    print(f"{output}: {output.stat().st_size / 1e6:.1f} MB, for {python}")
    return 0


def _files(sources: ServerSources, packages: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """Everything that the server needs, by its name in the archive."""
    for package in with_requirements(["oarlock", *packages]):
        for name, path in files_of(package):
            yield f"packages/{name}", path
    for path in app_files(sources.part):
        yield f"app/{path.relative_to(sources.folder).as_posix()}", path


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content)
