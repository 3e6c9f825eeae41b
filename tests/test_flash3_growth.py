"""The forward kernel's steps and the published schedule: right everywhere, compiled for sm_90."""

from functools import partial
from pathlib import Path

import pytest
import torch

from flashlab import aot, numerics
from flashlab.bench import flash3_steps
from flashlab.iocount import count_io
from flashlab.reference import described
from flashlab.reference.honest import honest_attention
from flashlab.worked import flash3_pingpong as pingpong
from flashlab.worked import flash3_prepare, gluon_copy, inspected
from flashlab.worked.flash3_one_warpgroup import flash3_one_warpgroup

VERSIONS = flash3_steps.versions()
WORKED = ("1 one warpgroup", "published: turns, overlap", "overlap, no turns", "turns, wait moved")


def check(forward, sizes, dtype, causal, device):
    """Compare with fp64, and on a GPU a second call with the first."""
    B, H, H_kv, N, D = sizes
    generator = torch.Generator().manual_seed(N)
    q = torch.randn(B, N, H, D, generator=generator).to(dtype).transpose(1, 2)
    k, v = (torch.randn(B, H_kv, N, D, generator=generator).to(dtype) for _ in range(2))
    inputs = {"q": q, "k": k, "v": v, "causal": causal}
    wide = described.flash3_forward(q.double(), k.double(), v.double(), causal=causal)
    reference = dict(zip(("o", "lse"), wide, strict=True))
    limits = numerics.limits(reference, honest_attention(**inputs), inputs, dtype)
    there = [x.to(device) for x in (q, k, v)]
    got = forward(*there, causal=causal)
    found = numerics.compare(
        dict(zip(("o", "lse"), (x.cpu() for x in got), strict=True)), reference, limits, {}
    )
    assert numerics.worst(found).status == "pass", numerics.worst(found).sentence
    if device == "cuda":
        again = forward(*there, causal=causal)
        assert all(torch.equal(a, b) for a, b in zip(got, again, strict=True))


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("step", VERSIONS)
def test_each_version_that_is_timed_computes_the_same(step, causal):
    with count_io(poison=True):  # also finds reads too early and slots given back too early
        check(VERSIONS[step], (1, 1, 1, 300, 64), torch.float16, causal, "cpu")


@pytest.mark.parametrize("step", WORKED)
def test_bf16_and_d_128_and_few_rows(step):
    with count_io(poison=True):
        check(VERSIONS[step], (1, 2, 1, 70, 128), torch.bfloat16, True, "cpu")


def test_three_warpgroups_hand_on_the_turns_of_blocks_that_they_do_not_see(monkeypatch):
    monkeypatch.setattr(pingpong, "MANY", 1)
    with count_io(poison=True):
        moved = partial(pingpong.flash3_pingpong, held=False)
        check(moved, (1, 1, 1, 300, 64), torch.float16, True, "cpu")


@pytest.mark.core
@pytest.mark.parametrize("name", ["flash3_one_warpgroup", "flash3_pingpong"])
def test_compiles_for_hopper_without_one(name):
    rows = inspected.inspect(name, (90,))
    assert len(rows) == 4  # D 64 and 128, full and causal
    for row in rows:
        assert row.ok, row.sentence
        assert row.counts["wgmma"] and row.counts["tma"] and row.counts["mbarrier"]
        assert bool(row.counts["setmaxnreg"]) == (name == "flash3_pingpong")
        assert not any("serial" in note for note in row.notes)
        assert row.spill_bytes == 0


@pytest.mark.core
def test_what_they_cannot_take_is_said():
    x = torch.zeros(1, 2, 8, 64, dtype=torch.float16)
    for forward in (flash3_one_warpgroup, pingpong.flash3_pingpong):
        with pytest.raises(ValueError, match="D 64 or 128"):
            forward(x[..., :32], x, x)
        with pytest.raises(ValueError, match="float16 or bfloat16"):
            forward(x.float(), x, x)
        with pytest.raises(ValueError, match="v must have shape"):
            forward(x, x, x[:, :, :4])
        with pytest.raises(ValueError, match="k must be torch.float16"):
            forward(x, x.bfloat16(), x)


NAMES = {  # of TMA's copies: up to Triton 3.8, and later
    "older": ("async_copy_global_to_shared", "async_copy_shared_to_global"),
    "newer": ("async_load", "async_store"),
}


@pytest.mark.core
@pytest.mark.parametrize("names", NAMES)
def test_the_shim_takes_the_names_that_this_triton_compiles(names):
    load, store = NAMES[names]
    path = Path(gluon_copy.__file__)
    text = path.read_text().replace("tma_load(", f"tma.{load}(")
    text = text.replace("tma_store(", f"tma.{store}(")
    assert text.count(f"tma.{load}(") == text.count(f"tma.{store}(") == 1
    x = torch.zeros(64, 64, dtype=torch.float16)
    [row] = aot.inspect(text, str(path), lambda module: module.copy_rows(x), (90,))
    taken = flash3_prepare.tma_load.__name__, flash3_prepare.tma_store.__name__
    assert row.ok == (taken == (load, store))  # one pair compiles, the other is there or raises
    assert row.ok or load in row.sentence


@pytest.mark.hopper
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("N", [1, 200, 1000, 2100])
@pytest.mark.parametrize("D", [64, 128])
@pytest.mark.parametrize("step", WORKED)
def test_equals_fp64_on_hopper(step, D, N, causal):
    check(VERSIONS[step], (2, 4, 2, N, D), torch.bfloat16, causal, "cuda")
