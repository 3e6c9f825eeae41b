"""What compiling one launch for one target gave, whether it fits, and a table. Floor: core."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flashlab import hardware
from flashlab.aot.launch import Launch

# What a job may say of itself, and of which type.
FOUND: dict[str, Any] = {
    **dict.fromkeys(("error", "sentence", "message"), str),
    **dict.fromkeys(("shared_bytes", "registers", "stack_bytes", "spill_bytes", "threads"), int),
    "line": int | None,
    "counts": dict,
    "tensor_memory_columns": int,
    "serialized": bool,
    "seconds": float,
}


@dataclasses.dataclass(frozen=True)
class Compiled:
    """One row: a launch compiled for one target.

    Args:
        arch: Compute capability, 80 for sm_80.
        kernel: Name of the kernel.
        constants: Its tile sizes and switches, by name.
        ok: It compiled and one block fits on an SM.
        error: Empty, ``"refused"`` (by the compiler), ``"too big"``, ``"load"`` (the module does
            not import), ``"crash"``, ``"timeout"`` or ``"not run"`` (no compiler here).
        sentence: What is wrong and what to do; empty when ok.
        message: The compiler's own words below the learner's line, where there is one.
        line: Line of the learner's file, where known.
        shared_bytes, stack_bytes, spill_bytes: Shared memory of a block; stack and spilled
            registers (stores and loads) of a thread.
        registers: 32-bit registers of a thread.
        threads: Threads of a block.
        counts: Instructions in the PTX by kind: mma, wgmma, tcgen05, half (those of fp16, bf16 or
            TF32 factors), cp_async, tma, ldmatrix, mbarrier, setmaxnreg, exp, ld_global,
            st_global.
        notes: What is slow though it works, one sentence each.
        seconds: Time the compiler took.
    """

    arch: int
    kernel: str
    constants: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    ok: bool = True
    error: str = ""
    sentence: str = ""
    message: str = ""
    line: int | None = None
    shared_bytes: int = 0
    registers: int = 0
    stack_bytes: int = 0
    spill_bytes: int = 0
    threads: int = 0
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @classmethod
    def of(cls, launch: Launch, arch: int, found: Mapping[str, Any]) -> "Compiled":
        """The row of what a job said, judged against the limits of ``arch``.

        A job runs a learner's code, so that what it says is checked before it is believed.
        """
        known = {name: found[name] for name in FOUND if name in found}
        if not all(isinstance(value, FOUND[name]) for name, value in known.items()):
            known = {"error": "crash", "sentence": f"the compile job for sm_{arch} said nonsense"}
        columns, serialized = known.pop("tensor_memory_columns", 0), known.pop("serialized", False)
        row = cls(arch, launch.kernel, launch.constants, ok=not known.get("error"), **known)
        if not row.ok:
            return row
        problem = _too_big(row, launch, columns)
        if problem:
            return dataclasses.replace(row, ok=False, error="too big", sentence=problem)
        return dataclasses.replace(row, notes=tuple(_notes(row, serialized)))

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries and lists."""
        return dataclasses.asdict(self)


def _too_big(row: Compiled, launch: Launch, columns: int) -> str:
    limit = hardware.SHARED_PER_BLOCK.get(row.arch)
    example = hardware.EXAMPLES.get(row.arch, f"an sm_{row.arch} GPU")
    if limit and row.shared_bytes > limit:
        return (
            f"{row.kernel} needs {_kb(row.shared_bytes)} of shared memory; a block on {example} "
            f"has {limit >> 10} KB: {_advice(launch)}"
        )
    if columns > hardware.TENSOR_MEMORY_COLUMNS:
        return (
            f"{row.kernel} needs {columns} columns of tensor memory; an SM of {example} has "
            f"{hardware.TENSOR_MEMORY_COLUMNS}: {_advice(launch)}"
        )
    if row.threads > hardware.MAX_THREADS_PER_BLOCK:
        return (
            f"{row.kernel} is launched with num_warps={launch.num_warps}, {row.threads} threads; "
            f"a block has at most {hardware.MAX_THREADS_PER_BLOCK}: use 32 warps or fewer"
        )
    return ""


def _kb(size: int) -> str:
    return f"{size / 1024:.0f} KB" if size % 1024 == 0 else f"{size / 1024:.1f} KB"


def _advice(launch: Launch) -> str:
    """Name the tile size that a learner can halve; the key block is what stages multiply."""
    blocks = {
        name: size
        for name, size in launch.constants.items()
        if isinstance(size, int) and not isinstance(size, bool) and "BLOCK" in name and size > 16
    }
    names = ["BLOCK_N"] if "BLOCK_N" in blocks else sorted(blocks, key=blocks.get)[-1:]
    advice = [f"halve {name}" for name in names]
    if launch.num_stages > 1:
        advice.append("use one stage less")
    return " or ".join(advice) or "use smaller tiles"


def _notes(row: Compiled, serialized: bool) -> Iterable[str]:
    if row.spill_bytes:
        yield (
            f"spills registers ({row.spill_bytes:,} bytes of stores and loads a thread): use "
            "smaller tiles or more warps"
        )
    if serialized:
        yield "wgmma instructions are serialised for lack of registers: use smaller tiles"
    if row.arch == 75:
        yield "tl.dot runs without tensor cores here: expect correct results, not speed"


_COLUMNS = ("mma", "wgmma", "tcgen05", "cp_async", "tma", "ldmatrix", "mbarrier")


def table(rows: Sequence[Compiled]) -> str:
    """Rows as plain text for a terminal: sizes and instruction counts, then every sentence."""
    used = [c for c in _COLUMNS if any(row.counts.get(c) for row in rows)]
    head = ["kernel", "target", "shared", "limit", "registers", "spills", *used, "seconds"]
    lines = [head]
    for row, name in zip(rows, _names(rows), strict=True):
        limit = hardware.SHARED_PER_BLOCK.get(row.arch)
        sizes = [f"{row.shared_bytes:,}", f"{limit:,}" if limit else "?"]
        code = [
            str(row.registers),
            str(row.spill_bytes),
            *(str(row.counts.get(c, 0)) for c in used),
        ]
        if not row.counts:
            sizes, code = [row.error, sizes[1]], ["-"] * len(code)
        lines.append([name, f"sm_{row.arch}", *sizes, *code, f"{row.seconds:.2f}"])
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    said: dict[str, list[str]] = {}
    for row in rows:
        for sentence in [row.sentence] if row.sentence else row.notes:
            said.setdefault(sentence, []).append(f"sm_{row.arch}")
    words = [f"{', '.join(dict.fromkeys(archs))}: {text}" for text, archs in said.items()]
    return "\n".join([*(_line(line, widths) for line in lines), *words])


def _names(rows: Sequence[Compiled]) -> list[str]:
    """Kernel names, with the constants by which several launches of one kernel differ."""
    names = []
    for row in rows:
        twins = [other.constants for other in rows if other.kernel == row.kernel]
        differ = [k for k, v in row.constants.items() if any(t.get(k) != v for t in twins)]
        values = ", ".join(f"{k}={row.constants[k]}" for k in differ)
        names.append(f"{row.kernel}({values})" if values else row.kernel)
    return names


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    left = [cell.ljust(width) for cell, width in zip(cells[:2], widths[:2], strict=True)]
    right = [cell.rjust(width) for cell, width in zip(cells[2:], widths[2:], strict=True)]
    return "  ".join([*left, *right]).rstrip()
