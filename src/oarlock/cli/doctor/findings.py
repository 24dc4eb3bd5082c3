"""`Finding`: what one check found."""

from __future__ import annotations

from enum import Enum

from oarlock.meta.dataclass import dataclass

__all__ = ["Finding", "FindingState", "bad", "fine", "unknown"]


class FindingState(Enum):
    """`UNKNOWN` is for what can't be seen, because of rights or of the network."""

    FINE = "ok"
    UNKNOWN = "?"
    BAD = "BAD"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at and how it is; for what is bad, `advice` says what to do."""

    state: FindingState
    subject: str
    text: str
    advice: str = ""


def fine(subject: str, text: str) -> Finding:
    return Finding(FindingState.FINE, subject, text)


def unknown(subject: str, text: str) -> Finding:
    return Finding(FindingState.UNKNOWN, subject, text)


def bad(subject: str, text: str, advice: str) -> Finding:
    return Finding(FindingState.BAD, subject, text, advice)
