"""What can go wrong with an expression, as one family.

    CelError
    ├─ CompileError      it can't be parsed, or its types don't fit; knows line, column and a caret
    ├─ EvalError         it was run and has no value
    └─ OverBudget        it cost more than it may; nothing in the expression can catch it

Nothing else comes out of running an expression: functions and readings say what they can't do with a value. Any other
exception is a mistake of ours, and is never taken for one of the rule's.
Next: `parsing` and `checker`, which raise the first; `compiling`, which raises the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CelError", "CompileError", "EvalError", "Mistake", "OverBudget"]


_LONGEST_SNIPPET = 16_384


class CelError(Exception):
    """Something is wrong with an expression. `cost` is what was spent when it came up while running."""

    cost = 0


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake, at an offset in code points."""

    offset: int
    text: str

    def shown(self, source: str) -> str:
        """``ERROR: <input>:1:5: text`` with the line and a caret under the place, as cel-go shows it."""
        before = source[: self.offset]
        line = before.count("\n") + 1
        column = self.offset - (before.rfind("\n") + 1)
        place = f"ERROR: <input>:{line}:{column + 1}: {self.text}"
        snippet = source.split("\n")[line - 1].replace("\t", " ") if source else ""
        if len(snippet) > _LONGEST_SNIPPET:
            return place
        dots = "".join("." if char.isascii() else "．" for char in snippet[:column])
        caret = "^" if snippet[column : column + 1].isascii() else "＾"
        return f"{place}\n | {snippet}\n | {dots}{caret}"


class CompileError(CelError):
    """The expression can't be run. `mistakes` has every one that has a place."""

    def __init__(self, text: str, mistakes: tuple[Mistake, ...] = ()) -> None:
        super().__init__(text)
        self.mistakes = mistakes

    @classmethod
    def of(cls, source: str, mistakes: list[Mistake]) -> CompileError:
        ordered = tuple(sorted(mistakes, key=lambda mistake: mistake.offset))
        return cls("\n".join(mistake.shown(source) for mistake in ordered), ordered)


class EvalError(CelError):
    """The expression has no value for this input; the text is cel-go's."""


class OverBudget(CelError):
    """The expression was stopped because it cost too much."""
