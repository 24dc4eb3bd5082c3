"""`ReloadedFiles`: credentials and certificates, read again when they are replaced while the server runs; their counts.

A change is detected by inode, modification time and size. A file that can't be read any more is logged once, and the
previous content stays in force. Must not know: what the files are for. See also: `credentials`, `lifecycle`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from oarlock.meta.dataclass import dataclass
from oarlock.meta.metrics import MetricFamily
from oarlock.net.files import FileSignature, file_signature

log = logging.getLogger("oarlock.server")

CHECK_INTERVAL_S = 5.0
"""The interval of checks, in seconds: a change takes effect after at most this time."""

RENEWAL_INTERVAL_S = 3600.0
"""How often certificates are checked for expiry, in seconds."""


class ReloadedFiles:
    """Files that belong together, such as a certificate and its key. Create it before they are first read.

    `read` reads them and applies the content. If they can't be used, it raises one of `refusals`, whose text is logged,
    and changes nothing.
    """

    def __init__(self, paths: Sequence[Path], read: Callable[[], None], refusals: tuple[type[Exception], ...]) -> None:
        self._paths = tuple(paths)
        self._read = read
        self._refusals = refusals
        self._signature_read = self._current_signature()

    def check(self) -> None:
        """Read the files if one of them has changed since the last attempt."""
        signature = self._current_signature()
        if signature == self._signature_read:
            return
        self._signature_read = signature
        names = " and ".join(map(str, self._paths))
        try:
            self._read()
        except self._refusals as error:
            log.error("%s: the previous content stays in force", error)
        else:
            log.warning("%s: changed, and read again", names)

    def _current_signature(self) -> tuple[FileSignature | None, ...]:
        return tuple(map(file_signature, self._paths))


async def reload_changed(files: Sequence[ReloadedFiles], renew: Callable[[], Awaitable[None]] | None = None) -> None:
    """Read `files` again within seconds of a change, and call `renew` every hour, until cancelled."""
    due_s = RENEWAL_INTERVAL_S
    while True:
        await asyncio.sleep(CHECK_INTERVAL_S)
        due_s -= CHECK_INTERVAL_S
        if renew is not None and due_s <= 0:
            due_s = RENEWAL_INTERVAL_S
            await renew()
        for file in files:
            file.check()


@dataclass(slots=True)
class ReloadCounts:
    """How often a configuration file was read again, and when last: epoch seconds, 0 for never.

    `digest` is of the one in force, `without_key` how many stored objects can't be read with it.
    """

    succeeded: int = 0
    failed: int = 0
    succeeded_at: float = 0.0
    failed_at: float = 0.0
    digest: str = ""
    without_key: int = 0

    def add(self, now: float, *, well: bool) -> None:
        if well:
            self.succeeded += 1
            self.succeeded_at = now
        else:
            self.failed += 1
            self.failed_at = now

    def families(self, subject: str) -> Iterator[MetricFamily]:
        """What has been counted, as metrics of the configuration of `subject`."""
        prefix, about = f"apiserver_{subject}_config_controller", f"reloads of the {subject} configuration"
        counts, labels = {("success",): self.succeeded, ("failure",): self.failed}, ("status",)
        yield MetricFamily(f"{prefix}_automatic_reloads_total", f"Automatic {about}.", counts, labels, "counter")
        times = {("success",): self.succeeded_at, ("failure",): self.failed_at}
        last = {status: at for status, at in times.items() if at}
        name = f"{prefix}_automatic_reload_last_timestamp_seconds"
        yield MetricFamily(name, f"When the last of the {about} was.", last, labels, across="latest")
        about = "The configuration in force."
        yield MetricFamily(f"{prefix}_last_config_info", about, {(self.digest,): 1}, ("hash",), across="own")

    def key_families(self) -> Iterator[MetricFamily]:
        """The metrics of an encryption configuration."""
        yield from self.families("encryption")
        about = "Stored objects whose key the encryption configuration in force doesn't have, when it was last read."
        yield MetricFamily("oarlock_encryption_objects_without_key", about, {(): self.without_key}, across="own")
