"""The sentences of verdicts, for an honest learner: what came, what was expected, what to do."""

import json
from typing import Any

OVER = {
    "wall": "it did not end within the time of a case; is there a loop that never ends?",
    "cpu": "it used up the processor time of a case; is there a loop that never ends?",
    "memory": "it used more memory than a case may; is a tensor far larger than its inputs?",
    "processes": "it started more processes than a case may; a launcher needs none",
}
LOST = "the grader lost the process that ran this case; this costs no marks, check again"
FORGED = "it wrote into the channel of the grader's replies ({problem}); print goes to the report"
ILLEGAL = "the GPU stopped at an illegal memory access; replayed on the recorder: {detail}"
ILLEGAL_UNSEEN = (
    "the GPU stopped at an illegal memory access; the recorder sees none in this call, so look at "
    "what differs on a GPU: alignment, programs at the same time, offsets beyond 2**31"
)
PHASES = {
    "reversed": "with the programs in reversed order: ",
    "again": "when called again with the same inputs: ",
}
SIGNALS = {
    "SIGSEGV": "segmentation fault, SIGSEGV: memory that is not its own was touched",
    "SIGABRT": "abort, SIGABRT: memory was damaged, or a library gave up",
    "SIGFPE": "arithmetic fault, SIGFPE: an integer division by zero, say",
    "SIGKILL": "killed, SIGKILL: out of memory, or it killed itself",
}
BREACHES = {
    "attention": "{what} is ready-made attention: write the steps yourself",
    "torch": "torch's {what} computed on tensor values: that is the kernel's work; a launcher "
    "only allocates, views and launches",
    "values": "{what}() took tensor values to Python: that is the kernel's work; a launcher "
    "only allocates, views and launches",
    "outside": "{what}() takes all values out of torch, in which this exercise is to be written",
    "files": "it tried to {what}: an answer uses no files; print shows what you want to see",
    "course": "it tried to {what}: an answer uses torch and triton, nothing of the course",
    "programs": "it tried {what}: an answer starts and ends no programs and opens no connections",
    "threads": "it started a thread: an answer needs none",
    "peek": "it called {what}: an answer needs its arguments alone",
    "kernels": "it launched more than {what} kernels, which is more than a check compiles",
    "argument": "it passed a Python function to a kernel as {what}: a GPU runs no Python",
    "kept": "it returned the same tensor from two calls, so the second changes what the first one "
    "gave: make outputs in every call",
    "code": "it called Python's {what}: write the code out",
}


def died_of(name: str) -> str:
    """A worker that ended by a signal."""
    return f"the process died ({SIGNALS.get(name, name)})"


def left_with(code: int) -> str:
    """A worker that ended by itself before it replied."""
    return f"the process ended itself with code {code} before the call returned (os._exit?)"


def raised(status: str, types: list[str], message: str, error: dict[str, Any]) -> str:
    """One sentence, or the recorder's short paragraph, of an exception."""
    name = types[0] if types else "an exception"
    if name in ("PipelineError", "RankError"):
        return message
    if status == "contract":
        return f"the file is no valid Python: {message}"
    if status == "oom":
        said = f" ({_first(message)})" if message else ""
        return f"it asked for more memory than a case may use{said}"
    if name == "SystemExit":
        return f"it ended the program (SystemExit, code {error.get('code')}); return instead"
    if name == "RecursionError":
        return "RecursionError: a function calls itself without end"
    if "KernelError" in types:
        return message.split("\n  at ")[0]  # the line is told apart
    return f"{name}: {_first(message)}" if message else name


def breach(rule: str, what: str) -> str:
    """What an answer did and should not, with what to do instead."""
    return BREACHES.get(rule, "it did {what}").format(what=what)


def whole(rows: int, columns: int) -> str:
    """A tensor of all scores in an exercise about tiles."""
    return (
        f"it made a tensor of all {rows} x {columns} scores: the point of tiles is that it never "
        "exists; score one tile of keys at a time"
    )


def returned(came: str, expected: list[str]) -> str:
    """Another number or kind of results than the contract says."""
    want = expected[0] if len(expected) == 1 else f"({', '.join(expected)})"
    return f"expected {want} to be returned, got {came}; return {', '.join(expected)}"


def not_a_tensor(output: str, came: str, subclass: bool) -> str:
    """A result that is no plain tensor."""
    if subclass:
        return (
            f"expected {output} to be a plain torch.Tensor, got its subclass {came}; "
            "return what torch.empty made"
        )
    return f"expected {output} to be a tensor, got {came}; return the tensor that the kernel wrote"


def differs(output: str, what: str, came: Any, want: Any) -> str:
    """A result of another shape or dtype."""
    return f"expected {output} to have {what} {want}, got {came}; allocate it so"


def modified(names: list[str]) -> str:
    """Inputs that the call changed."""
    many = "s" if len(names) > 1 else ""
    return f"it changed its input{many} {', '.join(names)}; write to outputs only"


def unwritten(output: str, missing: int, size: int, first: list[int] | None) -> str:
    """Elements of an output that no kernel stored."""
    if missing == size:
        return f"nothing was stored into the returned {output}; return what the kernel wrote"
    at = f", the first at {first}" if first else ""
    return (
        f"{missing} of the {size} elements of {output} were never stored{at}; "
        "does the grid cover every tile, and the mask the last one?"
    )


def order_matters(output: str, tier: str) -> str:
    """Another result with programs in reversed order, or when called again."""
    if tier != "cpu":
        return f"{output} differs from call to call with the same inputs: programs race for it"
    return (
        f"{output} depends on the order in which programs run: on a GPU they run in no fixed order"
    )


def as_json(value: Any) -> Any:
    """``value`` as it would come back through JSON."""
    return json.loads(json.dumps(value, default=str))


def first_difference(expected: Any, got: Any, at: str = "") -> str:
    """Where two plain values first differ, as a sentence; empty where they are equal."""
    place = at or "the result"
    if isinstance(expected, dict) and isinstance(got, dict):
        if set(expected) != set(got):
            return f"expected {place} to have the keys {sorted(expected)}, got {sorted(got)}"
        parts = [(f"{at}[{k!r}]", expected[k], got[k]) for k in expected]
    elif isinstance(expected, list) and isinstance(got, list):
        if len(expected) != len(got):
            return f"expected {place} to have {len(expected)} entries, got {len(got)}"
        if not at and expected != got and {type(x) for x in (*expected, *got)} <= {int}:
            return f"expected {tuple(expected)}, got {tuple(got)}"  # a few numbers: show them all
        parts = [(f"{at}[{i}]", e, g) for i, (e, g) in enumerate(zip(expected, got, strict=True))]
    elif type(expected) is type(got) and expected == got:
        return ""
    else:
        return f"expected {place} to be {expected!r}, got {got!r}"
    return next((said for p, e, g in parts if (said := first_difference(e, g, p))), "")


def _first(message: str) -> str:
    return message.strip().split("\n")[0][:300]
