"""Inputs keep their values and views inside storages full of NaN."""

import pytest
import torch

from flashlab import exercises
from flashlab.grader import trials

BASE = torch.arange(2 * 3 * 5 * 4, dtype=torch.float32).reshape(2, 3, 5, 4)
VIEWS = {
    "contiguous": BASE,
    "permuted": BASE.transpose(1, 2),
    "strided": BASE[..., ::2],
    "offset": BASE[:, 1:],
    "expanded": BASE[:, :1].expand(2, 4, 5, 4),
    "vector": BASE.flatten(),
    "scalar": BASE[0, 0, 0, 0],
    "empty": BASE[:0],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.int32, torch.float8_e4m3fn]
)
def test_padded_keeps_values_and_surrounds_them(name: str, dtype: torch.dtype) -> None:
    x = VIEWS[name].to(dtype)
    if name not in ("contiguous", "vector", "scalar", "empty"):
        flat = torch.empty(512, dtype=dtype)
        x = flat.as_strided(VIEWS[name].shape, VIEWS[name].stride(), VIEWS[name].storage_offset())
        one = tuple(slice(0, 1) if s == 0 else slice(None) for s in x.stride())
        x[one].copy_(VIEWS[name][one].to(dtype))
    got = trials.padded(x)

    assert torch.equal(got.float(), x.float())
    if x.dim() >= 2 and x.is_contiguous() and x.numel():
        assert got.stride(-2) == x.shape[-1] + trials.PAD
    else:
        assert got.stride() == x.stride()
    assert got.storage_offset() == trials.GUARD
    storage = torch.empty(0, dtype=dtype).set_(got.untyped_storage())
    guard = storage[: trials.GUARD].float()
    assert bool(guard.isnan().all()) if dtype.is_floating_point else bool((guard > 1e9).all())


def test_a_trial_is_made_once_and_holds_what_was_asked() -> None:
    exercise = exercises.get("flash_forward")
    case, tiles = exercise.case("ragged-keys"), exercise.tiles(1)
    made = trials.trial(exercise, case, tiles)

    assert made is trials.trial(exercise, case, tiles)
    assert made is not trials.trial(exercise, case, exercise.tiles(0))
    assert set(made.reference) == {"o", "lse"}
    assert all(t.dtype == torch.float64 for t in made.reference.values())
    assert all(torch.equal(made.sent[n], made.arguments[n]) for n in ("q", "k", "v"))


def test_tf32_widens_the_limits_of_fp32_on_a_gpu() -> None:
    exercise = exercises.get("flash_forward")
    case, tiles = exercise.case("fp32"), exercise.tiles(0)
    cpu = trials.trial(exercise, case, tiles)
    gpu = trials.trial(exercise, case, tiles, tier="gpu")

    assert gpu.limits["o"].limit > 100 * cpu.limits["o"].limit
