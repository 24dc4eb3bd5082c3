"""`UnusedFlag`: a flag that is read and checked for those who come from another server, and has no effect here.

See also: `flags`, which reads it; ``apps.controlplane.kube_apiserver_flags``, those of kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oarlock.meta.dataclass import dataclass
from oarlock.server.options.types import OptionType

__all__ = ["UnusedFlag", "warnings_about"]


@dataclass(frozen=True, slots=True)
class UnusedFlag:
    """`why` it has no effect is shown when it is given.

    With `only`, these values say what is so anyway: they are taken in silence, and others refused for the same `why`.
    """

    flag: str
    type: OptionType
    why: str
    only: tuple[str, ...] = ()

    def check(self, text: str) -> None:
        """Raises ValueError for a value that the other server refuses too, or that isn't so here."""
        value = self.type.parse(text)
        problem = self.type.problem(value)
        if problem:
            raise ValueError(problem)
        if self.only and self.type.text(value) not in self.only:
            raise ValueError(f"{self.why}; leave it out, or give {' or '.join(self.only)}")


def warnings_about(given: Iterable[UnusedFlag]) -> Iterator[str]:
    """A line for each reason, with the flags it is the reason for."""
    by_reason: dict[str, list[str]] = {}
    for option in given:
        if not option.only and f"--{option.flag}" not in by_reason.setdefault(option.why, []):
            by_reason[option.why].append(f"--{option.flag}")
    return (f"{', '.join(flags)}: no effect here: {why}" for why, flags in by_reason.items())
