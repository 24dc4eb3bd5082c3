"""`Raising`: by how much etcd's revisions are raised, from which of them on.

etcd's revision can't be set, only counted up by writes. An epoch that has to begin above what was given out before
raises those of its own: revisions from the beginning of an epoch on are raised by that epoch's number, earlier ones as
they were. So what was given out stays true of a key that nobody has written since.

See also: `epochs`, which keeps it in the store.
"""

from __future__ import annotations

from bisect import bisect_right

from oarlock.meta.dataclass import dataclass
from oarlock.storage.backend import Rev

__all__ = ["NEVER", "Raising"]

NEVER: Rev = -1
"""No key of etcd has this revision."""

MOST_EPOCHS = 256
"""How many epochs are told apart, so that the text is at most 11 KiB. Of older ones, revisions change."""


@dataclass(frozen=True, slots=True)
class Raising:
    """`starts` are etcd's revisions in rising order, and `by` what revisions from there on are raised by."""

    starts: tuple[Rev, ...] = ()
    by: tuple[Rev, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.starts)

    @property
    def first(self) -> Rev:
        """The first raised revision of this epoch; 0 if nothing is raised."""
        return self.starts[-1] + self.by[-1] if self.starts else 0

    def raised(self, rev: Rev) -> Rev:
        """etcd's revision as it is given out."""
        index = bisect_right(self.starts, rev)
        return rev + self.by[index - 1] if index else rev

    def lowered(self, rev: Rev) -> Rev:
        """etcd's revision for one that was given out; `NEVER` for one that never was."""
        for index in range(len(self.starts), 0, -1):
            low = rev - self.by[index - 1]
            if low >= self.starts[index - 1]:
                return NEVER if index < len(self.starts) and low >= self.starts[index] else low
        return rev if not self.starts or rev < self.starts[0] else NEVER

    def text(self) -> str:
        """What `parse` reads."""
        return ",".join(f"{start}+{by}" for start, by in zip(self.starts, self.by, strict=True))

    @classmethod
    def parse(cls, text: str, start: Rev) -> Raising:
        """The epochs in `text`; that without a start begins at `start`. Whatever isn't understood is left out."""
        epochs: list[tuple[Rev, Rev]] = []
        for part in text.split(","):
            begin, _, by = part.partition("+")
            if by.isascii() and by.isdigit() and (not begin or (begin.isascii() and begin.isdigit())):
                epochs.append((int(begin) if begin else start, int(by)))
        epochs.sort()
        return cls(tuple(begin for begin, _ in epochs), tuple(by for _, by in epochs))

    def next(self, by: Rev) -> str:
        """The text for another epoch, which raises by `by` from the revision on at which it is written."""
        kept = Raising(self.starts[-MOST_EPOCHS:], self.by[-MOST_EPOCHS:])
        return ",".join(filter(None, (kept.text(), f"+{by}")))
