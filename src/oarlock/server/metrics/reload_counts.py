"""`ReloadCounts`: how often a configuration file was read again."""

from __future__ import annotations

from collections.abc import Iterator

from oarlock.meta.dataclass import dataclass
from oarlock.meta.metrics import MetricFamily


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
