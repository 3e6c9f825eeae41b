"""Data sheet rows of the GPUs that the course names, their limits, and the roofline. Floor: core.

Peaks are dense (data sheets often print the 2:4-sparse figure, twice as much), with fp32
accumulation. Where a row was assembled from several sources they are all named in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

REGISTERS_PER_SM = 65536  # 32-bit registers, every NVIDIA GPU here
MAX_REGISTERS_PER_THREAD = 255
MAX_THREADS_PER_BLOCK = 1024
SHARED_BYTES_PER_CLOCK = 128  # of one SM: 32 banks of 4 bytes (CUDA C++ Programming Guide)
TENSOR_MEMORY_COLUMNS = 512  # columns of 128 x 32 bits per SM, compute capability 10.x

# Bytes of shared memory per SM and per block by compute capability: CUDA C++ Programming Guide,
# "Technical specifications per compute capability". From 8.0 on the system keeps 1 KB a block.
SHARED_PER_SM = {
    70: 96 << 10,
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
SHARED_PER_BLOCK = {cc: size if cc < 80 else size - 1024 for cc, size in SHARED_PER_SM.items()}

# A well-known GPU of each compute capability, for sentences.
EXAMPLES = {
    70: "a V100",
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
        capability: Compute capability as an int (80 is 8.0); 0 where there is none (AMD).
        tflops: Dense peak by dtype in TFLOP/s; a dtype without tensor cores is absent.
        bandwidth_gbs: Device memory bandwidth in GB/s (10^9 bytes).
        memory_gb, l2_mb: Capacities.
        sms, clock_mhz: Streaming multiprocessors (AMD: compute units); the clock behind the peaks.
        source: Where the numbers were read.
        unconfirmed: Fields not read in a source that quotes the maker.
        shared_kb, register_kb: On-chip memory of one SM in KB; 0: what the capability says.
        l2_bytes_per_clock: What the L2 hands out in a clock; 0: the course has no source.
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
    shared_kb: int = 0
    register_kb: int = 4 * REGISTERS_PER_SM >> 10
    l2_bytes_per_clock: int = 0

    @property
    def shared_per_sm(self) -> int:
        """Bytes of shared memory of one SM."""
        return self.shared_kb << 10 or SHARED_PER_SM[self.capability]

    @property
    def shared_per_block(self) -> int:
        """Bytes of shared memory that one block (one Triton program) may have."""
        return self.shared_kb << 10 or SHARED_PER_BLOCK[self.capability]

    @property
    def registers_per_sm(self) -> int:
        """32-bit registers of one SM."""
        return REGISTERS_PER_SM

    @property
    def sram_bytes(self) -> int:
        """Registers and shared memory of one SM: the most that can live on chip beside it."""
        return (self.register_kb << 10) + self.shared_per_sm

    @property
    def shared_bandwidth_gbs(self) -> float:
        """GB/s of all shared memories together: 32 banks of 4 bytes an SM and clock."""
        return SHARED_BYTES_PER_CLOCK * self.sms * self.clock_mhz / 1e3

    @property
    def l2_bandwidth_gbs(self) -> float | None:
        """GB/s that the L2 hands out; None where the course has no source."""
        return self.l2_bytes_per_clock * self.clock_mhz / 1e3 or None

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


# L2: Table 3 of PMC10448217 gives 3133, 7219 and 8986 GB/s for a V100, A100 and H100 at 1530, 1410
# and 1755 MHz: 2048, 5120 and 5120 bytes a clock. An H200 has the die of an H100.
_V100_L2, _A100_L2, _H100_L2 = 2048, 5120, 5120
_ML = "stas00/ml-engineering, accelerator chapter"
_HOPPER = f"FlashAttention-3 paper, Table 1 and section 2; {_ML}"
GPUS = {
    "V100": Gpu(
        "V100 SXM2", 70, _tensor(125, fp32=15.7, bf16=False), 900, 32, 6, 80, 1530,
        "V100 data sheet as quoted by winston-zhang-orz/gpu-specs; clock, L2 and shared memory "
        "from Table 3 of PMC10448217; SMs from lijun99/GPU-Resources",
        l2_bytes_per_clock=_V100_L2,
    ),
    "T4": Gpu(
        "T4", 75, _tensor(65, fp32=8.1, bf16=False), 320, 16, 4, 40, 1590,
        "T4 data sheet as quoted by winston-zhang-orz/gpu-specs and pcpartcomparison.com",
        ("l2_mb",),
    ),
    "A100-40": Gpu(
        "A100 40 GB SXM", 80, _tensor(312, fp32=19.5, tf32=156), 1555, 40, 40, 108, 1410,
        f"A100 data sheet as quoted by glennklockwood.com/garden/processors/A100; {_ML}",
        l2_bytes_per_clock=_A100_L2,
    ),
    "A100-80": Gpu(
        "A100 80 GB SXM", 80, _tensor(312, fp32=19.5, tf32=156), 2039, 80, 40, 108, 1410,
        f"A100 data sheet as quoted by glennklockwood.com/garden/processors/A100; {_ML}",
        l2_bytes_per_clock=_A100_L2,
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
        ("clock_mhz",), l2_bytes_per_clock=_H100_L2,
    ),
    "H100-SXM": Gpu(
        "H100 SXM", 90, _tensor(989, fp32=67, tf32=494, fp8=1979), 3350, 80, 50, 132, 1830,
        _HOPPER, l2_bytes_per_clock=_H100_L2,
    ),
    "H200": Gpu(
        "H200 SXM", 90, _tensor(989, fp32=67, tf32=494, fp8=1979), 4800, 141, 50, 132, 1830,
        f"H200 data sheet (halved where it prints sparse figures); {_ML}",
        l2_bytes_per_clock=_H100_L2,
    ),
    "B200": Gpu(
        "B200 SXM", 100, _tensor(2250, fp32=80, tf32=1125, fp8=4500), 8000, 180, 126, 148, 1965,
        f"{_ML}; FlashAttention-4 paper (peak)",
        ("sms", "tflops[tfloat32]"),
    ),
    "MI300X": Gpu(
        "MI300X", 0, _tensor(1307, fp32=163.4, tf32=654, fp8=2615), 5300, 192, 32, 304, 2100,
        f"MI300X data sheet as quoted by {_ML}; local data share of 64 KB a unit and L2 of 4 MB a "
        "die, 8 dies: ROCm documentation, AMD GPU specifications",
        ("register_kb", "tflops[tfloat32]"), shared_kb=64, register_kb=512,
    ),
}  # fmt: skip

# How torch.cuda.get_device_name spells them: every word must occur; first match wins.
_DEVICE_NAMES = (
    (("V100", "SXM2"), "V100"),
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
