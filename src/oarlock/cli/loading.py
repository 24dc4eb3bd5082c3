"""Imports the `APIServer` that a command line names, ``module:attribute`` or a file, and says where its sources are.

A file is imported under its full name: directories above it that are packages are part of the name, and the directory
above those is put on the import path. Relative imports work in it, and absolute ones from there or from the working
directory.
Must not know: what is done with the server.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import tomllib
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from oarlock.apps.api_server import DEFAULT_NAME, APIServer
from oarlock.controllers.base import ControllerBase
from oarlock.controllers.running.group import ControllerGroup
from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import BUILT_IN_GROUPS
from oarlock.registry.hooks.collection import StoredCollection, VirtualCollection
from oarlock.registry.hooks.object_hooks import served_from
from oarlock.registry.served import Served
from oarlock.schema.types.declaring import DeclarationError
from oarlock.schema.types.resources import Resource, Spoke, declared
from oarlock.server.command import CommandError
from oarlock.server.description import UserCode
from oarlock.server.options.option import OptionGroup, Problem, argument
from oarlock.server.options.types import StringType


@dataclass(frozen=True, slots=True)
class ServerSources:
    """`argument` names the server from `folder`, and `part` is what is its own of that: all of it, or one package."""

    folder: Path
    argument: str
    part: Path


def sources_of(server: str) -> ServerSources:
    """Where the server at ``MODULE:ATTRIBUTE`` or ``FILE.py`` is. Nothing is imported."""
    name, colon, attribute = server.rpartition(":") if ":" in server else (server, "", "")
    if not (name.endswith(".py") or os.sep in name):
        return ServerSources(Path.cwd(), server, Path.cwd())
    file = Path(name).resolve()
    folder = part = file.parent
    while (folder / "__init__.py").is_file():
        folder, part = folder.parent, folder
    return ServerSources(folder, f"{file.relative_to(folder).as_posix()}{colon}{attribute}", part)


log = logging.getLogger("oarlock.cli")
_MISSING = "is missing; only in a project that oarlock new made it is known"


def server_of_project(folder: Path) -> str:
    """The file of the server in the project that a folder is in, ``""`` if it is in none. Nothing is imported."""
    for root in (folder, *folder.parents):
        try:
            project = tomllib.loads((root / "pyproject.toml").read_text())
        except (OSError, ValueError):
            continue
        if "oarlock" not in project.get("tool", {}):
            return ""
        package = str(project.get("project", {}).get("name", "")).replace("-", "_")
        return os.path.relpath(root / "src" / package / "server.py", folder)
    return ""


@dataclass(frozen=True, kw_only=True, repr=False)
class ServerArgument(OptionGroup):
    """The argument of every command that is about a server."""

    server: str = argument(
        StringType("MODULE:ATTRIBUTE|FILE.py"),
        "The APIServer: shop.server:server, or shop/server.py.",
        default="",
    )

    def __post_init__(self) -> None:
        if not self.server:
            object.__setattr__(self, "server", server_of_project(Path.cwd()))
        super().__post_init__()

    def check(self) -> Iterator[Problem]:
        if not self.server:
            yield Problem("server", _MISSING)
        elif "://" in self.server:
            yield Problem("server", f"{self.server!r} is a URL: write the file of the server first")


@dataclass(frozen=True, kw_only=True, repr=False)
class ControllersArgument(OptionGroup):
    """The argument of a command that runs controllers."""

    controllers: str = argument(
        StringType("MODULE:ATTRIBUTE|FILE.py"),
        "The controllers: shop.run:controllers, or shop/controllers.py.",
        default="",
    )

    def __post_init__(self) -> None:
        if not self.controllers:
            object.__setattr__(self, "controllers", server_of_project(Path.cwd()))
        super().__post_init__()

    def check(self) -> Iterator[Problem]:
        if not self.controllers:
            yield Problem("controllers", _MISSING)


@dataclass(frozen=True, kw_only=True, repr=False)
class DeclarationsArgument(OptionGroup):
    """The argument of a command that is about declared resources, served or not."""

    declarations: str = argument(
        StringType("MODULE|FILE.py"),
        "The module of the classes, or an APIServer with them: shop.api.v1, shop.server:server, or shop/server.py.",
        default="",
    )

    def __post_init__(self) -> None:
        if not self.declarations:
            object.__setattr__(self, "declarations", server_of_project(Path.cwd()))
        super().__post_init__()

    def check(self) -> Iterator[Problem]:
        if not self.declarations:
            yield Problem("declarations", _MISSING)


def load_server(where: str) -> APIServer:
    """The server at `where`. Raises `CommandError`, and `DeclarationError` unchanged."""
    module, attribute = _load(where, "server")
    server = _server_named(module, attribute, where) if attribute else _only_server(module, where)
    server.source = where
    return server


def load_declared(where: str) -> Sequence[Served]:
    """The resources declared at `where`: by its `APIServer`, else its own classes; with an attribute, only that one.

    Raises `CommandError`, and `DeclarationError` unchanged.
    """
    module, attribute = _load(where, "")
    if attribute:
        found = vars(module).get(attribute)
        if isinstance(found, APIServer):
            return found.catalog.resources
        if not _is_declared(found):
            raise CommandError(f"{where}: {attribute} isn't a resource, collection or APIServer of {module.__name__}")
        return served_from(_with_its_code(found, module))
    servers = [value for value in vars(module).values() if isinstance(value, APIServer)]
    if servers:
        return _only_server(module, where).catalog.resources
    declared_here = [
        member for member in vars(module).values() if _is_declared(member) and member.__module__ == module.__name__
    ]
    if not declared_here:
        raise CommandError(f"{where}: it contains no resource: write class Order(Resource, group=…, version=…)")
    return served_from(_needed(declared_here))


@dataclass(frozen=True, slots=True)
class DeclaredCode:
    """Resources, and the code of their `APIServer` if there is one, which is called `name`."""

    resources: Sequence[Served]
    user_code: UserCode
    name: str

    @property
    def controllers(self) -> list[ControllerBase[Any]]:
        """The controllers of the server, those for its cluster included."""
        found: list[ControllerBase[Any]] = []
        for runnable in self.user_code.controllers:
            if isinstance(runnable, ControllerGroup):
                found += runnable.controllers
            elif isinstance(runnable, ControllerBase):
                found.append(runnable)
        return found


def load_code(where: str) -> DeclaredCode:
    """What `load_declared` finds at `where`, with plugins and informers. Raises what that raises."""
    resources = load_declared(where)
    module, attribute = _load(where, "")
    found = [vars(module).get(attribute)] if attribute else vars(module).values()
    server = next((value for value in found if isinstance(value, APIServer)), None)
    if server is None:
        listed = vars(module).get("controllers")
        controllers = tuple(listed) if isinstance(listed, list | tuple) else ()
        return DeclaredCode(resources, UserCode(controllers=controllers), DEFAULT_NAME)
    return DeclaredCode(resources, server.user_code, server.name)


def load_own(where: str) -> Sequence[Served]:
    """As `load_declared`, without Kubernetes' own kinds. Raises `CommandError` if nothing is left."""
    own = [served for served in load_declared(where) if served.definition.group not in BUILT_IN_GROUPS]
    if not own:
        raise CommandError(f"{where}: it contains no resource besides Kubernetes' own")
    return own


def _is_declared(value: object) -> bool:
    if not isinstance(value, type):
        return False
    if issubclass(value, StoredCollection | VirtualCollection):
        return value.__resource__ is not None
    return issubclass(value, Resource | Spoke) and "__declared__" in vars(value)


def _with_its_code(found: Any, module: ModuleType) -> list[Any]:
    """What its module declares of the same resource: all versions, and the collection if there is one."""
    classes = [member for member in vars(module).values() if _is_declared(member)]
    return _needed([cls for cls in classes if _hub_of(cls) is _hub_of(found)])


def _hub_of(found: Any) -> Any:
    return found.__resource__ if issubclass(found, StoredCollection | VirtualCollection) else declared(found).hub


def _needed(classes: Sequence[Any]) -> list[Any]:
    """The classes to list for `served_from`, which takes a resource once: by its collection, or by itself."""
    collections = [cls for cls in classes if issubclass(cls, StoredCollection | VirtualCollection)]
    hubs = {collection.__resource__ for collection in collections}
    stored_as = {getattr(collection, "__stored_as__", None) for collection in collections}
    return [cls for cls in dict.fromkeys(classes) if cls not in hubs and cls not in stored_as]


def load_controllers(where: str) -> Sequence[ControllerBase[Any]]:
    """The controllers at `where`: a list called ``controllers`` or as named, or those of an `APIServer`.

    Raises `CommandError`, and `DeclarationError` unchanged.
    """
    module, attribute = _load(where, "controllers")
    names = [attribute] if attribute else ["controllers", *(n for n, v in vars(module).items() if _is_server(v))]
    found = next((vars(module)[name] for name in names if name in vars(module)), None)
    if isinstance(found, APIServer):
        found = found.user_code.controllers
    if isinstance(found, ControllerBase):
        found = [found]
    if not isinstance(found, list | tuple) or not found:
        what = f"{attribute} isn't a list of controllers" if attribute else "it contains no controllers"
        raise CommandError(f"{where}: {what}: write controllers = [YourController()]")
    for cls in found:
        if not isinstance(cls, ControllerBase):
            hint = f"write {cls.__name__}()" if isinstance(cls, type) else "only a server can run it"
            raise CommandError(f"{where}: {getattr(cls, '__name__', repr(cls))} isn't a Controller: {hint}")
    return found


def _is_server(value: object) -> bool:
    return isinstance(value, APIServer) and bool(value.controllers)


_OTHER_FILES = (".json", ".yaml", ".yml")


def _load(where: str, usual: str) -> tuple[ModuleType, str]:
    """The module at `where`, and the attribute that is named, ``""`` for none.

    `usual` is what the attribute of a module is called; without it, a module alone will do.
    """
    name, colon, attribute = where.rpartition(":") if ":" in where else (where, "", "")
    if colon and not attribute.isidentifier():
        raise CommandError(f"{where}: {attribute!r} isn't the name of an attribute: write MODULE:ATTRIBUTE or FILE.py")
    if Path(name).is_dir() and (os.sep in name or name.startswith(".")):
        raise CommandError(f"{where}: it is a folder: name a file in it, such as {Path(name, 'server.py')}")
    if name.endswith(_OTHER_FILES) and Path(name).is_file():
        raise CommandError(
            f"{where}: a Python file is wanted; oarlock model makes classes of CustomResourceDefinitions"
        )
    if name.endswith(".py") or os.sep in name:
        return _import_file(Path(name)), attribute
    if not colon and usual:
        raise CommandError(f"{where}: write MODULE:ATTRIBUTE, for example {where}:{usual}, or FILE.py")
    _prepend_to_path(Path.cwd())
    return _import(name, where), attribute


def source_folder(where: str) -> Path:
    """The directory of the server's sources: the file's, or the working directory. Raises `CommandError`."""
    name = where.rpartition(":")[0] if ":" in where else where
    if not (name.endswith(".py") or os.sep in name):
        return Path.cwd()
    _must_be_there(Path(name))
    return Path(name).resolve().parent


def _must_be_there(file: Path) -> None:
    if not file.is_file():
        raise CommandError(f"{file}: this file doesn't exist")


def _import_file(file: Path) -> ModuleType:
    _must_be_there(file)
    file = file.resolve()
    parts, folder = [file.stem], file.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if not all(part.isidentifier() for part in parts):
        raise CommandError(f"{file}: can't be imported as {'.'.join(parts)}: rename the file to an identifier")
    _prepend_to_path(Path.cwd())
    _prepend_to_path(folder)
    name = ".".join(parts)
    loaded = sys.modules.get(name)
    if loaded is not None and Path(loaded.__file__ or "").resolve() != file:
        raise CommandError(f"{file}: a module called {name} exists already: rename the file")
    return _import(name, str(file))


def _prepend_to_path(folder: Path) -> None:
    """Put a directory first on the import path."""
    text = str(folder)
    if text in sys.path:
        sys.path.remove(text)
    sys.path.insert(0, text)


def _import(name: str, where: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except DeclarationError:
        raise
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _import_error(error, where) from None
        raise CommandError(
            f"can't import {where}: {error}: run the command in the folder of the module, or name the file"
        ) from None
    except (Exception, SystemExit) as error:
        raise _import_error(error, where) from None


def _import_error(error: BaseException, where: str) -> CommandError:
    log.debug("importing %s failed", where, exc_info=error)
    return CommandError(f"can't import {where}: {type(error).__name__}: {error}{_place(error)}; -v 4 shows more")


def _place(error: BaseException) -> str:
    """The place of an error in the user's files."""
    if isinstance(error, SyntaxError):
        return ""  # says so itself
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    frames = [f for f in frames if f.filename != __file__]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def _server_named(module: ModuleType, attribute: str, where: str) -> APIServer:
    found = getattr(module, attribute, None)
    if not isinstance(found, APIServer):
        names = [name for name, value in vars(module).items() if isinstance(value, APIServer)]
        hint = f"; {', '.join(names)} is one" if names else ""
        raise CommandError(f"{where}: {attribute} isn't an APIServer of {module.__name__}{hint}")
    return found


def _only_server(module: ModuleType, where: str) -> APIServer:
    found = {name: value for name, value in vars(module).items() if isinstance(value, APIServer)}
    if len({id(value) for value in found.values()}) != 1:
        if not found:
            raise CommandError(f"{where}: it contains no APIServer: write server = APIServer(serve=[…])")
        raise CommandError(f"{where}: it contains several: write {where}:{next(iter(found))}")
    return next(iter(found.values()))
