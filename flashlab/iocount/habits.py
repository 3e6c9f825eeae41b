"""Habits of PyTorch and NumPy that Triton refuses, each with Triton's spelling. Floor: core.

Reads the refused statement and the refusal's text, and works for the recorder and the compiler.
"""

import ast
import re
from collections.abc import Callable, Iterator

METHODS = {
    "unsqueeze": "a new axis is x[:, None] or x[None, :]",
    "transpose": "turn a tile with tl.trans(x)",
    "t": "turn a tile with tl.trans(x)",
    "permute": "turn a tile with tl.trans(x)",
    "mT": "turn a tile with tl.trans(x)",
    "float": "change the type with x.to(tl.float32)",
    "double": "change the type with x.to(tl.float64)",
    "half": "change the type with x.to(tl.float16)",
    "bfloat16": "change the type with x.to(tl.bfloat16)",
    "int": "change the type with x.to(tl.int32)",
    "amax": "the largest of each row is tl.max(x, axis=1)",
    "amin": "the smallest of each row is tl.min(x, axis=1)",
    "values": "tl.max(x, axis=1) returns the values alone",
    "mean": "divide tl.sum(x, axis=1) by the number of elements that count",
    "masked_fill": "write tl.where(mask, value, x)",
    "clamp": "write tl.minimum and tl.maximum",
    "pow": "multiply, or use tl.exp2 and tl.log2",
    "size": "sizes are the BLOCK_ constants",
    "matmul": "tiles multiply with tl.dot(a, b)",
    "mm": "tiles multiply with tl.dot(a, b)",
    "dot": "tiles multiply with tl.dot(a, b)",
    "item": "a kernel's numbers stay in the kernel; use the tile itself",
    "softmax": "write its steps with tl.max, tl.exp and tl.sum",
}
FUNCTIONS = METHODS | {
    "ones": "write tl.full(shape, 1.0, tl.float32)",
    "inf": 'write float("-inf")',
    "max_": "two tiles are compared by tl.maximum(a, b)",
    "pow": "multiply, or use tl.exp2 and tl.log2",
    "pointer": "an argument is a pointer already",
}
FORGOTTEN = "Did you forget to add @triton.jit"
INDEXED = ("unsupported tensor index", "__setitem__", "item assignment", "not iterable", FORGOTTEN,
           "array of size 1", "not subscriptable")  # fmt: skip
MATMUL = r"MatMult|for @|forget to add|attribute '(t|mT|transpose|permute)'"
TRUTH = ("truth value", "[Bb]oolean value of Tensor")


def advice(source: str, line: int, said: str) -> str:
    """One sentence with Triton's spelling of what stands at ``line``; empty if none is known.

    Args:
        source: The whole text of the file.
        line: Line of the refused statement, from 1.
        said: What the recorder, Python or the compiler said of it.
    """
    statement = _statement(source, line)
    if statement is None:
        return ""
    return next((text for rule in RULES if (text := rule(statement, said))), "")


def reductions(source: str) -> Iterator[tuple[int, str]]:
    """(line, sentence) for each sum or maximum in a kernel that has no axis."""
    for function in _kernels(source):
        for node in ast.walk(function):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            owner, name = ast.unparse(node.func.value), node.func.attr
            of_tl = owner in ("tl", "triton.language")
            tile = ast.unparse(node.args[0]) if of_tl and node.args else owner
            if name in ("sum", "max", "min") and len(node.args) == of_tl and not node.keywords:
                yield (
                    node.lineno,
                    (
                        f"{ast.unparse(node)} has no axis, so it makes one number of a tile: "
                        f"one for each row is tl.{name}({tile}, axis=1)"
                    ),
                )


def _kernels(source: str) -> list[ast.FunctionDef]:
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return []
    functions = [n for n in body if isinstance(n, ast.FunctionDef)]
    return [f for f in functions if any("jit" in ast.unparse(d) for d in f.decorator_list)]


def _statement(source: str, line: int) -> ast.stmt | None:
    """The smallest statement around ``line``; of a compound one, its head."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return min(around, key=lambda n: (n.end_lineno or 0) - n.lineno, default=None)


def _find(statement: ast.AST, kind: type, test: Callable = lambda node: True) -> ast.AST | None:
    return next((n for n in ast.walk(statement) if isinstance(n, kind) and test(n)), None)


def _is_pointer(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and re.search(r"_?ptrs?$", node.id) is not None


def _matmul(statement: ast.stmt, said: str) -> str:
    found = _find(statement, ast.BinOp, lambda n: isinstance(n.op, ast.MatMult))
    if found is None or not re.search(
        r"MatMult|for @|forget to add|attribute '(t|mT|transpose|permute)'", said
    ):
        return ""
    right = found.right
    turned = isinstance(right, ast.Attribute) and right.attr in ("T", "mT")
    shown = f"tl.trans({ast.unparse(right.value)})" if turned else ast.unparse(right)
    if isinstance(right, ast.Call) and ast.unparse(right.func).endswith((".t", ".transpose")):
        shown = f"tl.trans({ast.unparse(right.func.value)})"
    return (
        f"`{ast.unparse(found)}` is PyTorch's spelling: tiles multiply with "
        f"tl.dot({ast.unparse(found.left)}, {shown})"
    )


def _subscript(statement: ast.stmt, said: str) -> str:
    if not any(text in said for text in INDEXED):
        return ""
    found = _find(statement, ast.Subscript, _takes_elements)
    if found is None:
        return ""
    text, index = ast.unparse(found), ast.unparse(found.slice)
    owner = ast.unparse(found.value)
    stored = isinstance(found.ctx, ast.Store)
    if _is_pointer(found.value):
        value = ast.unparse(statement.value) if stored and hasattr(statement, "value") else "x"
        how = f"tl.store({owner} + {index}, {value}, mask=...)"
        how = how if stored else f"tl.load({owner} + {index}, mask=..., other=0.0)"
        return f"`{text}` indexes a pointer as PyTorch does a tensor: {_verb(stored)} with {how}"
    if stored:
        return f"`{text} = ...` changes part of a tile: write tl.where(mask, new, old) instead"
    return (
        f"`{text}` takes elements out of a tile, which cannot be sliced (only x[:, None] and "
        "x[None, :] add an axis): load what you need, or pick it by tl.sum(tl.where(mask, x, 0), "
        "axis)"
    )


def _verb(stored: bool) -> str:
    return "store" if stored else "load"


def _takes_elements(node: ast.Subscript) -> bool:
    """Whether an index does more than add axes, which is all that a tile knows."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    whole = all(
        isinstance(p, ast.Constant)
        and p.value is None
        or isinstance(p, ast.Slice)
        and not (p.lower or p.upper or p.step)
        for p in parts
    )
    named = isinstance(node.value, ast.Name) and not node.value.id.isupper()
    stored = isinstance(node.ctx, ast.Store)
    return (stored or not whole) and named


def _keyword(statement: ast.stmt, said: str) -> str:
    found = re.search(r"unexpected keyword argument '(dim|keepdim)'", said)
    call = _find(
        statement, ast.Call, lambda n: found and any(k.arg == found[1] for k in n.keywords)
    )
    if call is None or not isinstance(call.func, ast.Attribute):
        return ""
    given = {k.arg: ast.unparse(k.value) for k in call.keywords}
    owner, positions = ast.unparse(call.func.value), [ast.unparse(a) for a in call.args]
    tile = positions[0] if owner == "tl" and positions else owner
    axis = given.get("dim") or given.get("axis") or "1"
    kept = ", keep_dims=True" if given.get("keepdim") == "True" else ""
    values = ", which returns the values alone" if call.func.attr in ("max", "min") else ""
    return (
        f"`{ast.unparse(call)}` is PyTorch's spelling: Triton says axis, "
        f"tl.{call.func.attr}({tile}, axis={axis}{kept}){values}"
    )


def _attribute(statement: ast.stmt, said: str) -> str:
    found = re.search(r"'tensor' object has no attribute '(\w+)'", said)
    if found and found[1] in METHODS:
        return f"a tile has no .{found[1]} as PyTorch's tensors do: {METHODS[found[1]]}"
    found = re.search(r"module 'triton.language\S*' has no attribute '(\w+)'", said)
    if found and found[1] in FUNCTIONS:
        return f"tl has no {found[1]}: {FUNCTIONS[found[1]]}"
    return ""


def _python_max(statement: ast.stmt, said: str) -> str:
    call = _find(
        statement, ast.Call, lambda n: isinstance(n.func, ast.Name) and n.func.id in ("max", "min")
    )
    if call is None or len(call.args) < 2 or not any(re.search(text, said) for text in TRUTH):
        return ""
    inside = ", ".join(map(ast.unparse, call.args))
    return (
        f"Python's {ast.unparse(call)} compares two numbers: for tiles, element by element, write "
        f"tl.{call.func.id}imum({inside})"
    )


def _pointer_arithmetic(statement: ast.stmt, said: str) -> str:
    if not re.search(r"pointer<|Unsupported \w+ dtype pointer", said):
        return ""
    name = _find(statement, ast.Name, _is_pointer)
    side = re.search(r"Unsupported (lhs|rhs) dtype pointer", said)
    call = _find(statement, ast.Call, lambda n: ast.unparse(n.func).endswith("tl.dot"))
    if side and call is not None and len(call.args) > 1:
        name = _find(call.args[side[1] == "rhs"], ast.Name, lambda n: n.id != "tl") or name
    what = f"{name.id} holds" if name else "a name on this line holds"
    shown = name.id if name else "pointers"
    return (
        f"{what} addresses, not numbers, and is used in arithmetic: read the numbers first, "
        f"tl.load({shown}{'' if shown.endswith('s') else ' + offsets'}, mask=..., other=0.0)"
    )


def _float_only(statement: ast.stmt, said: str) -> str:
    found = re.search(r"Expected dtype \['fp32', 'fp64'\] but got (\w+)", said)
    call = _find(
        statement,
        ast.Call,
        lambda n: re.fullmatch(r"(tl(\.math)?|math)\.\w+", ast.unparse(n.func)) and n.args,
    )
    if not found or call is None:
        return ""
    return (
        f"{ast.unparse(call.func)} takes fp32, and {ast.unparse(call.args[0])} is {found[1]}: "
        f"write {ast.unparse(call.func)}({ast.unparse(call.args[0])}.to(tl.float32))"
    )


def _inner_sizes(statement: ast.stmt, said: str) -> str:
    call = _find(statement, ast.Call, lambda n: ast.unparse(n.func).endswith("tl.dot"))
    if call is None or len(call.args) < 2 or "equal reduction dimensions" not in said:
        return ""
    a, b = map(ast.unparse, call.args[:2])
    return (
        f"tl.dot({a}, {b}) sums over columns of the first and rows of the second, and their "
        f"numbers differ: turn one, such as tl.trans({b})"
    )


def _python_function(statement: ast.stmt, said: str) -> str:
    """``math.exp``, ``float``, ``len`` and NumPy on a tile."""
    if "has no len()" in said:
        return "len() does not know a tile: its sizes are the BLOCK_ constants"
    if re.search(r"name '(np|numpy|torch|math)' is not defined|Unsupported function ref", said):
        call = _find(statement, ast.Call, lambda n: _module(n) in ("np", "numpy", "torch", "math"))
        if call is not None:
            return (
                f"{ast.unparse(call.func)} does not exist in a kernel, where only tl works: "
                f"write tl.{call.func.attr}, if there is one"
            )
    if "array of size 1" in said or "0-dimensional arrays" in said:
        call = _find(statement, ast.Call, lambda n: _module(n) == "math")
        if call is not None:
            inside = ", ".join(map(ast.unparse, call.args))
            return (
                f"{ast.unparse(call.func)} takes one number, not a tile: "
                f"write tl.{call.func.attr}({inside})"
            )
    return ""


def _module(call: ast.Call) -> str:
    return (
        call.func.value.id
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)
        else ""
    )


def _missing_dtype(statement: ast.stmt, said: str) -> str:
    if not re.search(r"missing .*argument: 'dtype'", said):
        return ""
    return "tl.zeros needs its type, unlike torch.zeros: write tl.zeros([BLOCK_M], tl.float32)"


def _shapes_apart(statement: ast.stmt, said: str) -> str:
    """A vector beside a tile: Triton lines up last axes, as torch does."""
    found = re.search(r"incompatible dimensions at index (\d+): (\d+) and (\d+)", said)
    if found is None:
        return ""
    return (
        f"along axis {found[1]} one side has {found[2]} elements and the other {found[3]}: beside "
        "a tile a number for each row is written m[:, None], one for each column m[None, :]"
    )


RULES = (
    _matmul,
    _subscript,
    _keyword,
    _attribute,
    _python_max,
    _pointer_arithmetic,
    _float_only,
    _inner_sizes,
    _python_function,
    _missing_dtype,
    _shapes_apart,
)
