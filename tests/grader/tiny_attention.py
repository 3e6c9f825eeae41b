"""A small exercise in plain torch whose bank, solution and workers live in one process.

The learner's texts of the tests are written in another style than the solution.
"""

import torch

from flashlab import numerics
from flashlab.exercise import Case, Exercise, Mistake, Output
from flashlab.grader.bank import Raw, Run
from flashlab.grader.report import CaseResult, Where
from flashlab.reference.honest import honest_attention

SOLUTION = """
import torch

BLOCK_M, BLOCK_N = 16, 16


def flash(q, k, v, causal=False, sm_scale=None):
    scale = q.shape[-1] ** -0.5 if sm_scale is None else sm_scale
    N_q, N_k, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1).float(), v.repeat_interleave(group, 1).float()
    o, lse = torch.zeros_like(q), torch.zeros(q.shape[:3])
    for start_m in range(0, N_q, BLOCK_M):
        rows = torch.arange(start_m, min(start_m + BLOCK_M, N_q))
        m_i = torch.full((*q.shape[:2], len(rows)), -torch.inf)
        l_i, acc = torch.zeros_like(m_i), torch.zeros(*q.shape[:2], len(rows), q.shape[3])
        for start_n in range(0, N_k, BLOCK_N):
            columns = torch.arange(start_n, min(start_n + BLOCK_N, N_k))
            s = q[:, :, rows].float() @ k[:, :, columns].transpose(2, 3) * scale
            if causal:
                s = s.masked_fill(columns > rows[:, None] + N_k - N_q, -torch.inf)
            m_new = torch.maximum(m_i, s.amax(-1))
            m_safe = torch.where(m_new == -torch.inf, 0.0, m_new)
            alpha = torch.exp(m_i - m_safe)
            p = torch.exp(s - m_safe[..., None])
            l_i = l_i * alpha + p.sum(-1)
            acc = acc * alpha[..., None] + p @ v[:, :, columns]
            m_i = m_new
        o[:, :, rows] = (acc / torch.where(l_i == 0, 1.0, l_i)[..., None]).to(o.dtype)
        lse[:, :, rows] = m_i + torch.log(l_i)
    return o, lse
"""

MISTAKES = (
    Mistake(
        "no-rescale",
        "acc = acc * alpha[..., None] + p @",
        "acc = acc + p @",
        "two-tiles",
        "wrong",
        "acc is not rescaled when the maximum grows.",
    ),
    Mistake(
        "no-scale",
        "transpose(2, 3) * scale",
        "transpose(2, 3)",
        "one-tile",
        "wrong",
        "The scores are not multiplied by sm_scale.",
    ),
    Mistake(
        "lse-base-2",
        "m_i + torch.log(l_i)",
        "(m_i + torch.log(l_i)) * 1.442695",
        "one-tile",
        "wrong",
        "lse is in base 2.",
    ),
    Mistake(
        "lse-times-log2e",
        "lse[:, :, rows] = m_i",
        "lse[:, :, rows] = 0.442695 * (m_i + torch.log(l_i)) + m_i",
        "one-tile",
        "wrong",
        "lse is multiplied by log2(e).",
    ),
    Mistake(
        "top-left",
        "rows[:, None] + N_k - N_q",
        "rows[:, None]",
        "causal-ragged",
        "wrong",
        "The causal mask is aligned top-left.",
    ),
    Mistake(
        "unguarded",
        "torch.where(m_new == -torch.inf, 0.0, m_new)",
        "m_new",
        "rows-without-keys",
        "nan",
        "A row without keys gives NaN.",
    ),
    Mistake(
        "endless",
        "        o[:, :, rows] =",
        "        while True: pass\n        o[:, :, rows] =",
        "one-tile",
        "timeout",
        "The loop never ends.",
    ),
    Mistake(
        "raises",
        "    N_q, N_k, group",
        "    raise IndexError('k 3')\n    N_q, N_k, group",
        "one-tile",
        "crash",
        "An index is wrong.",
    ),
    Mistake(
        "raises-later",
        "            columns = torch",
        "            assert N_k <= BLOCK_N, 'k 4'\n            columns = torch",
        "two-tiles",
        "crash",
        "The second tile crashes.",
    ),
)


def make_inputs(sizes, dtype, generator):
    H, D = sizes.get("H", 1), sizes.get("D", 16)
    shapes = {
        "q": (sizes.get("B", 1), H, sizes["N_q"], D),
        "k": (sizes.get("B", 1), sizes.get("H_kv", H), sizes["N_k"], D),
    }
    shapes["v"] = shapes["k"]
    made = {n: torch.randn(s, generator=generator).to(dtype) for n, s in shapes.items()}
    return made | {"causal": sizes.get("causal", False), "sm_scale": None}


def honest(inputs):
    return honest_attention(**inputs)


def sized(**sizes):
    return lambda tiles: {n: s(tiles) if callable(s) else s for n, s in sizes.items()}


CASES = (
    Case("one-tile", "core", sized(N_q=16, N_k=16), "One tile."),
    Case("two-tiles", "core", sized(N_q=32, N_k=40), "Two tiles.", pairs=(0, 1)),
    Case("heads", "core", sized(H=2, B=2, N_q=20, N_k=20), "Several heads."),
    Case("causal", "causal", sized(N_q=32, N_k=32, causal=True), "Causal.", pairs=(0, 1)),
    Case("causal-ragged", "causal", sized(N_q=9, N_k=37, causal=True), "Bottom-right."),
    Case("rows-without-keys", "hostile", sized(N_q=40, N_k=20, causal=True), "No key."),
)

EXERCISE = Exercise(
    slug="flash",
    chapter="99",
    title="Tiny attention",
    kind="torch",
    reference="flashlab.reference.attention:flash_forward",
    outputs=(Output("o"), Output("lse", "float32")),
    make_inputs=make_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=("a", "b", "c"),
    steps=("All",),
    tile_names=("BLOCK_M", "BLOCK_N"),
    tile_pairs=((16, 16), (32, 16)),
)


def run_text(text, case, tiles, inputs=None):
    """Runs a text in this process; exceptions become a status, endless loops a timeout."""
    if "while True" in text:
        return Raw("timeout")
    inputs = inputs or arguments(case, tiles)
    scope = {}
    exec(compile(text, "<learner>", "exec"), scope)
    scope.update(tiles)
    try:
        o, lse = scope["flash"](**inputs)
    except Exception as error:
        return Raw("crash", {}, "", type(error).__name__, str(error))
    return Raw("ran", {"o": o, "lse": lse})


def arguments(case, tiles):
    generator = torch.Generator().manual_seed(case.seed)
    return make_inputs(case.sizes(tiles), getattr(torch, case.dtype), generator)


def grade(text):
    """Every run of a text, judged."""
    return [
        judged(text, case, EXERCISE.tiles(pair)) for case in EXERCISE.cases for pair in case.pairs
    ]


def judged(text, case, tiles):
    inputs, raw = arguments(case, tiles), run_text(text, case, tiles)
    exact = {n: v.double() if isinstance(v, torch.Tensor) else v for n, v in inputs.items()}
    reference = honest_attention(**exact)[0]
    result = CaseResult(case.name, case.group, tiles, case.sizes(tiles), raw.status, case.why)
    if raw.status == "ran":
        limits = numerics.limits(reference, honest(inputs), inputs, inputs["q"].dtype)
        found = numerics.worst(numerics.compare(raw.outputs, reference, limits, tiles))
        result.status, result.detail, result.output = found.status, found.sentence, found.output
        result.error, result.limit = found.error, found.limit
        result.where = Where(**found.where) if found.where else None
    return Run(case, tiles, result, raw, reference, inputs)
