"""What torch's attention runs for given inputs, and why its other backends refuse them.

``flashlab bench dispatch`` tries every call of ``calls()`` on the GPU; chapter 10 tries them live.
"""

import itertools
import json
import warnings
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from flashlab.bench import timing

BACKENDS = {  # in the words of this course
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
DTYPES = ("float16", "bfloat16", "float32", "float64")
HEAD_DIMS = (64, 100, 128, 256, 512)
HEADS = ("8 and 8", "8 and 2, enable_gqa", "8 and 2")  # query heads and key heads
ALSO = (
    "nothing else",
    "is_causal",
    "a bool mask",
    "a float mask",
    "a learned mask",
    "dropout_p 0.1",
    "one query",
    "q transposed",
    "v half as wide",
)
N = 128
ERROR = "an error"
NO_KERNEL = "There is no such kernel for this device."


@dataclass(frozen=True)
class Call:
    """One call of ``scaled_dot_product_attention``: a dtype, a D, and one of HEADS and of ALSO."""

    dtype: str = "float16"
    D: int = 64
    heads: str = HEADS[0]
    also: str = ALSO[0]

    def inputs(self, device: str) -> tuple[tuple[Tensor, ...], dict]:
        """q, k, v and the keywords, on a device."""
        kind = {"device": device, "dtype": getattr(torch, self.dtype)}
        H, H_kv = map(int, self.heads.partition(",")[0].split(" and "))
        rows = 1 if self.also == "one query" else N
        q = torch.randn(1, H, rows, self.D, **kind)
        if self.also == "q transposed":
            q = q.mT.contiguous().mT
        k = torch.randn(1, H_kv, N, self.D, **kind)
        width = self.D // 2 if self.also == "v half as wide" else self.D
        v = torch.randn(1, H_kv, N, width, **kind)
        more = {"enable_gqa": True} if "enable_gqa" in self.heads else {}
        if "mask" in self.also:
            boolean = self.also == "a bool mask"
            mask = torch.ones(N, N, dtype=torch.bool, device=device)
            more["attn_mask"] = mask if boolean else torch.zeros(N, N, **kind)
            more["attn_mask"].requires_grad_("learned" in self.also)
        if self.also == "is_causal":
            more["is_causal"] = True
        if self.also == "dropout_p 0.1":
            more["dropout_p"] = 0.1
        return (q, k, v), more


@dataclass(frozen=True)
class Found:
    """Which backend ran, or ERROR; each backend's reason for refusing, empty if it takes it."""

    ran: str
    refused: dict[str, str]


class _Operators(TorchDispatchMode):
    """Keeps the names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def ran(call: Call, device: str) -> str:
    """The backend that torch chooses by itself: the operator that it runs tells."""
    args, more = call.inputs(device)
    operators = _Operators()
    try:
        with operators, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.nn.functional.scaled_dot_product_attention(*args, **more)
    except RuntimeError:
        return ERROR
    fused = (name for name in operators.names if "_scaled_dot_product_" in name)
    operator = next(fused, "math")
    return next((name for name in BACKENDS if name in operator), operator)


def refusal(call: Call, device: str, backend: str) -> str:
    """torch's reason when it may use this backend alone; empty if the backend takes the call."""
    args, more = call.inputs(device)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            with sdpa_kernel(BACKENDS[backend]):
                torch.nn.functional.scaled_dot_product_attention(*args, **more)
        except RuntimeError as error:
            return reason([str(warning.message) for warning in said], str(error), backend)
    return ""


def reason(said: list[str], error: str, backend: str) -> str:
    """The sentence about one backend among torch's warnings, else its error."""
    said = [text.partition(" (Triggered internally")[0] for text in said]
    heads = [at for at, text in enumerate(said) if "kernel not used because" in text]
    for head, after in itertools.pairwise([*heads, len(said)]):
        if said[head].lower().replace("memory ", "").startswith(backend):
            return " ".join(said[head + 1 : after]) or "torch gives no reason."
    if error.startswith("No viable backend"):
        return NO_KERNEL
    return error.splitlines()[0]


def attempt(call: Call, device: str) -> Found:
    """What runs, and who refuses why."""
    return Found(ran(call, device), {name: refusal(call, device, name) for name in BACKENDS})


def calls() -> Iterator[Call]:
    """Everything that the chapter offers."""
    return (Call(*choice) for choice in itertools.product(DTYPES, HEAD_DIMS, HEADS, ALSO))


def recorded(record: dict, call: Call) -> Found:
    """The row of a call in a record; KeyError if it was not tried."""
    row, reasons = record["rows"]["; ".join(map(str, astuple(call)))], record["reasons"]
    return Found(row[0], {name: reasons[at] for name, at in zip(BACKENDS, row[1:], strict=True)})


def to_record(facts: dict, found: dict[Call, Found]) -> dict:
    """A record of many calls; each reason is written once."""
    reasons = list(dict.fromkeys(text for one in found.values() for text in one.refused.values()))
    rows = {
        "; ".join(map(str, astuple(call))): [one.ran, *map(reasons.index, one.refused.values())]
        for call, one in found.items()
    }
    return {"slug": "dispatch", "facts": facts, "reasons": reasons, "rows": rows}


def main(slug: str, mine: bool = False, out: str | None = None) -> int:
    """Print one line a call, save them all; 1 without a GPU."""
    if not torch.cuda.is_available():
        print("flashlab bench dispatch tries a GPU's kernels and needs an NVIDIA GPU; none here.")
        return 1
    facts = timing.card() | {"how": "each call tried once"}
    print(", ".join(f"{k} {v}" for k, v in facts.items()))
    found = {}
    for call in calls():
        found[call] = one = attempt(call, "cuda")
        takers = ", ".join(name for name, text in one.refused.items() if not text)
        print(f"{call}: {one.ran}; taken by {takers or 'none'}")
    if out:
        text = json.dumps(to_record(facts, found), separators=(",", ":"))
        Path(out).write_text(text.replace('],"', '],\n"') + "\n", encoding="utf-8")
    return 0
