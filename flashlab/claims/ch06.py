"""Chapter 06: backward by recomputation."""

from flashlab.claims.claim import Claim, Value

CLAIMS = (
    Claim(
        id="A19",
        chapters=("06",),
        words="The forward pass keeps o and lse = m + log l; in the backward pass exp(s - lse) is "
        "the weight exactly, already divided by the row's sum.",
        shown=("computed", "measured"),
        source="Dao 2023 (arXiv:2307.08691), section 3.1 and Algorithm 2; Dao et al. 2022 "
        "(arXiv:2205.14135), section 3.1",
        values=(
            Value(0, "from softmax", margin=1e-12),
            Value(0, "from 1 at most", margin=1e-12),
        ),
    ),
    Claim(
        id="A20",
        chapters=("06",),
        words="The row sum in the gradient of softmax, over all keys, is the dot product of do "
        "and o.",
        shown=("computed",),
        source="Dao et al. 2022 (arXiv:2205.14135), Appendix B.2",
        values=(Value(0, "from the sum over keys", margin=1e-12),),
    ),
    Claim(
        id="A21",
        chapters=("06",),
        words="The backward pass by recomputation does more FLOPs than the standard one and still "
        "takes less time, because bytes were what took it.",
        shown=("counted", "measured", "cited"),
        source="the recorder; H200 by `flashlab bench flash2_backward`; Dao et al. 2022 "
        "(arXiv:2205.14135), Figure 2",
        values=(
            Value(1.25, "times the FLOPs"),
            Value(1.75, "times the FLOPs"),
            Value(1.8, "x fewer bytes", tolerance=0.05),
            Value(3.3, "x faster", tolerance=0.03),
            Value(5.7, "times less", tolerance=0.01),
        ),
    ),
    Claim(
        id="A39",
        chapters=("06",),
        words="Attention does not need memory that grows with the square of the sequence length.",
        shown=("computed", "cited"),
        source="Rabe and Staats 2021 (arXiv:2112.05682)",
        values=(
            Value(16, "times as much", margin=0.1),
            Value(4, "times as much", margin=0.1),
            Value(2, "times as much", margin=0.1),
            Value(0, "from ordinary attention", margin=1e-12),
        ),
    ),
)
