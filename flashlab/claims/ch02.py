"""Chapter 02: memory hierarchy and fusion."""

from flashlab.claims.claim import Claim, Value

CLAIMS = (
    Claim(
        id="A2",
        chapters=("02",),
        words="Three steps as three kernels write and read both N x N matrices, scores and "
        "weights.",
        shown=("counted",),
        source="Dao et al. 2022 (arXiv:2205.14135), Algorithm 0",
        values=(Value(4, "crossings of an N x N matrix"),),
    ),
    Claim(
        id="A6",
        chapters=("02",),
        words="Under standard attention the arithmetic units are idle most of the time.",
        shown=("measured",),
        source="hardware counters of an H200 by ncu, kept with card and date",
        values=(Value(13, "% of their peak", margin=1),),
    ),
    Claim(
        id="A7",
        chapters=("02",),
        words="HBM has tens of GB; SRAM a couple of hundred KB an SM, about 20 MB across an A100, "
        "and is about ten times as fast.",
        shown=("computed",),
        source="A100 data sheet; CUDA C++ Programming Guide (shared memory by compute capability, "
        "128 bytes an SM and clock); Dao et al. 2022 (arXiv:2205.14135), section 2.1",
        values=(
            Value(80, "GB"),
            Value(192, "KB of shared memory", tolerance=0.15),
            Value(20, "MB of shared memory", tolerance=0.12),
            Value(10, "x faster than HBM", tolerance=0.3),
        ),
    ),
)
