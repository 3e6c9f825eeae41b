"""Every target: instructions, sizes, what does not fit, and the table."""

import torch

from flashlab import aot, hardware
from flashlab.loading import load_module


def test_every_target_gets_its_instructions(rows):
    found = {row.arch: row for row in rows(archs=aot.ARCHS)}
    assert all(row.ok and row.registers and row.shared_bytes for row in found.values())
    assert found[75].counts["mma"] == 0  # no tensor cores for a T4 since Triton 3.4
    assert any("without tensor cores" in note for note in found[75].notes)
    for arch in (80, 86, 89, 120):
        counts = found[arch].counts
        assert counts["mma"] == 64 and counts["cp_async"] > 0 and counts["ldmatrix"] > 0
    assert found[90].counts["wgmma"] == 8 and found[90].counts["mma"] == 0
    assert found[100].counts["tcgen05"] > 0 and found[100].counts["mbarrier"] > 0
    assert found[80].shared_bytes == 24576 and found[80].threads == 128


def test_divisibility_decides_on_asynchronous_copies(rows, flash_text):
    (aligned,) = rows()
    (odd,) = rows(text=flash_text.replace("*q.stride()", "72, 1"))  # as on a padded view
    assert aligned.counts["cp_async"] > 0
    assert odd.counts["cp_async"] < aligned.counts["cp_async"]


def test_equal_launches_are_compiled_once(flash_text):
    module = load_module(flash_text, "flash.py")
    q = torch.empty(256, 64, dtype=torch.float16)
    launches = aot.capture(lambda: [module.flash(x) for x in (q, q[:128], q)])
    assert len(launches) == 3
    assert len(aot.compile_launches(flash_text, "flash.py", launches, (80,))) == 1


def test_a_tile_that_does_not_fit_is_said_with_what_to_do(rows):
    a100, hopper = rows(d=128, archs=(80, 90), BLOCK_M=128, BLOCK_N=256, STAGES=3, WARPS=8)
    assert not a100.ok and a100.error == "too big"
    assert a100.shared_bytes > hardware.SHARED_PER_BLOCK[80]
    assert a100.sentence.startswith("flash_kernel needs ")
    assert a100.sentence.endswith(
        "of shared memory; a block on an A100 has 163 KB: halve BLOCK_N or use one stage less"
    )
    assert hopper.shared_bytes > a100.shared_bytes


def test_spills_are_reported(rows):
    (row,) = rows(d=128, BLOCK_M=128, BLOCK_N=128, STAGES=1, WARPS=4)
    assert row.ok and row.spill_bytes > 0 and row.stack_bytes > 0
    assert any(note.startswith("spills registers") for note in row.notes)


def test_too_many_warps_and_a_misspelt_option(rows):
    (row,) = rows(WARPS=64)
    assert not row.ok and "2048 threads; a block has at most 1024" in row.sentence
    (row,) = rows(options={"num_warp": 8})
    assert row.error == "refused" and row.sentence.endswith("did you mean num_warps?")


def test_the_table_names_sizes_and_sentences(rows, flash_text):
    text = aot.table(rows(archs=(80, 90)))
    head, first, *_ = text.splitlines()
    assert head.split()[:5] == ["kernel", "target", "shared", "limit", "registers"]
    assert first.split()[:4] == ["flash_kernel", "sm_80", "24,576", "166,912"]
    broken = aot.table(rows(archs=(80, 90), text=flash_text.replace("m_i = m_new", "break")))
    assert broken.count("refused") == 2
    assert broken.splitlines()[-1].startswith("sm_80, sm_90: line ")


def test_launches_that_differ_are_told_apart_in_the_table(flash_text):
    def call(module):
        for module.BLOCK_N in (32, 64):
            module.flash(torch.empty(64, 64, dtype=torch.float16))

    text = aot.table(aot.inspect(flash_text, "flash.py", call, (80,)))
    assert "flash_kernel(BLOCK_N=32)  sm_80" in text and "flash_kernel(BLOCK_N=64)  sm_80" in text
