"""What a check found, as data that survives JSON; others make words of it. Floor: course."""

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Where:
    """Where an output is wrong.

    ``index``, ``expected`` and ``got`` describe the worst element; ``rows`` are the first bad
    rows of the first wrong head; ``tile_map[i][j]`` is the worst error over its limit there, in
    row tile i and column tile j of the output, so that a value above 1 is a bad tile.
    """

    output: str
    index: list[int]
    expected: float
    got: float
    heads: list[list[int]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    tile_map: list[list[float]] = field(default_factory=list)
    samples: list[list[Any]] = field(default_factory=list)  # up to 5 of [index, expected, got]


@dataclass
class CaseResult:
    """One run: a case at one set of tile sizes."""

    name: str
    group: str
    tiles: dict[str, int]
    sizes: dict[str, Any]
    status: str
    why: str = ""
    own: bool = False  # at the learner's own tile sizes
    tier: str = "cpu"  # where it ran
    detail: str = ""  # one sentence: what broke
    line: str = ""  # 'line 31: "k = tl.load(...)"' where known
    argument: str = ""  # tensor argument concerned, where known
    output: str = ""  # output that is wrong
    error: float | None = None  # worst error, in units of the output
    limit: float | None = None
    where: Where | None = None
    io: dict[str, list[int]] = field(default_factory=dict)  # tensor -> [loaded, stored]
    budget: dict[str, list[int]] = field(default_factory=dict)
    observed_tiles: dict[str, int] = field(default_factory=dict)
    printed: str = ""  # what the learner's code printed
    traceback: str = ""  # one screen
    seconds: float = 0.0


@dataclass
class Stage:
    """One stage of the check: ``status`` is pass, fail or "not run", ``detail`` a sentence."""

    name: str
    status: str
    detail: str = ""


@dataclass(repr=False)
class Report:
    """Everything a person or a program may want to know of one check."""

    slug: str
    tier: str
    status: str
    headline: str  # first sentence a person reads; names the mistake when one is known
    points: float = 0.0
    points_by_part: dict[str, list[float]] = field(default_factory=dict)  # part -> [got, of]
    stages: list[Stage] = field(default_factory=list)
    cases: list[CaseResult] = field(default_factory=list)
    mistake: dict[str, str] | None = None  # {"slug":, "says":, "confidence":}
    step: int | None = None  # first step that is wrong (or unfilled)
    structure: list[str] = field(default_factory=list)  # what the wrong numbers look like
    attention_matrix: list[list[float]] = field(
        default_factory=list
    )  # learner's P, from one-hot V
    failing_call: str = ""  # python text to copy and run
    hint: dict[str, Any] | None = None  # {"level":, "of":, "text":}
    path: str = ""
    saved_at: str = ""
    text_hash: str = ""
    own_tiles: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(
        default_factory=list
    )  # tiles differ from declared, .contiguous() copies...
    not_run: list[str] = field(default_factory=list)  # "compiled run: no GPU on this machine"
    resources: list[dict[str, Any]] = field(
        default_factory=list
    )  # per arch: shared, registers, spills, error
    speed: dict[str, Any] | None = None
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def __repr__(self) -> str:
        return f"<Report {self.slug}: {self.status}, {self.points:g} points, tier {self.tier}>"

    @property
    def passed(self) -> bool:
        """True if every case that ran passed."""
        return self.status == "pass"

    @property
    def first_failure(self) -> CaseResult | None:
        """The first case that did not pass, in the order shown."""
        return next((c for c in self.cases if c.status != "pass"), None)

    def marks(self, of: float) -> float:
        """The points scaled to ``of`` and no more; 0 unless every core case passed."""
        core, whole = self.points_by_part.get("core", (0, 1))
        return of * min(self.points, 100.0) / 100 if core == whole else 0.0

    def to_json(self) -> str:
        """The whole report as strict JSON; NaN and infinity become ``"nan"`` and ``"inf"``."""
        plain = _named(dataclasses.asdict(self))
        return json.dumps(plain, indent=1, default=str, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Report":
        """The report that ``to_json`` wrote."""
        data = json.loads(text)
        data["attention_matrix"] = _numbers(data["attention_matrix"])
        data["stages"] = [Stage(**s) for s in data["stages"]]
        for case in data["cases"]:
            case["error"] = _numbers(case["error"])
            if case["where"]:
                spot = case["where"]
                spot |= {n: _numbers(v) for n, v in spot.items() if n != "output"}
                case["where"] = Where(**spot)
        data["cases"] = [CaseResult(**c) for c in data["cases"]]
        return cls(**data)


def _named(value: Any) -> Any:
    """The value with every number that JSON has no word for as text."""
    if isinstance(value, dict):
        return {str(k): _named(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_named(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _numbers(value: Any) -> Any:
    """The reverse of ``_named`` for numbers and lists of numbers."""
    if isinstance(value, list):
        return [_numbers(v) for v in value]
    return float(value) if isinstance(value, str) else value
