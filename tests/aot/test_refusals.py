"""What only the interpreter takes is refused in words, naming line and reason."""

import pytest
import torch

from flashlab import aot

# kernel body -> part of the sentence; the line with "#!" is the one that must be named
SINS = {
    "break": ("for i in range(0, N):\n if i > 5:\n  break #!", "no `break`"),
    "continue": ("for i in range(0, N):\n if i > 5:\n  continue #!", "no `continue`"),
    "append": ("parts = []\nparts.append(1) #!", "list.append"),
    "global_int": ("tl.store(x_ptr, SCALE) #!", "may not read the global SCALE"),
    "helper": ("i = tl.arange(0, B)\ntl.store(x_ptr + i, helper(i)) #!", "cannot call helper"),
    "torch_function": ("i = tl.arange(0, B)\ny = torch.exp(i) #!", "write tl.exp"),
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
        text += (
            f"@triton.jit\ndef k_{name}(x_ptr, N, B: tl.constexpr):\n" + "\n".join(lines) + "\n"
        )
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


def test_a_file_that_does_not_load_names_its_line(flash_text, launches):
    (row,) = aot.compile_launches(flash_text + "\n1 / 0\n", "/a/flash.py", launches, (80,))
    n = len(flash_text.splitlines()) + 2
    assert row.error == "load" and row.line == n
    assert row.sentence.startswith(f"line {n} of flash.py: ZeroDivisionError: division by zero")
    (row,) = aot.compile_launches(flash_text + "\ndef (:\n", "flash.py", launches, (80,))
    assert row.error == "load" and row.line == n
    (row,) = aot.compile_launches("import triton\n", "flash.py", launches, (80,))
    assert "flash_kernel is not at module level of the file" in row.sentence
