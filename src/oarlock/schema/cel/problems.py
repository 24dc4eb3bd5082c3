"""The errors of expressions.

    CelError
    ├─ CompileError      syntax or type errors, with line, column and a caret
    ├─ EvalError         the evaluation failed
    └─ OverBudget        it exceeded the cost limit; the expression can't catch this

Running an expression raises nothing else. Any other
exception is a bug of this package, and is never reported as an error of the rule.
See also: `parsing` and `checker`, which raise the first; `compiling`, which raises the rest.
"""

from __future__ import annotations

from oarlock.meta.dataclass import dataclass

_LONGEST_SNIPPET = 16_384


class CelError(Exception):
    """An error in an expression. `cost` is the cost up to the error, if it occurred at run time."""

    cost = 0


@dataclass(frozen=True, slots=True)
class Mistake:
    """One error, at an offset in code points."""

    offset: int
    text: str

    def shown(self, source: str) -> str:
        """``ERROR: <input>:1:5: text`` with the line and a caret under the place, as cel-go shows it."""
        before = source[: self.offset]
        line = before.count("\n") + 1
        column = self.offset - (before.rfind("\n") + 1)
        if not source:
            return f"ERROR: <input>:1:0: {self.text}"
        place = f"ERROR: <input>:{line}:{column + 1}: {self.text}"
        snippet = source.split("\n")[line - 1].replace("\t", " ")
        if len(snippet) > _LONGEST_SNIPPET:
            return place
        dots = "".join("." if char.isascii() else "．" for char in snippet[:column])
        caret = "^" if snippet[column : column + 1].isascii() else "＾"
        return f"{place}\n | {snippet}\n | {dots}{caret}"


class CompileError(CelError):
    """The expression is invalid. `mistakes` has every error with its position."""

    def __init__(self, text: str, mistakes: tuple[Mistake, ...] = ()) -> None:
        super().__init__(text)
        self.mistakes = mistakes

    @classmethod
    def of(cls, source: str, mistakes: list[Mistake]) -> CompileError:
        ordered = tuple(sorted(mistakes, key=lambda mistake: mistake.offset))
        return cls("\n".join(mistake.shown(source) for mistake in ordered), ordered)


class EvalError(CelError):
    """The evaluation failed for this input; the message is that of cel-go."""


class OverBudget(CelError):
    """The evaluation was stopped at its cost limit."""
