"""What every command on a store has: its options, its progress, an operation that may be interrupted, decryption.

Must not know: which operation.
"""

from __future__ import annotations

import asyncio
import math
import re
import shlex
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

from oarlock.cli.progress import ProgressLine, shown_progress
from oarlock.meta.context import Clock
from oarlock.server.options.groups.storage import ReadStoreOptions
from oarlock.server.options.option import Problem, argument
from oarlock.server.options.types import URLType
from oarlock.storage.backend import Backend, StorageError
from oarlock.storage.care.operations import Wrap
from oarlock.storage.care.snapshot import OperationProgress, ReportProgress
from oarlock.storage.passwords import without_password
from oarlock.storage.url import FORMS, check_url


def encryption_of(options: ReadStoreOptions) -> Wrap | None:
    """What `opened` wraps the backend with; None without the option."""
    return decrypted_with(options.encryption_provider_config)


def decrypted_with(path: Path | None) -> Wrap | None:
    """What `opened` wraps the backend with for an EncryptionConfiguration at `path`; None without one."""
    if path is None:
        return None

    def wrap(backend: Backend, clock: Clock) -> Backend:
        from oarlock.server.encryption import encrypted  # noqa: PLC0415 (few commands need the ciphers)

        return encrypted(backend, path, clock)

    return wrap


T = TypeVar("T")

MANY = 10_000
"""From here on a rate is worth showing."""


def store_argument(help: str, unit: str = "URL") -> Any:
    """The URL of a store, by position or by ``--storage``."""
    return argument(URLType(unit), help, also="storage")


def url_problems(field: str, url: str, file: Path | None = None, order: str = "") -> Iterator[Problem]:
    """What is wrong with the URL of a store in this field. `order` is how it and `file` follow one another."""
    if file is not None and is_url(str(file)) and not is_url(url):
        yield Problem(field, f"{url!r} isn't the URL of a store, but the file argument is one: write {order}")
        return
    try:
        check_url(url)
    except StorageError as error:
        yield Problem(field, str(error))
        return
    if not is_url(url):
        yield Problem(field, f"{url!r} isn't the URL of a store: write {FORMS}")


def is_url(text: str) -> bool:
    """Whether a text is a URL; as a path it may have lost slashes."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text) is not None


def command_line(*words: object) -> str:
    """A command as it may be shown and repeated; passwords are left out."""
    return without_password(shlex.join(["oarlock", "storage", *(str(word) for word in words if str(word))]))


def run_operation(work: Callable[[ReportProgress], Coroutine[Any, Any, T]], *, quiet: bool, interrupted: str) -> T:
    """The result of `work`. `interrupted` is shown when it is ended by Ctrl-C, which ends the command with 130."""
    try:
        with shown_progress(quiet=quiet) as line:
            return asyncio.run(work(_reporter(line)))
    except KeyboardInterrupt:
        print(f"oarlock: interrupted: {interrupted}", file=sys.stderr)
        raise


def _reporter(line: ProgressLine) -> ReportProgress:
    """A function that shows progress on `line`, with the rate since its step began."""
    step, began = "", 0.0

    def report_progress(progress: OperationProgress) -> None:
        nonlocal step, began
        if progress.what != step:
            step, began = progress.what, time.monotonic()
        line.show(_text(progress, time.monotonic() - began))

    return report_progress


def _text(progress: OperationProgress, seconds: float) -> str:
    parts = [readable_bytes(progress.bytes)]
    if progress.total or progress.done:
        parts.insert(0, f"{progress.done} of {max(progress.total, progress.done)} keys")
    if progress.done >= MANY and seconds:
        parts.append(f"{progress.done / seconds:,.0f}/s")
    return f"{progress.what}: {', '.join(parts)}"


def readable_bytes(size: float) -> str:
    """``12.3 MiB``."""
    if size < 1024:
        return f"{size:.0f} B"
    units = ("KiB", "MiB", "GiB", "TiB")
    power = min(int(math.log(size, 1024)), len(units))
    return f"{size / 1024**power:.1f} {units[power - 1]}"
