"""A numeric question as data, and the judge of an answer to it; no view, no files."""

import ast
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

UNIT_SLIPS = {
    1e3: "a factor 1,000",
    1024.0: "a factor 1,024",
    1e6: "a factor 1,000,000",
    2.0**20: "a factor 1,024 x 1,024",
    8.0: "a factor 8, bits for bytes",
}


@dataclass(frozen=True)
class Wrong:
    """A likely wrong answer: the formula that leads to it, and why it is wrong."""

    value: Callable[[], float]
    reason: str


@dataclass(frozen=True)
class Question:
    """One question.

    Args:
        key: Its name in progress.json, in kebab-case; never changed once released.
        prompt: What is asked, with all sizes; `code` in backticks.
        answer: Computes the right number; never a number typed in.
        unit: What the number counts, such as ``"bytes"``; empty for a plain number.
        because: Why it is right, in one or two sentences; shown with a right answer.
        wrong: Likely wrong answers with their reasons.
        tolerance: Share of the right number by which an answer may differ; 0 is exact.
    """

    key: str
    prompt: str
    answer: Callable[[], float]
    unit: str
    because: str
    wrong: tuple[Wrong, ...]
    tolerance: float = 0.01

    @property
    def asked(self) -> str:
        """Unit and tolerance in words."""
        near = f"within {100 * self.tolerance:g} %" if self.tolerance else "exact"
        return f"{f'in {self.unit}' if self.unit else 'a plain number'}, {near}"


@dataclass(frozen=True)
class Verdict:
    """What came of an answer: ``status`` is "right", "wrong" or "not a number"."""

    status: str
    said: str

    @property
    def right(self) -> bool:
        """True for a right answer."""
        return self.status == "right"

    def __repr__(self) -> str:
        return f"{self.status.capitalize()}. {self.said}"


def judge(question: Question, given: float | str) -> Verdict:
    """The verdict on an answer; text may be a formula such as ``2 * 128 * 8192``."""
    try:
        value = number(given) if isinstance(given, str) else float(given)
    except (ValueError, TypeError, OverflowError):
        return Verdict(
            "not a number",
            f"{given!r} is no number: write one such as 2.1e6, or a formula such as 2 * 128 * 64.",
        )
    right = float(question.answer())
    if _near(value, right, question.tolerance):
        return Verdict(
            "right", f"It is {f'{shown(right)} {question.unit}'.strip()}. {question.because}"
        )
    for wrong in question.wrong:
        if _near(value, float(wrong.value()), question.tolerance):
            return Verdict("wrong", wrong.reason)
    return Verdict("wrong", _how_far(value, right, question))


def _near(value: float, target: float, tolerance: float) -> bool:
    return abs(value - target) <= max(tolerance, 1e-9) * abs(target)


def _how_far(value: float, right: float, question: Question) -> str:
    if not math.isfinite(value) or value * right <= 0:
        return f"A number {'above' if right > 0 else 'below'} 0 is expected."
    ratio = value / right
    for slip, words in UNIT_SLIPS.items():
        if _near(max(ratio, 1 / ratio), slip, max(question.tolerance, 1e-6)):
            return f"You are off by {words}: wanted is a number {question.asked}."
    size = "large" if abs(ratio) > 1 else "small"
    return f"Too {size}. Write down the shapes, then count once more."


def shown(value: float) -> str:
    """A number as a reader likes it: whole ones with commas, others to four digits."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"


_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_FUNCTIONS = {"exp": math.exp, "log": math.log, "sqrt": math.sqrt}


def number(text: str) -> float:
    """The value of a number or a formula with + - * / ** exp log sqrt; commas group digits.

    Raises:
        ValueError: it is neither.
    """
    if len(text) > 200:
        raise ValueError("the formula is too long")
    try:
        tree = ast.parse(text.replace(",", "").strip().lstrip("= "), mode="eval")
        return float(_value(tree.body))
    except (SyntaxError, ArithmeticError, RecursionError, MemoryError) as error:
        raise ValueError(f"no formula: {text!r}") from error


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        found = _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    elif isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        found = _OPERATORS[type(node.op)](_value(node.operand))
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in _FUNCTIONS:
        found = _FUNCTIONS[node.func.id](*map(_value, node.args))
    else:
        raise ValueError("only numbers, + - * / **, exp, log and sqrt")
    if isinstance(found, complex):
        raise ValueError("no real number")
    return found
