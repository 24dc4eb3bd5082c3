"""Writes the image of a server: a base with Python, packages, the server's files; or prints a Dockerfile for it.

See also: `base`, `packages`, `layout`.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from oarlock.cli.image.base import Base, architecture, read_base
from oarlock.cli.image.layout import EPOCH, ImageLayer, LayerWriter, write_layout
from oarlock.cli.image.packages import compiled, compiled_name, files_of, with_requirements
from oarlock.cli.loading import ServerArgument, ServerSources, load_server, sources_of
from oarlock.cli.progress import shown_progress
from oarlock.cli.quiet import QuietOptions
from oarlock.meta.dataclass import dataclass
from oarlock.meta.json_trees import Tree
from oarlock.server.about import VERSION
from oarlock.server.command import CommandError
from oarlock.server.options.commands import Command
from oarlock.server.options.option import Problem, option
from oarlock.server.options.types import BooleanType, PathType, StringListType, StringType

PACKAGES, APP = "opt/oarlock", "app"
USER = "65532:65532"
PORT = "8443/tcp"
ALWAYS = ("oarlock",)
MOST_APP_BYTES = 256 * 1024 * 1024
_LEFT_OUT = frozenset({"__pycache__", "node_modules", "pki", "venv"})
_SECRET = (".db", ".db-wal", ".db-shm", ".kubeconfig", ".key", ".token", ".seen", ".pyc")
"""Endings of what a server keeps beside its file, which must not get into an image."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ImageOptions(ServerArgument, QuietOptions):
    """The options of ``oarlock image``."""

    title = ""

    output: Path | None = option(
        None, PathType(), "Write the image to this file, as a tar of an OCI image layout.", short="o", in_file=False
    )
    base: Path | None = option(
        None,
        PathType("PATH"),
        "The root file system with Python: a folder, a tar of one, or an OCI image layout in a folder or tar.",
        in_file=False,
    )
    tag: str = option("", StringType("NAME:TAG"), "The name of the image, as docker load shows it.", in_file=False)
    package: tuple[str, ...] = option(
        (),
        StringListType("NAMES"),
        "More installed packages to include with their requirements, such as asyncpg. oarlock is always included.",
        in_file=False,
    )
    dockerfile: bool = option(
        False, BooleanType(), "Print a Dockerfile for the same image, and write nothing.", in_file=False
    )

    def check(self) -> Iterator[Problem]:
        if self.dockerfile:
            return
        if self.output is None:
            yield Problem("output", "write the path of the image, such as image.tar")
        if self.base is None:
            yield Problem("base", "name a root file system with Python, such as one that docker export wrote")


def run(options: ImageOptions) -> int:
    """Write an OCI image of a server, without a container engine.

    The packages are copied from this Python; nothing is downloaded. The same files produce the same image.
    """
    load_server(options.server)
    sources = sources_of(options.server)
    if options.dockerfile:
        print(_dockerfile(sources, options.package), end="")
        return 0
    if options.output is None or options.base is None:
        raise CommandError("give --output and --base")
    with (
        tempfile.TemporaryDirectory(prefix="oarlock-image-") as folder,
        shown_progress(quiet=options.quiet) as progress,
    ):
        work = Path(folder)
        base = read_base(options.base, work, progress.show)
        packages = _packages(work / "packages.tar.gz", [*ALWAYS, *options.package], progress.show)
        progress.show("packing the server")
        app = _app(work / "app.tar.gz", sources)
        layers = (*base.layers, packages, app)
        progress.show("writing the image")
        try:
            digest = write_layout(options.output, _configuration(base, layers, sources), layers, options.tag)
        except OSError as error:
            raise CommandError(f"{options.output}: {error.strerror}") from None
    print(f"{options.output}: {digest}")
    return 0


def _packages(file: Path, names: list[str], show: Callable[[str], None]) -> ImageLayer:
    with LayerWriter(file) as writer:
        for package in with_requirements(names):
            for name, path in files_of(package):
                show(f"packing {name}")
                _add(writer, f"{PACKAGES}/{name}", path)
    return writer.layer


def _app(file: Path, sources: ServerSources) -> ImageLayer:
    left = MOST_APP_BYTES
    with LayerWriter(file) as writer:
        writer.add_folder(APP)
        for path in app_files(sources.part):
            left -= path.stat().st_size
            if left < 0:
                raise CommandError(
                    f"{sources.part}: it is larger than 256 MiB: put the server into a folder of its own"
                )
            _add(writer, f"{APP}/{path.relative_to(sources.folder).as_posix()}", path)
    return writer.layer


def app_files(folder: Path) -> Iterator[Path]:
    """The files of a server below a folder, without what it keeps beside them."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in _LEFT_OUT or path.name.endswith(_SECRET) or path.is_symlink():
            continue
        if path.is_dir():
            if not (path / "pyvenv.cfg").exists():
                yield from app_files(path)
        elif path.is_file():
            yield path


def _add(writer: LayerWriter, name: str, path: Path) -> None:
    content = path.read_bytes()
    writer.add(name, content)
    if name.endswith(".py"):
        code = compiled(content, f"/{name}")
        if code is not None:
            writer.add(compiled_name(name), code)


def _configuration(base: Base, layers: tuple[ImageLayer, ...], sources: ServerSources) -> Tree:
    """Source: OCI image specification, configuration."""
    inherited = base.configuration.get("config") or {}
    environment = dict(variable.partition("=")[::2] for variable in inherited.get("Env") or [])
    environment.setdefault("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    environment |= {"PYTHONPATH": f"/{PACKAGES}", "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    history = [*(base.configuration.get("history") or [{"created": EPOCH, "created_by": "base"}])]
    history += [{"created": EPOCH, "created_by": f"oarlock image: {what}"} for what in ("packages", "server")]
    return {
        "created": EPOCH,
        "os": "linux",
        "architecture": base.configuration.get("architecture") or architecture(),
        "config": {
            "User": USER,
            "ExposedPorts": {PORT: {}},
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "Entrypoint": [base.python, "-m", "oarlock"],
            "Cmd": ["serve", sources.argument],
            "WorkingDir": f"/{APP}",
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": history,
    }


def _dockerfile(sources: ServerSources, packages: tuple[str, ...]) -> str:
    pinned = [f"{name}=={VERSION}" for name in ALWAYS]
    names = " ".join(shlex.quote(package) for package in (*pinned, *packages))
    part = sources.part.relative_to(sources.folder).as_posix()
    copied = ". ." if part == "." else f"{part} {part}/"
    command = ", ".join(f'"{word}"' for word in ("serve", sources.argument))
    return f"""\
# oarlock image … --dockerfile | docker build -f - {shlex.quote(str(sources.folder))}
FROM python:{sys.version_info.major}.{sys.version_info.minor}-slim
RUN pip install --no-cache-dir {names}
WORKDIR /app
COPY {copied}
USER {USER}
EXPOSE {PORT.partition("/")[0]}
ENTRYPOINT ["python", "-m", "oarlock"]
CMD [{command}]
"""


IMAGE = Command("image", ImageOptions, run)
