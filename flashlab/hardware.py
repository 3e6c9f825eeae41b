"""Data sheet rows of the GPUs that the course names, their limits, and the roofline. Floor: core.

Peaks are dense (data sheets often print the 2:4-sparse figure, twice as much), with fp32
accumulation. Where a row was assembled from several sources they are all named in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

REGISTERS_PER_SM = 65536  # 32-bit registers, every NVIDIA GPU here
MAX_REGISTERS_PER_THREAD = 255
MAX_THREADS_PER_BLOCK = 1024
TENSOR_MEMORY_COLUMNS = 512  # columns of 128 x 32 bits per SM, compute capability 10.x

# Bytes of shared memory per SM and per block by compute capability: CUDA C++ Programming Guide,
# "Technical specifications per compute capability". From 8.0 on the system keeps 1 KB a block.
SHARED_PER_SM = {
    75: 64 << 10,
    80: 164 << 10,
    86: 100 << 10,
    89: 100 << 10,
    90: 228 << 10,
    100: 228 << 10,
    103: 228 << 10,
    120: 100 << 10,
    121: 100 << 10,
}
SHARED_PER_BLOCK = {cc: size if cc == 75 else size - 1024 for cc, size in SHARED_PER_SM.items()}

# A well-known GPU of each compute capability, for sentences.
EXAMPLES = {
    75: "a T4",
    80: "an A100",
    86: "an RTX 3090 or A10",
    89: "an RTX 4090 or L4",
    90: "an H100 or H200",
    100: "a B200",
    103: "a B300",
    120: "an RTX 5090",
    121: "a GB10",
}


@dataclass(frozen=True)
class Gpu:
    """One row of the data sheet.

    Args:
        name: What people call it.
        capability: Compute capability as an int (80 is 8.0).
        tflops: Dense peak by dtype in TFLOP/s; a dtype without tensor cores is absent.
        bandwidth_gbs: Device memory bandwidth in GB/s (10^9 bytes).
        memory_gb, l2_mb: Capacities.
        sms, clock_mhz: Streaming multiprocessors; the clock behind the peaks.
        source: Where the numbers were read.
        unconfirmed: Fields not read in a source that quotes NVIDIA.
    """

    name: str
    capability: int
    tflops: Mapping[str, float]
    bandwidth_gbs: float
    memory_gb: float
    l2_mb: float
    sms: int
    clock_mhz: int
    source: str
    unconfirmed: tuple[str, ...] = ()

    @property
    def shared_per_sm(self) -> int:
        """Bytes of shared memory of one SM."""
        return SHARED_PER_SM[self.capability]

    @property
    def shared_per_block(self) -> int:
        """Bytes of shared memory that one block (one Triton program) may have."""
        return SHARED_PER_BLOCK[self.capability]

    @property
    def registers_per_sm(self) -> int:
        """32-bit registers of one SM."""
        return REGISTERS_PER_SM

    @property
    def sram_bytes(self) -> int:
        """Registers and shared memory of one SM: the most that can live on chip beside it."""
        return 4 * REGISTERS_PER_SM + self.shared_per_sm

    def peak(self, dtype: str = "float16") -> float:
        """FLOP/s of ``dtype`` (torch's name); KeyError names those there are."""
        if dtype not in self.tflops:
            known = ", ".join(self.tflops)
            raise KeyError(f"{self.name} has no {dtype} peak here; it has {known}")
        return self.tflops[dtype] * 1e12

    def ridge(self, dtype: str = "float16") -> float:
        """FLOPs per byte from which the peak of ``dtype``, not memory, is the limit."""
        return self.peak(dtype) / (self.bandwidth_gbs * 1e9)


def _tensor(half: float, *, fp32: float, tf32: float = 0.0, bf16: bool = True, fp8: float = 0.0):
    peaks = {"float32": fp32, "tfloat32": tf32, "float16": half, "bfloat16": half * bf16}
    peaks["float8_e4m3fn"] = fp8
    return {dtype: value for dtype, value in peaks.items() if value}


_ML = "stas00/ml-engineering, accelerator chapter"
_HOPPER = f"FlashAttention-3 paper, Table 1 and section 2; {_ML}"
GPUS = {
    "T4": Gpu(
        "T4", 75, _tensor(65, fp32=8.1, bf16=False), 320, 16, 4, 40, 1590,
        "T4 data sheet as quoted by winston-zhang-orz/gpu-specs and pcpartcomparison.com",
        ("l2_mb",),
    ),
    "A100-40": Gpu(
        "A100 40 GB SXM", 80, _tensor(312, fp32=19.5, tf32=156), 1555, 40, 40, 108, 1410,
        f"A100 data sheet as quoted by glennklockwood.com/garden/processors/A100; {_ML}",
    ),
    "A100-80": Gpu(
        "A100 80 GB SXM", 80, _tensor(312, fp32=19.5, tf32=156), 2039, 80, 40, 108, 1410,
        f"A100 data sheet as quoted by glennklockwood.com/garden/processors/A100; {_ML}",
    ),
    "L4": Gpu(
        "L4", 89, _tensor(121, fp32=30.3, tf32=60, fp8=242), 300, 24, 48, 58, 2040,
        "L4 data sheet (halved where it prints sparse figures) as quoted by "
        "winston-zhang-orz/gpu-specs; clock, SMs and cache from fpsbench.com",
    ),
    "RTX-4090": Gpu(
        "RTX 4090", 89, _tensor(165.2, fp32=82.6, tf32=82.6, fp8=330.3), 1008, 24, 72, 128, 2520,
        "Ada whitepaper as quoted in public repositories (fp32 accumulation: half the fp16 rate)",
        ("l2_mb", "tflops[tfloat32]"),
    ),
    "H100-PCIe": Gpu(
        "H100 PCIe", 90, _tensor(756, fp32=51, tf32=378, fp8=1513), 2000, 80, 50, 114, 1620,
        f"H100 data sheet (halved where it prints sparse figures); {_ML}",
        ("clock_mhz",),
    ),
    "H100-SXM": Gpu(
        "H100 SXM", 90, _tensor(989, fp32=67, tf32=494, fp8=1979), 3350, 80, 50, 132, 1830,
        _HOPPER,
    ),
    "H200": Gpu(
        "H200 SXM", 90, _tensor(989, fp32=67, tf32=494, fp8=1979), 4800, 141, 50, 132, 1830,
        f"H200 data sheet (halved where it prints sparse figures); {_ML}",
    ),
    "B200": Gpu(
        "B200 SXM", 100, _tensor(2250, fp32=80, tf32=1125, fp8=4500), 8000, 180, 126, 148, 1965,
        f"{_ML}; FlashAttention-4 paper (peak)",
        ("sms", "tflops[tfloat32]"),
    ),
}  # fmt: skip

# How torch.cuda.get_device_name spells them: every word must occur; first match wins.
_DEVICE_NAMES = (
    (("A100", "80GB"), "A100-80"),
    (("A100", "40GB"), "A100-40"),
    (("H100", "PCIe"), "H100-PCIe"),
    (("H100",), "H100-SXM"),
    (("H200",), "H200"),
    (("B200",), "B200"),
    (("RTX", "4090"), "RTX-4090"),
    (("T4",), "T4"),
    (("L4",), "L4"),
)


def find(device_name: str) -> Gpu | None:
    """The row of the GPU that torch calls ``device_name``, or None if the course has none."""
    words = set(device_name.replace("-", " ").split())
    if words & {"Laptop", "Max", "MIG"}:  # other chips or slices under a known name
        return None
    for needed, key in _DEVICE_NAMES:
        if set(needed) <= words:
            return GPUS[key]
    return None


def roofline(peak: float, bandwidth: float, intensity: float) -> float:
    """Attainable FLOP/s = min(peak, bandwidth * intensity) (Williams et al., 2009).

    Args:
        peak: FLOP/s of the arithmetic unit used.
        bandwidth: bytes/s of the memory the intensity is counted against.
        intensity: FLOPs per byte moved.
    """
    return min(peak, bandwidth * intensity)
