"""Reports of every kind, as a check would make them, for the tests of both renderers."""

from flashlab.grader.report import CaseResult, Report, Stage, Where

TILES = {"BLOCK_M": 16, "BLOCK_N": 16}
SIZES = {"B": 1, "H": 2, "N_q": 40, "N_k": 37, "D": 16, "causal": True}
PATH = "/home/ada/flashlab/work/kernels/flash_forward.py"
IO = {"q": [2560, 0], "k": [7104, 0], "v": [7104, 0], "o": [0, 2560], "lse": [0, 320]}
LOAD = "k = tl.load(k_ptrs)"


def _case(name="one-tile", group="core", status="pass", **fields):
    fields.setdefault("tiles", TILES)
    fields.setdefault("sizes", SIZES)
    return CaseResult(name, group, status=status, **fields)


def _report(status, headline="", **fields):
    fields.setdefault("path", PATH)
    fields.setdefault("saved_at", "2025-11-29 21:40:03")
    fields.setdefault("not_run", ["compiled run and speed: no GPU on this machine"])
    report = Report("flash_forward", "cpu", status, headline, **fields)
    report.points_by_part = report.points_by_part or {
        "core": [0, 45], "edges": [0, 25], "io": [0, 20], "resources": [10, 10]
    }  # fmt: skip
    return report


def passed():
    cases = [_case("one-tile"), _case("two-tiles", io=IO, budget=IO), _case("causal", "causal")]
    return _report(
        "pass",
        "All 3 runs of flash_forward pass on tier cpu; some parts were not run.",
        cases=cases,
        points=100,
        points_by_part={
            "core": [45, 45],
            "edges": [25, 25],
            "io": [20, 20],
            "resources": [10, 10],
        },
        resources=[
            {"arch": 80, "shared_bytes": 24576, "registers": 96, "spill_bytes": 0},
            {"arch": 90, "shared_bytes": 24576, "registers": 90, "spill_bytes": 0},
        ],
    )


def wrong():
    where = Where(
        "o", [0, 1, 20, 15], -3.078125, 0.25, [[0, 0], [0, 1]], list(range(16, 24)),
        [[0.2, 0.4], [199.2, 88.1], [204.7, 4.2]],
        [[[0, 0, 16, 0], 0.366, 0.812], [[0, 0, 16, 1], 1.488, 0.411], [[0, 0, 17, 0], 1.75, 0.2]],
    )  # fmt: skip
    cases = [
        _case("one-tile", io=IO, budget=IO),
        _case(
            "two-tiles", status="wrong", where=where, output="o", error=3.1, limit=0.0095,
            detail="o is off by 3.08, 325 times the allowed 0.0095",
            why="Two tiles, the second with larger scores: what came before is rescaled.",
            io=IO | {"k": [14208, 0]}, budget=IO,
        ),
        _case("causal", "causal", "wrong", detail="o is off by 1.2, 120 times the allowed 0.01"),
        _case("no-key", "hostile", "nan", detail="o holds NaN in 320 of 1280 elements"),
    ]  # fmt: skip
    return _report(
        "wrong",
        "The accumulator is not rescaled when a new maximum arrives.",
        cases=cases,
        points=10,
        mistake={
            "slug": "acc-not-rescaled",
            "says": "The accumulator is not rescaled when a new maximum arrives.",
            "confidence": "certain",
        },
        step=4,
        structure=[
            "Only calls with more than one tile of keys fail: one tile alone is right.",
            "Rows 16 to 23 of your attention matrix sum to 1.21 to 1.93, not 1.",
        ],
        attention_matrix=[[0.1 * ((i + j) % 9) for j in range(24)] for i in range(24)],
        failing_call=(
            'import flashlab\nflashlab.debug("flash_forward", "two-tiles",\n'
            '    tiles={"BLOCK_M": 16, "BLOCK_N": 16})'
        ),
        hint={"level": 1, "of": 4, "text": "What must happen to acc when m_new is above m_i?"},
        notes=[
            "Your launcher uses tiles 32 x 16, not the 16 x 16 that were set: cases follow yours."
        ],
    )


def out_of_bounds():
    case = _case(
        "ragged-keys", "ragged", "oob", argument="k", line=f'line 51: "{LOAD}"',
        detail=f'k is read outside its 592 elements by 7 lanes of program 0 at line 51: "{LOAD}"',
        why="The last tile of keys is partly filled: its lanes past N_k own nothing.",
        printed="here\nstart_n 32\n",
    )  # fmt: skip
    return _report(
        "oob",
        "flash_forward reaches outside a tensor in case ragged-keys: " + case.detail + ".",
        cases=[_case("one-tile"), case],
        points=55,
        failing_call='import flashlab\nflashlab.debug("flash_forward", "ragged-keys")',
    )


def unfilled():
    return _report(
        "unfilled",
        "Step 2 is not written yet: load k and v, score, mask; define v, s.",
        step=2,
        stages=[Stage("parse", "fail", "step 2 still holds its alarm"), Stage("cases", "not run")],
        not_run=["cases: the kernel is not filled in"],
    )


def syntax_error():
    detail = "line 63 is not Python: '(' was never closed"
    return _report(
        "contract",
        f"flash_forward does not keep to its contract: {detail}.",
        stages=[Stage("parse", "fail", detail), Stage("cases", "not run")],
        not_run=["cases: the file is not Python"],
    )


def timeout():
    case = _case(
        "one-tile", status="timeout", detail="the call did not end within 5 s and was stopped",
        why="One tile of queries, one of keys.",
    )  # fmt: skip
    return _report(
        "timeout",
        f"flash_forward does not end in time in case one-tile: {case.detail}.",
        cases=[case],
        failing_call='import flashlab\nflashlab.debug("flash_forward", "one-tile")',
    )


def crash():
    case = _case(
        status="crash",
        detail="ZeroDivisionError: division by zero",
        line='line 90: "n = N_k // 0"',
        traceback='  File "flash_forward.py", line 90\n    n = N_k // 0\nZeroDivisionError',
    )
    return _report(
        "crash", f"flash_forward crashes in case one-tile: {case.detail}.", cases=[case]
    )


def hostile():
    """Everything that a learner can name holds escapes and markup."""
    evil = "\x1b[31m\x1b]0;owned\x07<script>alert(1)</script><img src=x onerror=alert(2)>\u202eabc"
    case = _case(
        evil, status="wrong", detail=evil, printed=evil * 40, traceback=evil, line=evil,
        argument=evil, why=evil, sizes={evil: evil}, tiles={evil: 16}, io={evil: [1, 2]},
        budget={evil: [1, 1]},
        where=Where(evil, [0, 0], float("nan"), float("inf"), [[0]], [0], [[float("inf")]]),
    )  # fmt: skip
    return _report(
        "wrong", evil, cases=[case], path=evil, saved_at=evil, structure=[evil], notes=[evil],
        not_run=[evil], mistake={"slug": evil, "says": evil, "confidence": evil},
        failing_call=evil, hint={"level": 1, "of": 2, "text": evil},
        resources=[{"arch": evil, "error": evil}], stages=[Stage(evil, "fail", evil)],
        attention_matrix=[[0.5, float("nan")], [0.0, 1.0]],
    )  # fmt: skip


ALL = (passed, wrong, out_of_bounds, unfilled, syntax_error, timeout, crash, hostile)
