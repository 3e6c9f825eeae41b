"""Instructions that a compiled kernel has to hold, or may not, whatever its numbers say."""

import pytest
import torch

from flashlab import aot, exercises, sources
from flashlab.aot.build import count
from flashlab.exercises.fp8_inputs import fp8_inputs
from flashlab.grader import inspection
from flashlab.grader.report import Report


def row(arch, **counts):
    return {"arch": arch, "ok": True, "counts": counts}


def inspected(slug, *rows):
    report = Report(slug, "cpu", "pass", "", resources=list(rows))
    inspection.inspect(exercises.get(slug), report)
    return report


def test_a_kernel_of_pointers_is_no_answer_to_tma_forward():
    report = inspected("tma_forward", row(80), row(90, wgmma=5), row(100))
    assert report.status == "contract"
    assert report.headline.endswith("has no tma instruction; use tl.make_tensor_descriptor.")


def test_one_of_several_kernels_has_to_use_descriptors():
    assert inspected("tma_forward", row(80), row(90, tma=3), row(90)).status == "pass"


def test_without_a_row_of_hopper_nothing_is_known():
    assert inspected("tma_forward", row(80), row(86)).status == "pass"
    assert inspected("tma_forward").status == "pass"


def test_products_of_fp16_are_no_answer_to_fp8_forward():
    assert inspected("fp8_forward", row(90, wgmma=4, half=0)).status == "pass"
    report = inspected("fp8_forward", row(90, wgmma=4, half=2))
    assert report.status == "contract" and "are not FP8" in report.headline


@pytest.mark.parametrize(
    ("ptx", "half"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {", 1),
        ("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {", 1),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {", 1),
        ("tcgen05.mma.cta_group::1.kind::f16 [", 1),
        ("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16 {", 0),
        ("wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {", 0),
        ("tcgen05.mma.cta_group::1.kind::f8f6f4 [", 0),
    ],
)
def test_products_are_told_apart_by_their_factors(ptx, half):
    assert count(ptx)["half"] == half


def test_scores_in_fp16_show_in_what_is_compiled():
    """They are the same numbers, since fp16 holds every e4m3 number: no case can tell."""
    text = sources.solution_text("fp8_forward")
    narrow = "s = tl.dot(q8, tl.trans(k8))"
    wide = "s = tl.dot(q8.to(tl.float16), tl.trans(k8).to(tl.float16))"
    sizes = {"B": 1, "H": 1, "N_q": 64, "N_k": 64, "D": 32, "block_rows": 64}
    call = fp8_inputs(sizes, torch.float32, torch.Generator().manual_seed(0))
    for answer, some in ((text, False), (text.replace(narrow, wide), True)):
        rows = aot.inspect(answer, "fp8.py", lambda m: m.fp8_forward(**call), (90,))
        assert rows and all(r.ok and bool(r.counts["half"]) == some for r in rows)
