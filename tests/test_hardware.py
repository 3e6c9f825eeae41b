"""The data sheet: complete rows, limits, lookup by device name, roofline."""

import pytest

from flashlab import hardware
from flashlab.hardware import GPUS, SHARED_PER_BLOCK, find, roofline


def test_a_block_of_an_a100_and_an_h100_has_what_triton_reports():
    # OutOfResources texts in pytorch issues 133254 and 132075 name these limits.
    assert SHARED_PER_BLOCK[80] == 166912
    assert SHARED_PER_BLOCK[89] == 101376
    assert SHARED_PER_BLOCK[90] == 232448


@pytest.mark.parametrize("key", GPUS)
def test_every_row_is_whole_and_cites_its_source(key):
    gpu = GPUS[key]
    assert gpu.source
    known = gpu.capability in SHARED_PER_BLOCK and gpu.capability in hardware.EXAMPLES
    assert known or (gpu.capability == 0 and gpu.shared_kb)  # AMD has no compute capability
    assert 0 < gpu.shared_per_block <= gpu.shared_per_sm < gpu.sram_bytes
    assert gpu.peak("float16") > gpu.peak("float32")
    assert gpu.bandwidth_gbs > 0 and gpu.sms > 0 and gpu.l2_mb > 0
    assert {f.split("[")[0] for f in gpu.unconfirmed} <= set(gpu.__dataclass_fields__)


@pytest.mark.parametrize(
    ("key", "dtype", "ridge"),
    [("A100-40", "float16", 201), ("H100-SXM", "bfloat16", 295), ("H200", "float16", 206)]
    + [("H200", "float8_e4m3fn", 412), ("B200", "bfloat16", 281)],
)
def test_ridge_points_are_the_published_ones(key, dtype, ridge):
    assert GPUS[key].ridge(dtype) == pytest.approx(ridge, abs=0.6)


def test_fp16_fma_peaks_follow_from_sms_and_clock():
    # tensor-core multiply-adds per SM and clock: 512 on a V100, 1024 on an A100, 2048 on a H100
    for key, per_clock in (("V100", 1024), ("A100-80", 2048), ("H100-SXM", 4096)):
        gpu = GPUS[key]
        derived = per_clock * gpu.sms * gpu.clock_mhz * 1e6
        assert derived == pytest.approx(gpu.peak("float16"), rel=0.01)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA A100-SXM4-80GB", "A100-80"),
        ("NVIDIA A100-SXM4-40GB", "A100-40"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("Tesla T4", "T4"),
        ("NVIDIA L4", "L4"),
    ],
)
def test_find_knows_the_name_that_torch_gives(name, key):
    assert find(name) is GPUS[key]


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA L40S",
        "Tesla V100-PCIE-16GB",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "Quadro RTX 4000",
        "NVIDIA GB200",
    ],
)
def test_find_does_not_guess(name):
    assert find(name) is None


def test_bandwidths_on_chip_are_the_published_ones():
    # FlashAttention paper, section 2.1 (19 TB/s); PMC10448217, Table 3 (7219 GB/s)
    assert GPUS["A100-40"].shared_bandwidth_gbs == pytest.approx(19_000, rel=0.03)
    assert GPUS["A100-40"].l2_bandwidth_gbs == pytest.approx(7219, rel=0.001)
    assert GPUS["L4"].l2_bandwidth_gbs is None


def test_roofline_has_two_roofs_that_meet_at_the_ridge():
    gpu = GPUS["A100-80"]
    peak, bandwidth = gpu.peak("float16"), gpu.bandwidth_gbs * 1e9
    assert roofline(peak, bandwidth, 1) == bandwidth
    assert roofline(peak, bandwidth, 1000) == peak
    assert roofline(peak, bandwidth, gpu.ridge()) == pytest.approx(peak)


def test_an_unknown_dtype_names_those_there_are():
    with pytest.raises(KeyError, match="T4 has no bfloat16 peak here; it has float32, float16"):
        GPUS["T4"].peak("bfloat16")
