"""Offline compilation: launches as data, every target, refusals in words, a sturdy worker."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from flashlab import aot, hardware
from flashlab.aot.build import load
from flashlab.aot.launch import decode, encode

pytestmark = pytest.mark.core

FLASH = """
import torch
import triton
import triton.language as tl

BLOCK_M, BLOCK_N, STAGES, WARPS = 64, 64, 2, 4


@triton.jit
def flash_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, bias_ptr, stride_m, stride_d, N, scale,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * stride_m + cols * stride_d, rows[:, None] < N, 0.0)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start in range(0, N, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        where = keys[:, None] * stride_m + cols * stride_d
        k = tl.load(k_ptr + where, keys[:, None] < N, 0.0)
        v = tl.load(v_ptr + where, keys[:, None] < N, 0.0)
        s = tl.where(keys < N, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp(s - m_new[:, None])
        alpha = tl.exp(m_i - m_new)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_new
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + cols)
    o = (acc / l_i[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + rows[:, None] * stride_m + cols * stride_d, o, rows[:, None] < N)


def flash(q, bias=None, **options):
    o = torch.empty_like(q)
    N, D = q.shape
    options = {"num_warps": WARPS, "num_stages": STAGES, **options}
    flash_kernel[(triton.cdiv(N, BLOCK_M),)](
        q, q, q, o, bias, *q.stride(), N, D**-0.5, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, D=D, **options
    )
    return o
"""


def flash(n=1024, d=64, archs=(80,), text=FLASH, **settings):
    """Rows of the flash kernel at module settings such as BLOCK_M=128."""
    q = torch.empty(n, d, dtype=settings.pop("dtype", torch.float16))
    options = settings.pop("options", {})

    def call(module):
        vars(module).update(settings)
        module.flash(q, **options)

    return aot.inspect(text, "flash.py", call, archs)


# ------------------------------------------------------------------ launches as data


def test_a_launch_is_described_as_a_launch_would_be():
    module = load(FLASH, "flash.py")
    q = torch.empty(1040, 64, dtype=torch.float16)
    (launch,) = aot.capture(lambda: module.flash(q))
    assert launch.kernel == "flash_kernel" and launch.grid == (17,)
    assert launch.signature["q_ptr"] == "*fp16" and launch.signature["scale"] == "fp32"
    assert launch.signature["stride_m"] == launch.signature["N"] == "i32"
    assert launch.signature["bias_ptr"] == "constexpr"  # None
    assert launch.signature["stride_d"] == "constexpr"  # the int 1
    assert dict(launch.constexprs)[(4,)] is None and dict(launch.constexprs)[(6,)] == 1
    assert launch.constants == {"BLOCK_M": 64, "BLOCK_N": 64, "D": 64}
    assert launch.divisible == ((0,), (1,), (2,), (3,), (5,), (7,))  # N = 1040 = 65 * 16
    assert launch.num_warps == 4 and launch.num_stages == 2


def test_ints_are_marked_by_value_and_pointers_always():
    module = load(FLASH, "flash.py")
    padded = torch.empty(1000 * 72 + 3, dtype=torch.float16)[3:].as_strided((1000, 64), (72, 1))
    (launch,) = aot.capture(lambda: module.flash(padded))
    assert launch.divisible == ((0,), (1,), (2,), (3,))  # neither stride 72 nor N = 1000


def test_a_launch_survives_json():
    module = load(FLASH, "flash.py")
    (launch,) = aot.capture(lambda: module.flash(torch.empty(64, 64), torch.empty(64)))
    assert aot.Launch.from_json(json.loads(json.dumps(launch.to_json()))) == launch


def test_constexprs_of_every_kind_survive_json():
    import triton.language as tl

    module = load(FLASH, "flash.py")
    values = [3, 2.5, True, None, "tf32", tl.float16, (1, (tl.int8, 2)), [4, 5]]
    for value in [*values, module.flash_kernel]:
        back = decode(json.loads(json.dumps(encode(value))), vars(module))
        assert back == value or back is value
    assert encode(tl.constexpr(7)) == 7
    with pytest.raises(TypeError, match="a constexpr must be .* not object"):
        encode(object())


def test_descriptors_and_autotuned_kernels_are_captured():
    text = (
        "import torch, triton, triton.language as tl\n"
        "from triton.tools.tensor_descriptor import TensorDescriptor\n"
        "@triton.autotune([triton.Config({'B': 32}, num_warps=2), triton.Config({'B': 64})], [])\n"
        "@triton.jit\n"
        "def copy_kernel(x, y, B: tl.constexpr):\n"
        "    y.store([0, 0], x.load([tl.program_id(0) * B, 0]))\n"
        "def copy(x):\n"
        "    d = TensorDescriptor.from_tensor(x, [32, 16])\n"
        "    copy_kernel[lambda meta: (triton.cdiv(x.shape[0], meta['B']),)](d, d)\n"
    )
    rows = aot.inspect(text, "copy.py", lambda m: m.copy(torch.empty(128, 16)), (80, 90))
    module = load(text, "copy.py")
    (launch,) = aot.capture(lambda: module.copy(torch.empty(128, 16)))
    assert launch.grid == (4,) and launch.num_warps == 2
    assert launch.signature["x"].startswith("tensordesc<fp32[32, 16]")
    assert [r.ok for r in rows] == [True, True]
    assert rows[0].counts["tma"] == 0 and rows[1].counts["tma"] == 2


def test_capture_leaves_triton_as_it_was_also_after_an_error():
    from triton.runtime.jit import JITFunction

    before = JITFunction.run
    with pytest.raises(ZeroDivisionError):
        aot.capture(lambda: 1 / 0)
    assert JITFunction.run is before


# ------------------------------------------------------------------ targets


def test_every_target_gets_its_instructions():
    rows = {row.arch: row for row in flash(archs=aot.ARCHS)}
    assert all(row.ok and row.registers and row.shared_bytes for row in rows.values())
    assert rows[75].counts["mma"] == 0  # no tensor cores for a T4 since Triton 3.4
    assert any("without tensor cores" in note for note in rows[75].notes)
    for arch in (80, 86, 89, 120):
        counts = rows[arch].counts
        assert counts["mma"] == 64 and counts["cp_async"] > 0 and counts["ldmatrix"] > 0
    assert rows[90].counts["wgmma"] == 8 and rows[90].counts["mma"] == 0
    assert rows[100].counts["tcgen05"] > 0 and rows[100].counts["mbarrier"] > 0
    assert rows[80].shared_bytes == 24576 and rows[80].threads == 128


def test_divisibility_decides_on_asynchronous_copies():
    aligned, odd = (
        flash(n=1024)[0],
        flash(n=1024, d=64, text=FLASH.replace("q.stride()", "(72,1)"))[0],
    )
    assert aligned.counts["cp_async"] > 0
    assert odd.counts["cp_async"] == 0 and odd.counts["ld_global"] > aligned.counts["ld_global"]


def test_equal_launches_are_compiled_once():
    module = load(FLASH, "flash.py")
    q = torch.empty(256, 64, dtype=torch.float16)
    launches = aot.capture(lambda: [module.flash(x) for x in (q, q[:128], q)])
    assert len(launches) == 3
    rows = aot.compile_launches(FLASH, "flash.py", launches, (80,))
    assert len(rows) == 1


def test_a_tile_that_does_not_fit_is_said_with_what_to_do():
    rows = flash(d=128, archs=(80, 90), BLOCK_M=128, BLOCK_N=256, STAGES=3, WARPS=8)
    a100 = rows[0]
    assert not a100.ok and a100.error == "too big"
    assert a100.shared_bytes > hardware.SHARED_PER_BLOCK[80]
    assert a100.sentence.startswith("flash_kernel needs ")
    assert a100.sentence.endswith(
        "of shared memory; a block on an A100 has 163 KB: halve BLOCK_N or use one stage less"
    )


def test_spills_are_reported():
    (row,) = flash(d=128, BLOCK_M=128, BLOCK_N=128, STAGES=1, WARPS=4)
    assert row.ok and row.spill_bytes > 0 and row.stack_bytes > 0
    assert any(note.startswith("spills registers") for note in row.notes)


def test_too_many_warps_and_a_misspelt_option():
    (row,) = flash(WARPS=64)
    assert not row.ok and "2048 threads; a block has at most 1024" in row.sentence
    (row,) = flash(options={"num_warp": 8})
    assert row.error == "refused" and row.sentence.endswith("did you mean num_warps?")


def test_the_table_names_sizes_and_sentences():
    text = aot.table(flash(archs=(80, 90)))
    head, first, *_ = text.splitlines()
    assert head.split()[:5] == ["kernel", "target", "shared", "limit", "registers"]
    assert first.split()[:4] == ["flash_kernel", "sm_80", "24,576", "166,912"]
    broken = aot.table(flash(archs=(80, 90), text=FLASH.replace("m_i = m_new", "break")))
    assert broken.count("refused") == 2
    assert broken.splitlines()[-1].startswith("sm_80, sm_90: line ")


# ------------------------------------------------------------ what only the interpreter takes

# kernel body -> part of the sentence; the line with "#!" is the one that must be named
SINS = {
    "break": ("for i in range(0, N):\n if i > 5:\n  break #!", "no `break`"),
    "continue": ("for i in range(0, N):\n if i > 5:\n  continue #!", "no `continue`"),
    "append": ("parts = []\nparts.append(1) #!", "list.append"),
    "global_int": ("tl.store(x_ptr, SCALE) #!", "may not read the global SCALE"),
    "helper": ("i = tl.arange(0, B)\ntl.store(x_ptr + i, helper(i)) #!", "cannot call helper"),
    "torch_function": ("i = tl.arange(0, B)\ny = torch.exp(i) #!", "cannot call exp"),
    "loop_type": (
        "acc = 0\nfor i in range(0, N): #!\n acc += tl.load(x_ptr + i)",
        "acc starts the loop as int32 and leaves an iteration as fp16",
    ),
    "loop_tile": (
        "acc = tl.zeros([B], tl.float16)\nfor i in range(0, N): #!\n acc = acc + i * 1.5\n"
        " acc = acc.to(tl.float32)",
        "acc starts the loop as a tile of [16] fp16 and leaves an iteration as a tile of [16] fp",
    ),
    "small_dot": (
        "i = tl.arange(0, 4)\na = tl.load(x_ptr + i[:, None] * 4 + i)\nb = tl.dot(a, a) #!",
        "K >= 16",
    ),
    "branch": ("if N > 3:\n y = 1\ntl.store(x_ptr, y) #!", "y is not defined here on every path"),
    "loop_name": (
        "for i in range(0, N):\n z = tl.load(x_ptr)\ntl.store(x_ptr, z) #!",
        "z is not defined here on every path",
    ),
    "undefined": ("tl.store(x_ptr, nothing) #!", "nothing is not defined"),
    "if_tile": ("i = tl.arange(0, B)\nif i > 3: #!\n tl.store(x_ptr + i, 1.0)", "use tl.where"),
    "arange": ("i = tl.arange(0, 48) #!", "a length that is a power of 2"),
    "arange_runtime": ("i = tl.arange(0, N) #!", "make them tl.constexpr"),
    "raise": ("raise ValueError('x') #!", "cannot raise"),
    "dictionary": ("d = {'a': 1} #!", "cannot use this kind of Python (Dict)"),
    "keyword": ("y = tl.load(x_ptr, msk=True) #!", "unexpected keyword argument 'msk'"),
    "fp8": ("y = tl.load(x_ptr + tl.arange(0, B)).to(tl.float8e4nv) #!", "need sm_89 or newer"),
    "huge_tile": ("y = tl.zeros([2048, 1024], tl.float32) + 1.0 #!", "Triton stops at 1048576"),
    "alarm": (
        "tl.static_assert(False, 'Step 5 is not written yet: score the tile') #!",
        "Step 5 is not written yet: score the tile",
    ),
    "nested": ("tl.store(x_ptr, inner(x_ptr))", "no `break`"),
}
HEAD = """import torch, triton
import triton.language as tl
SCALE = 3
def helper(x): return x + 1
@triton.jit
def inner(x_ptr):
    for i in range(3):
        break
    return 1.0
"""


def sin_text():
    text = HEAD
    for name, (body, _) in SINS.items():
        lines = ["    " + line.replace("\n", "\n    ") for line in body.split("\n")]
        text += f"@triton.jit\ndef k_{name}(x_ptr, N, B: tl.constexpr):\n" + "\n".join(lines) + "\n"
    return text


@pytest.fixture(scope="module")
def sins():
    def call(module):
        for name in SINS:
            getattr(module, f"k_{name}")[(1,)](torch.empty(64, dtype=torch.float16), 64, 16)

    return {row.kernel: row for row in aot.inspect(sin_text(), "sins.py", call, (80,))}


@pytest.mark.parametrize("name", SINS)
def test_what_the_interpreter_forgives_is_refused_with_line_and_reason(sins, name):
    row, said = sins[f"k_{name}"], SINS[name][1]
    assert not row.ok and row.error == "refused"
    assert said in row.sentence
    lines = sin_text().splitlines()
    start = lines.index(f"def k_{name}(x_ptr, N, B: tl.constexpr):")
    marked = [i + 1 for i, line in enumerate(lines) if i > start and line.endswith("#!")]
    expected = marked[0] if name != "nested" else 1 + lines.index("        break")
    assert row.line == expected
    assert row.sentence.startswith(f"line {expected} of sins.py: ")


def test_the_message_shows_the_line_and_a_caret(sins):
    where, source, caret, said = sins["k_append"].message.splitlines()
    assert where.startswith("sins.py:") and source.strip() == "parts.append(1) #!"
    assert source[caret.index("^") :].startswith("parts.append")
    assert said


def test_a_file_that_does_not_load_names_its_line():
    module = load(FLASH, "flash.py")
    launches = aot.capture(lambda: module.flash(torch.empty(64, 64)))
    (row,) = aot.compile_launches(FLASH + "\n1 / 0\n", "flash.py", launches, (80,))
    n = len(FLASH.splitlines()) + 2
    assert row.error == "load"
    assert row.sentence == f"line {n} of flash.py: ZeroDivisionError: division by zero"
    (row,) = aot.compile_launches(FLASH + "\ndef (:\n", "flash.py", launches, (80,))
    assert row.error == "load" and row.line == n
    (row,) = aot.compile_launches("import triton\n", "flash.py", launches, (80,))
    assert "flash_kernel is not at module level of the file" in row.sentence


# ------------------------------------------------------------------ Gluon, crashes, the worker

GLUON = """
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared, mbarrier, tma, warpgroup_mma,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

tma_load = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared  # renamed in 3.9
tma_store = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@gluon.jit
def matmul_kernel(a_desc, b_desc, c_desc, K, B: gl.constexpr, MMA: gl.constexpr):
    a = gl.allocate_shared_memory(a_desc.dtype, [B, B], a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, [B, B], b_desc.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    acc = gl.zeros([B, B], gl.float32, MMA)
    phase = 0
    for k in range(0, K, B):
        mbarrier.expect(bar, a_desc.block_type.nbytes + b_desc.block_type.nbytes)
        tma_load(a_desc, [0, k], bar, a)
        tma_load(b_desc, [k, 0], bar, b)
        mbarrier.wait(bar, phase)
        phase ^= 1
        acc = warpgroup_mma(a, b, acc)
    c = gl.allocate_shared_memory(c_desc.dtype, [B, B], c_desc.layout)
    c.store(acc.to(c_desc.dtype))
    fence_async_shared()
    tma_store(c_desc, [0, 0], c)
    tma.store_wait(0)


def matmul(x):
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    d = TensorDescriptor.from_tensor(x, [64, 64], layout)
    mma = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    matmul_kernel[(1,)](d, d, d, 64, 64, mma, num_warps=4)
"""


def test_gluon_compiles_for_hopper_and_its_crash_elsewhere_is_a_sentence():
    x = torch.empty(64, 64, dtype=torch.float16)
    rows = aot.inspect(GLUON, "gemm.py", lambda m: m.matmul(x), (90, 80))
    hopper, ampere = rows
    assert hopper.ok and hopper.counts["wgmma"] == 4 and hopper.counts["tma"] == 3
    assert ampere.error == "refused"
    assert ampere.sentence.startswith("sm_80 has no wgmma instruction")


HANGS = FLASH + "\nimport time\ntime.sleep(60)\n"


def test_a_hang_and_a_crash_end_their_own_rows_alone():
    module = load(FLASH, "flash.py")
    q = torch.empty(64, 64, dtype=torch.float16)
    launches = aot.capture(lambda: module.flash(q))
    (row,) = aot.compile_launches(HANGS, "f.py", launches, (80,), timeout=0.5)
    assert row.error == "timeout" and "did not finish in time for sm_80" in row.sentence
    text = FLASH + "\nimport os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
    (row,) = aot.compile_launches(text, "f.py", launches, (80,))
    assert row.error == "crash" and "SIGSEGV" in row.sentence
    (row,) = aot.compile_launches(FLASH, "f.py", launches, (80,))
    assert row.ok


def test_one_target_may_crash_while_others_compile():
    text = FLASH + (
        "\nimport triton.backends.compiler as c, os\n"
        "made = c.GPUTarget.__init__\n"
        "def init(self, backend, arch, warp):\n"
        "    if arch == 90: os.abort()\n"
        "    made(self, backend, arch, warp)\n"
        "c.GPUTarget.__init__ = init\n"
    )
    module = load(FLASH, "flash.py")
    launches = aot.capture(lambda: module.flash(torch.empty(64, 64, dtype=torch.float16)))
    rows = aot.compile_launches(text, "f.py", launches, (80, 90, 100))
    assert [r.error for r in rows] == ["", "crash", ""]


def _workers(parent=None):
    """Process ids of compile workers that are children of ``parent``."""
    out = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True).stdout
    rows = [line.split(None, 2) for line in out.splitlines()[1:]]
    return [
        int(p) for p, pp, a in rows if "flashlab.aot.worker" in a and parent in (None, int(pp))
    ]


def test_the_worker_is_replaced_when_lost_and_forks_with_one_thread(monkeypatch):
    module = load(FLASH, "flash.py")
    launches = aot.capture(lambda: module.flash(torch.empty(64, 64, dtype=torch.float16)))
    with contextlib.closing(aot.Compiler()) as compiler:
        assert compiler.compile(FLASH, "f.py", launches, (80,))[0].ok
        with open(f"/proc/{compiler._process.pid}/status") as status:
            threads = next(line for line in status if line.startswith("Threads"))
        assert threads.split()[1] == "1"
        os.kill(compiler._process.pid, signal.SIGKILL)
        compiler._process.wait()

        def interrupted(process, deadline):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:  # Jupyter's Stop, half way through an answer
            patch.setattr(compiler, "_line", interrupted)
            with pytest.raises(KeyboardInterrupt):
                compiler.compile(FLASH, "f.py", launches, (80,))
        assert compiler.compile(FLASH, "f.py", launches, (80,))[0].ok
    assert compiler._process is None


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_worker_dies_with_a_killed_parent():
    code = (
        "import time\nfrom flashlab.aot import Compiler\nc = Compiler()\nc.warm()\n"
        "print('up', c._process.pid, flush=True)\ntime.sleep(60)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env) as parent:
        worker = int(parent.stdout.readline().split()[1])
        parent.kill()
    deadline = time.monotonic() + 60
    while _alive(worker) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _alive(worker)
