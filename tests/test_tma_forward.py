"""The contract of ``tma_forward``: what can be described, edges, errors; which targets get TMA."""

import pytest
import torch

from flashlab import aot, exercises, iocount, sources
from flashlab.exercises.attention_inputs import make_inputs
from flashlab.grader import trials
from flashlab.loading import load_module
from flashlab.reference import attention, described

SIZES = {"B": 2, "H": 6, "H_kv": 2, "N_q": 7, "N_k": 11, "D": 8}
TEXT = sources.solution_text("tma_forward")


def made(dtype=torch.float16, **sizes):
    return make_inputs(SIZES | sizes, dtype, torch.Generator().manual_seed(0))


def solution(**constants):
    module = load_module(TEXT, "<solution tma_forward>")
    vars(module).update(constants)
    return module


@pytest.mark.parametrize("causal", [False, True])
def test_the_reference_is_chapter_07s(causal):
    for layout in ("contiguous", "packed", "shared"):
        call = made(torch.float64, layout=layout)
        found = described.tma_forward(**call, causal=causal)
        for a, b in zip(found, attention.flash2_forward(**call, causal=causal), strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize(
    "empty", [{"N_k": 0}, {"N_q": 0}, {"B": 0}, {"H": 0}, {"H_kv": 0}, {"N_k": 0, "D": 5}], ids=str
)
def test_sizes_of_zero(empty):
    call = made(torch.float32, **empty)
    if empty.get("D") == 5:
        call["q"] = torch.zeros(2, 6, 7, 8)[..., :5]
    for module in (described, solution()):
        o, lse = module.tma_forward(**call)
        assert o.shape == call["q"].shape and not o.any()
        assert lse.shape == o.shape[:3] and (lse == -torch.inf).all()


def fitting():
    """Tensors [2, 3, 5, D] that a descriptor takes."""
    yield "contiguous", torch.zeros(2, 3, 5, 24, dtype=torch.float16)
    yield "fp32, D 4", torch.zeros(2, 3, 5, 4)
    yield "[B, N, H, D]", torch.zeros(2, 5, 3, 8, dtype=torch.float16).permute(0, 2, 1, 3)
    yield "a part of packed rows", torch.zeros(2, 3, 5, 48, dtype=torch.float16)[..., 16:32]
    yield "rows of 24", torch.zeros(2, 3, 5, 24, dtype=torch.float16)[..., :20]
    yield "one row each", torch.zeros(2, 3, 1, 16).as_strided((2, 3, 1, 16), (48, 16, 5, 1))
    yield "shared by the batch", torch.zeros(1, 3, 5, 8, dtype=torch.float16).expand(2, 3, 5, 8)


def unfitting():
    """Tensors [2, 3, 5, D] that none takes."""
    yield "rows of 40 bytes", torch.zeros(2, 3, 5, 20, dtype=torch.float16)
    yield "rows of 20 bytes", torch.zeros(2, 3, 5, 5)
    yield "D outermost", torch.zeros(2, 3, 16, 5).mT
    yield "every second element", torch.zeros(2, 3, 5, 32)[..., ::2]
    yield "starts between steps", torch.zeros(2 * 3 * 5 * 8 + 1).half()[1:].view(2, 3, 5, 8)
    yield "heads between steps", torch.zeros(2, 3, 44).as_strided((2, 3, 5, 8), (132, 42, 8, 1))


@pytest.mark.parametrize("x", [pytest.param(x, id=n) for n, x in fitting()])
def test_what_can_be_described_is_taken(x):
    described.check_described(x=x)
    with iocount.count_io():
        o, lse = solution(BLOCK_M=16, BLOCK_N=16).tma_forward(x, x, x)
    assert o.shape == x.shape and not o.any()
    assert torch.allclose(lse, torch.full(lse.shape, float(x.shape[2])).log())


@pytest.mark.parametrize("x", [pytest.param(x, id=n) for n, x in unfitting()])
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_what_cannot_be_described_is_refused_in_one_sentence(name, x):
    fits = torch.zeros(*x.shape[:3], 32, dtype=x.dtype)[..., : x.shape[3]]
    call, said = dict.fromkeys("qkv", fits) | {name: x}, []
    for module in (described, solution()):
        with pytest.raises(ValueError, match=f"^{name} must have D side by side") as error:
            module.tma_forward(**call)
        said.append(str(error.value))
    assert said[0] == said[1] and str(list(x.stride())) in said[0]


def bad():
    t = {n: torch.zeros(2, 6 if n == "q" else 2, 4, 8) for n in "qkv"}
    yield "three dimensions", t | {"q": torch.zeros(6, 4, 8)}
    yield "a list", t | {"k": [[1.0]]}
    yield "integers", {n: x.long() for n, x in t.items()}
    yield "mixed dtypes", t | {"v": t["v"].half()}
    yield "another D", t | {"k": torch.zeros(2, 2, 4, 16)}
    yield "H_kv does not divide H", t | {n: torch.zeros(2, 4, 4, 8) for n in "kv"}
    yield "more values than keys", t | {"v": torch.zeros(2, 2, 5, 8)}


@pytest.mark.parametrize("call", [pytest.param(c, id=n) for n, c in bad()])
def test_a_bad_call_gets_the_same_sentence_from_reference_and_solution(call):
    said = []
    for module in (described, solution()):
        with pytest.raises(ValueError, match="must") as error:
            module.tma_forward(**call)
        said.append(str(error.value))
    assert said[1] in (said[0], said[0].replace(", torch.float64", ""))


def test_what_a_kernel_cannot_take():
    with pytest.raises(ValueError, match="q must have a dtype of"):
        solution().tma_forward(**made(torch.float64))
    with pytest.raises(ValueError, match=r"q must have D <= 256.*264"):
        solution().tma_forward(**made(torch.float32, D=264))


def test_the_padding_between_rows_of_o_is_never_stored():
    call = made(D=20, layout="packed", N_q=17)
    with iocount.count_io() as tally:
        o, _ = solution(BLOCK_M=16, BLOCK_N=16).tma_forward(**call)
    assert o.stride(2) == 24
    assert tally.store_bytes("o_ptr") == o.numel() * 2


def test_hopper_and_later_get_tma_and_earlier_ones_ordinary_loads():
    q = torch.empty(1, 2, 200, 64, dtype=torch.float16)
    rows = aot.inspect(TEXT, "tma.py", lambda m: m.tma_forward(q, q, q), (80, 90, 120))
    for row in rows:
        assert row.ok, row.sentence
        assert bool(row.counts["tma"]) == bool(row.counts["mbarrier"]) == (row.arch >= 90)
    by_arch = {row.arch: row for row in rows}
    assert by_arch[80].counts["cp_async"] and not by_arch[90].counts["cp_async"]
    assert by_arch[90].counts["wgmma"] and not by_arch[90].spill_bytes


def test_every_case_of_the_exercise_can_be_described():
    exercise = exercises.get("tma_forward")
    for case in exercise.cases:
        trial = trials.trial(exercise, case, exercise.tiles(case.pairs[0]))
        described.check_described(**trial.sent)


@pytest.mark.parametrize("step", range(1, 6))
def test_each_step_is_checked_alone(step):
    """Another step's mistake is left out of the text in which a step is tried."""
    chosen = {
        1: "shape-of-the-box", 2: "number-of-the-tile", 3: "zeros-score",
        4: "keys-added", 5: "stored-at-the-start",
    }  # fmt: skip
    mistakes = {m.slug: m for m in exercises.get("tma_forward").mistakes}
    wrong = TEXT
    for slug in chosen.values():
        wrong = sources.mutant(wrong, mistakes[slug])
    own = mistakes[chosen[step]]
    alone = sources.transplant(TEXT, wrong, step)
    assert own.new in alone and own.old not in alone
    for slug in set(chosen.values()) - {own.slug}:
        assert mistakes[slug].old in alone
