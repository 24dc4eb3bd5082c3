"""``oarlock build``: what a server is shipped as, from the project that the working directory is in.

An executable is one file: a zip of packages and the server's files behind a line that names the interpreter.
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

from oarlock.cli.image.command import app_files
from oarlock.cli.image.packages import files_of, with_requirements
from oarlock.cli.loading import ServerArgument, ServerSources, load_server, server_of_project, sources_of
from oarlock.cli.progress import run_shown, shown_progress
from oarlock.cli.quiet import QuietOptions
from oarlock.meta.dataclass import dataclass
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command, CommandGroup, LaterCommand
from oarlock.server.options.option import option
from oarlock.server.options.types import PathType, StringListType, StringType

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


@dataclass(frozen=True, kw_only=True, repr=False)
class WheelOptions(QuietOptions):
    """The options of ``oarlock build wheel``."""

    title = ""

    output: Path = option(Path("dist"), PathType("DIR"), "Write the wheel to this folder.", short="o", in_file=False)


@dataclass(frozen=True, kw_only=True, repr=False)
class ExecutableOptions(ServerArgument, QuietOptions):
    """The options of ``oarlock build executable``."""

    title = ""

    output: Path | None = option(
        None, PathType(), "Write the executable to this file. By default dist/NAME.pyz.", short="o", in_file=False
    )
    python: str = option(
        "",
        StringType("PROGRAM"),
        "The interpreter that runs the executable: a path, or a name on PATH. By default python3.X of this "
        "Python's version.",
        in_file=False,
    )
    package: tuple[str, ...] = option(
        (),
        StringListType("NAMES"),
        "More installed packages to include with their requirements, such as asyncpg. oarlock is always included.",
        in_file=False,
    )


def _wheel(options: WheelOptions) -> int:
    """Build the wheel of the project, with pip."""
    server = server_of_project(Path.cwd())
    if not server:
        raise CommandError("this folder isn't in a project of oarlock new: change into one")
    root = Path(server).resolve().parents[2]
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(options.output), str(root)]
    with shown_progress(quiet=options.quiet) as line:
        code = run_shown([*command, "--disable-pip-version-check", "--no-color"], line)
    if code == 0:
        built = max(options.output.glob("*.whl"), key=lambda file: file.stat().st_mtime)
        print(f"{built}: {built.stat().st_size / 1e3:.1f} kB")
    return code


def _executable(options: ExecutableOptions) -> int:
    """Write the server as one executable file. It only needs the interpreter that it names.

    The packages are copied from this Python; nothing is downloaded. The file unpacks itself once, below ~/.cache, and
    takes the flags of oarlock serve. The same files produce the same executable.
    """
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


BUILD = CommandGroup(
    "build",
    "Build what a server is shipped as.",
    (
        Command("wheel", WheelOptions, _wheel),
        Command("executable", ExecutableOptions, _executable),
        LaterCommand("image", "oarlock.cli.image.command:IMAGE"),
        LaterCommand("manifests", "oarlock.cli.deploying.command:MANIFESTS"),
        LaterCommand("docs", "oarlock.cli.declaring_commands:DOCS"),
    ),
)
