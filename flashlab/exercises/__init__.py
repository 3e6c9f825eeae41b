"""The syllabus: every exercise in the order in which the course meets it. Floor: course."""

import difflib
import importlib

from flashlab.exercise import Exercise

SYLLABUS = (
    "vector_scale",
    "attention_cost",
    "triad",
    "row_softmax",
    "tiled_matmul",
    "online_softmax",
    "merge_partials",
    "flash_forward_tiles",
    "flash_forward",
    "io_cost",
    "choose_blocks",
    "block_sparse_forward",
    "backward_delta",
    "flash_backward_dkdv",
    "flash_backward_dq",
    "flash_dropout",
    "flash2_forward",
    "flash2_backward",
    "pipeline_schedule",
    "tma_forward",
    "flash3_forward",
    "hadamard",
    "quantize_fp8",
    "fp8_forward",
    "split_kv_decode",
    "varlen_forward",
    "paged_decode",
    "ring_attention",
)


def get(slug: str) -> Exercise:
    """The exercise called ``slug``; KeyError with a sentence that suggests the nearest one."""
    if slug not in SYLLABUS:
        near = difflib.get_close_matches(slug, SYLLABUS, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(SYLLABUS)}"
        raise KeyError(f"no exercise is called {slug!r}; {hint}")
    return importlib.import_module(f"flashlab.exercises.{slug}").EXERCISE
