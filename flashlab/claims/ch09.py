"""Chapter 09: FP8 and incoherent processing."""

from flashlab.claims.claim import Claim, Value

PAPER = "Shah et al. 2024 (arXiv:2407.08608)"

CLAIMS = (
    Claim(
        id="A32",
        chapters=("09",),
        words="FP8 doubles the peak and is fragile with outliers; scales for blocks and a random "
        "rotation of q and k make the error 2.6 times smaller.",
        shown=("computed", "measured"),
        source=f"{PAPER}, sections 3.3 and 4.3, Table 3, recomputed by `flashlab reproduce "
        "fa3-fp8-error`; peaks: H200 data sheet; H200 by `flashlab bench fp8_hopper`",
        values=(
            Value(1979, "TFLOP/s peak in FP8"),
            Value(989, "TFLOP/s peak in FP16"),
            Value(2, "times at the peak", tolerance=0.01),
            Value(1.49, "times as measured", margin=0.06),
            Value(2.6, "times lower error", tolerance=0.3),
        ),
    ),
)
