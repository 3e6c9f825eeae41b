"""A loss of precision gets a cause in words, and numbers that differ."""

import math

import pytest
import torch

from flashlab import exercises, numerics, sources
from flashlab.grader import precision, trials
from flashlab.grader.bank import Raw, Run
from flashlab.grader.report import CaseResult

KERNEL = """
import triton
import triton.language as tl


@triton.jit
def kernel(q_ptr, sm_scale):
    {}
"""


def run(output="o", dtype="float16"):
    case = next(c for c in exercises.get("flash_forward").cases if c.dtype == dtype)
    result = CaseResult(case.name, case.group, {}, {}, "precision", output=output)
    return Run(case, {}, result, Raw("ran"), {})


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("acc = tl.zeros([16, 16], dtype=tl.float16)", "starts a sum in tl.float16"),
        ("acc = tl.full([16], 0.0, tl.bfloat16)", "starts a sum in tl.bfloat16"),
        ("s = tl.dot(q, k, out_dtype=tl.float16)", "out_dtype=tl.float16 adds up in it"),
        ("s = tl.dot(q, k, input_precision='tf32')", "TF32 keeps 10 bits"),
        ("s = tl.dot(q, k, allow_tf32=True)", "TF32 keeps 10 bits"),
        ("q = q * sm_scale", "`q * sm_scale` is rounded to the dtype of q"),
        ("acc = (acc * alpha).to(tl.float16)", "`acc` is rounded to tl.float16 on its way"),
        ("p = tl.exp2(s * 1.4427)", "1.4427 has too few digits of log2(e), which is 1.442695041"),
        ("lse = m * 0.69", "0.69 has too few digits of ln 2"),
    ],
)
def test_suspicious_lines_are_named(line, words):
    [said] = precision.causes(KERNEL.format(line), [run()])
    assert said.startswith("Line 8: ") and words in said


@pytest.mark.parametrize(
    "line",
    [
        "acc = tl.dot(p.to(v.dtype), v, acc, input_precision='ieee')",
        "p = p.to(v.dtype)",
        f"p = tl.exp2(s * {1 / math.log(2)!r})",
    ],
)
def test_what_careful_kernels_do_is_not_suspected(line):
    said = precision.causes(KERNEL.format(line), [run()])
    assert said == [precision.USUAL]


def test_without_a_suspect_the_usual_reasons_are_given():
    text = KERNEL.format("pass")
    assert precision.causes(text, [run("lse")]) == [precision.LSE_ONLY]
    assert precision.causes(text, [run(dtype="float32")]) == [precision.USUAL_FP32]


@pytest.mark.parametrize("slug", exercises.SYLLABUS)
def test_the_solutions_hold_no_suspect(slug):
    assert precision.causes(sources.solution_text(slug), []) == []


def test_the_sentence_says_how_far_outside():
    limit = numerics.Limit(0.001, 0.001, 0.008)
    one = torch.ones(1, 1, 4, 4, dtype=torch.float64)
    [found] = numerics.compare({"o": one * 1.0025}, {"o": one}, {"o": limit})
    assert found.status == "precision"
    assert found.sentence == "o is off by 0.0025, 2.5 times the allowed 0.001"


@pytest.mark.parametrize(
    ("slug", "output", "words"),
    [("quantize_fp8", "x8", "x8 has to hold the FP8 numbers nearest"),
     ("hadamard", "y", "from a tile that is rounded on its way")],
)  # fmt: skip
def test_usual_causes_speak_of_what_the_exercise_has(slug, output, words):
    exercise = exercises.get(slug)
    case = exercise.case("bf16")
    made = trials.trial(exercise, case, exercise.tiles(0))
    result = CaseResult(case.name, case.group, {}, {}, "precision", output=output)
    got = {o.name: torch.zeros(2, dtype=getattr(torch, o.dtype, torch.bfloat16))
           for o in exercise.outputs}  # fmt: skip
    raw = Raw("ran", got)
    [said] = precision.causes("", [Run(case, {}, result, raw, made.reference, made.arguments)])
    assert words in said and " q" not in said
