"""A small solution with three holes, and stubs filled by hand."""

from flashlab import sources

SAMPLE = """\
import triton
import triton.language as tl

BLOCK = 64  # tile


@triton.jit
def twice_kernel(x_ptr, N, BLOCK: tl.constexpr):
    # 1. Indices
    ### BEGIN SOLUTION 1: define offs
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)

    mask = offs < N
    ### END SOLUTION

    for n in range(2):
        # 2. Loop
        ### BEGIN SOLUTION 2: load and store; define x
        x = tl.load(x_ptr + offs, mask=mask, other=0.0)
        if n == 0:
            tl.store(x_ptr + offs, 2 * x, mask=mask)
        ### END SOLUTION


def twice(x):
    # 3. Launch
    ### BEGIN SOLUTION 3: launch
    twice_kernel[(1,)](x, x.numel(), BLOCK=BLOCK)
    ### END SOLUTION
    return x
"""


def filled(solution: str, steps: set[int] | None = None) -> str:
    """The stub with the solution's lines put back into ``steps`` (default: all) by hand."""
    text = sources.derive_stub(solution)
    for hole in sources.holes(solution):
        if steps is None or hole.number in steps:
            text = text.replace("\n".join(hole.stub_lines()), "\n".join(hole.lines))
    return text
