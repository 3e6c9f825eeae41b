"""What is said of a learner's own attention matrix."""

from types import SimpleNamespace

import pytest
import torch

from flashlab import exercises
from flashlab.grader import attention_matrix, trials
from flashlab.grader.attention_matrix import describe


def test_attention_matrix_names_a_key_that_must_stay_hidden():
    right = torch.eye(4)
    leak = right.clone()
    leak[1, 1], leak[1, 3] = 0.5, 0.5
    assert describe(right, right) == []
    assert describe(leak, right) == ["Query 1 gives weight 0.50 to key 3, which it must not see."]


@pytest.mark.parametrize("slug", exercises.SYLLABUS)
def test_what_is_asked_of_an_attention_kernel_keeps_to_its_contract(slug):
    exercise = exercises.get(slug)
    case, tiles = exercise.cases[0], exercise.tiles(exercise.cases[0].pairs[0])
    trial = trials.trial(exercise, case, tiles)
    run = SimpleNamespace(
        case=case, tiles=tiles, inputs=trial.arguments, reference=trial.reference,
        result=SimpleNamespace(sizes=trial.sizes),
    )  # fmt: skip
    if not attention_matrix._is_attention(run):
        pytest.skip("nothing is asked of it: its inputs are not q, k and v of four dimensions")
    for side in attention_matrix.SIDES:
        made = attention_matrix._call(exercise, run, side)
        if made is not None:
            asked, inputs, expected = made
            trial = trials.trial(exercise, asked, tiles)  # its reference refuses wrong sizes
            trial = trials.with_inputs(exercise, asked, tiles, inputs, trial.sizes)
            o = trial.reference["o"][0, 0, :, :side]
            assert torch.allclose(o, expected.to(o.dtype), atol=1e-3)
