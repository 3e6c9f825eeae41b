"""What may cost precision, read from the text of an answer; else where such errors come from.

Floor: course.
"""

import ast
import math
import re
from collections.abc import Iterator, Sequence

from flashlab.grader.bank import Run

MOST = 2  # sentences of a report
HALF = re.compile(r"(tl|torch)\.(float16|bfloat16)$|'(float16|bfloat16)'$")
CONSTANTS = {
    "log2(e)": 1 / math.log(2),
    "ln 2": math.log(2),
}
USUAL = (
    "Errors of this size usually come from a sum or maximum that is not kept in fp32, from q, k "
    "or the scores scaled or rounded in half precision, or from a constant with too few digits."
)
USUAL_FP32 = (
    "Errors of this size in float32 usually come from a tile that passes through fp16 (.to(...), "
    "tl.zeros of another type), from tl.dot in TF32, or from a constant with too few digits."
)
OF_ONE_TENSOR = (
    "Errors of this size usually come from a sum or maximum that is not kept in fp32, from a tile "
    "that is rounded on its way, or from a constant with too few digits."
)
FP8_ONLY = (
    "{} has to hold the FP8 numbers nearest to what is rounded: keep that in fp32 until the one "
    "cast, which rounds by itself."
)
LSE_ONLY = (
    "Only lse is not exact enough: its parts, the scores, m and l, must be fp32 from end to end; "
    "q or k scaled before tl.dot is rounded to its dtype."
)


def causes(text: str, runs: Sequence[Run]) -> list[str]:
    """Up to two sentences on a loss of precision: suspicious lines, else the usual reasons."""
    failing = [r for r in runs if r.failed]
    found = list(dict.fromkeys(said for _, said in sorted(_suspects(text))))[:MOST]
    if found or not failing:
        return found
    outputs = {r.result.output for r in failing}
    if outputs == {"lse"}:
        return [LSE_ONLY]
    first = failing[0]
    output = first.raw.outputs.get(first.result.output)
    if output is not None and output.element_size() == 1:
        return [FP8_ONLY.format(first.result.output)]
    if first.inputs and not any(name.startswith("q") for name in first.inputs):
        return [OF_ONE_TENSOR]
    return [USUAL_FP32 if all(r.case.dtype == "float32" for r in failing) else USUAL]


def _suspects(text: str) -> Iterator[tuple[int, str]]:
    """(line, sentence) of what rounds in a kernel or holds too few digits."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    kernels = [
        n
        for n in tree.body
        if isinstance(n, ast.FunctionDef)
        and any("jit" in ast.unparse(d) for d in n.decorator_list)
    ]
    for node in (n for kernel in kernels for n in ast.walk(kernel)):
        said = ""
        if isinstance(node, ast.Call):
            said = _call(node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            said = _scaled(node)
        elif isinstance(node, ast.Assign | ast.AugAssign):
            said = _running(node)
        if said:
            yield node.lineno, f"Line {node.lineno}: {said}."
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is float:
            said = _constant(node.value)
            if said:
                yield node.lineno, f"Line {node.lineno}: {said}."


def _call(node: ast.Call) -> str:
    name = ast.unparse(node.func)
    given = [ast.unparse(a) for a in (*node.args, *(k.value for k in node.keywords))]
    half = next((g for g in given if HALF.search(g)), "")
    if half and name in ("tl.zeros", "tl.full"):
        return f"`{ast.unparse(node)}` starts a sum in {half}: keep what adds up in tl.float32"
    if name == "tl.dot":
        options = {k.arg: ast.unparse(k.value) for k in node.keywords}
        if HALF.search(options.get("out_dtype", "")):
            return f"tl.dot with out_dtype={options['out_dtype']} adds up in it: leave that out"
        if "tf32" in options.get("input_precision", "") or options.get("allow_tf32") == "True":
            return "tl.dot in TF32 keeps 10 bits of each number: input_precision='ieee' keeps all"
    return ""


def _scaled(node: ast.BinOp) -> str:
    """A tile of q or k times the scale: it stays in half precision."""
    names = [n.id for n in (node.left, node.right) if isinstance(n, ast.Name)]
    if len(names) == 2 and set(names) & {"q", "k"} and any("scale" in n for n in names):
        tile = next(n for n in names if n in ("q", "k"))
        return (
            f"`{ast.unparse(node)}` is rounded to the dtype of {tile}: multiply the scores, "
            "which are fp32, instead"
        )
    return ""


def _running(node: ast.Assign | ast.AugAssign) -> str:
    """A running value that is rounded on its way through the loop."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    value = node.value
    if not isinstance(target, ast.Name) or not isinstance(value, ast.Call):
        return ""
    cast = isinstance(value.func, ast.Attribute) and value.func.attr == "to" and value.args
    if not cast or not re.search(r"float16|\.dtype", ast.unparse(value.args[0])):
        return ""
    inside = {n.id for n in ast.walk(value.func.value) if isinstance(n, ast.Name)}
    if target.id not in inside or target.id in ("p", "ds", "p_t", "ds_t", "q", "k", "v", "do"):
        return ""
    return (
        f"`{target.id}` is rounded to {ast.unparse(value.args[0])} on its way: round once, when "
        "it is stored"
    )


def _constant(value: float) -> str:
    for name, exact in CONSTANTS.items():
        if 1e-8 < abs(value - exact) / exact < 1e-2:
            return f"{value!r} has too few digits of {name}, which is {exact:.10g}"
    return ""
