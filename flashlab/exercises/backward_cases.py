"""Cases that the backward exercises share; each exercise takes those that tell on its own kernel.

Floor: course.
"""

from dataclasses import replace

from flashlab.exercise import Case, Sizes


def _sizes(N_q: int, N_k: int, B: int = 1, H: int = 1, D: int = 16, **rest) -> Sizes:
    return {"B": B, "H": H, "N_q": N_q, "N_k": N_k, "D": D, **rest}


CORE = (
    Case(
        "one-tile",
        "core",
        lambda t: _sizes(t["BLOCK_M"], t["BLOCK_N"], D=32),
        "One tile of queries and one of keys: the formulas alone, nothing to sum over tiles.",
        pairs=(1, 2),
    ),
    Case(
        "two-tiles",
        "core",
        lambda t: _sizes(2 * t["BLOCK_M"], 2 * t["BLOCK_N"], B=2, H=3),
        "Two tiles each way, 2 batches of 3 heads: the second tile must be added to the first, "
        "and every program must find its own head.",
        pairs=(0, 1, 2),
        own=True,
    ),
    Case(
        "given-scale",
        "core",
        lambda t: _sizes(t["BLOCK_M"], 2 * t["BLOCK_N"], sm_scale=0.5),
        "sm_scale is given as 0.5, which is not 1/sqrt(D).",
        pairs=(0, 1),
    ),
    Case(
        "large-scores",
        "core",
        lambda t: _sizes(t["BLOCK_M"], 2 * t["BLOCK_N"], scores="large"),
        "Scores beyond +-88: exp(s) / exp(lse) overflows, exp(s - lse) does not.",
    ),
)
RAGGED = (
    Case(
        "ragged-keys",
        "ragged",
        lambda t: _sizes(t["BLOCK_M"], t["BLOCK_N"] + 5, scores="negative"),
        "The last key tile has 5 keys, and all scores are near -120: the weight of a key that "
        "does not exist overflows, exp(0 - lse).",
        dtype="float32",
        pairs=(0, 1),
        own=True,
    ),
    Case(
        "ragged-queries",
        "ragged",
        lambda t: _sizes(2 * t["BLOCK_M"] + 4, t["BLOCK_N"]),
        "The last query tile has 4 queries: its other rows must not be read, nor count.",
        pairs=(0, 1),
    ),
    Case(
        "odd-head-dim",
        "ragged",
        lambda t: _sizes(t["BLOCK_M"], t["BLOCK_N"] + 3, D=24),
        "D is 24 and BLOCK_D 32: the columns from D on belong to the next row.",
        pairs=(0, 2),
    ),
    Case(
        "one-token",
        "ragged",
        lambda t: _sizes(1, 1, H=2),
        "One query and one key: the weight is 1 whatever q and k are, so dq and dk are 0.",
    ),
)
CAUSAL = (
    Case(
        "causal-square",
        "causal",
        lambda t: _sizes(*[2 * max(t["BLOCK_M"], t["BLOCK_N"])] * 2, H=2, causal=True),
        "Causal with N_q = N_k: the last key is seen by the last query alone.",
        pairs=(0, 1, 2),
        own=True,
    ),
    Case(
        "causal-few-queries",
        "causal",
        lambda t: _sizes(5, t["BLOCK_N"] + 5, causal=True),
        "Causal with 5 queries and more keys: the last query sees the last key, so the diagonal "
        "is shifted by N_k - N_q.",
        pairs=(0, 2),
    ),
    Case(
        "causal-many-queries",
        "causal",
        lambda t: _sizes(2 * t["BLOCK_M"] + 8, t["BLOCK_N"] + 4, causal=True),
        "Causal with more queries than keys: the first rows see no key, their lse is -inf, and "
        "their gradients are 0.",
        pairs=(0, 1),
    ),
)
HOSTILE = (
    Case(
        "sum-backward",
        "hostile",
        lambda t: _sizes(
            t["BLOCK_M"] + 2, t["BLOCK_N"], H=2, gradient="expanded", scores="rising"
        ),
        "do is what o.sum().backward() sends: one number, all strides 0.",
        pairs=(0, 2),
    ),
    Case(
        "permuted",
        "hostile",
        lambda t: _sizes(17, 19, B=2, H=3, layout="permuted", gradient="permuted"),
        "q, k and do are [B, N, H, D] in memory, v has D outermost: only the strides tell.",
        pairs=(0, 2),
    ),
    Case(
        "expanded",
        "hostile",
        lambda t: _sizes(18, 20, B=2, H=2, layout="expanded"),
        "q is every second element, the batch shares k (stride 0) and the heads share v: dk and "
        "dv do not.",
        pairs=(0, 2),
    ),
    Case(
        "fp32",
        "hostile",
        lambda t: _sizes(t["BLOCK_M"], 2 * t["BLOCK_N"]),
        "float32: no tile may pass through fp16 on its way.",
        dtype="float32",
        pairs=(0, 1),
    ),
    Case(
        "bf16",
        "hostile",
        lambda t: _sizes(20, 2 * t["BLOCK_N"] + 3, causal=True),
        "bfloat16 in, bfloat16 out; the statistics stay fp32.",
        dtype="bfloat16",
    ),
    Case(
        "large-gradients",
        "hostile",
        lambda t: _sizes(2 * t["BLOCK_M"], t["BLOCK_N"], gradient="large"),
        "Gradients in the hundreds: sums over a tile need fp32.",
    ),
    Case(
        "head-dim-80",
        "hostile",
        lambda t: _sizes(t["BLOCK_M"] + 1, 5, D=80),
        "D is 80 and BLOCK_D 128.",
    ),
    Case(
        "no-queries",
        "hostile",
        lambda t: _sizes(0, 3, H=2),
        "N_q is 0: no query sees a key, so dk and dv are 0, and dq is empty.",
        trivial="no query, so zeros are right",
    ),
    Case(
        "no-keys",
        "hostile",
        lambda t: _sizes(3, 0, H=2),
        "N_k is 0: lse is -inf; dq is 0, dk and dv are empty.",
        trivial="no key, so zeros are right",
    ),
)
ONE_TOKEN = "the only key has the weight 1, so its scores have no gradient: zeros are right"


def cases(**trivial: str) -> tuple[Case, ...]:
    """Every case; ``trivial`` says by case why zeros are right there in the first output."""
    why = {"one-token": ONE_TOKEN} | {n.replace("_", "-"): said for n, said in trivial.items()}
    every = CORE + RAGGED + CAUSAL + HOSTILE
    return tuple(replace(c, trivial=why.get(c.name, c.trivial)) for c in every)
