"""A page an exercise: contract, steps, what is tested, where to write it. Never its solution."""

from collections import Counter

from flashlab import exercises, sources
from flashlab.authoring import colab_cells, contract
from flashlab.exercise import GROUPS, Exercise

PARTS = {
    "core": "right values on plain sizes",
    "edges": "ragged, causal and hostile sizes",
    "io": "bytes within the budget",
    "resources": "compiles for every target, fits, spills nothing",
}
KINDS = {
    "triton": "a Triton kernel and its launcher",
    "gluon": "a Gluon kernel for Hopper and its launcher",
    "torch": "torch code",
    "python": "plain Python",
}


def page(slug: str) -> str:
    """The page as Markdown."""
    exercise = exercises.get(slug)
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(exercise.steps, 1))
    return "\n\n".join(
        [
            f"# `{slug}`: {exercise.title}",
            f"You write {KINDS[exercise.kind]}, about {exercise.minutes} minutes, "
            f"in {_where(exercise)}",
            "## Contract",
            contract.contract_cell(exercise),
            "## Steps",
            steps,
            "## What is checked",
            _checked(exercise),
            "## In an editor",
            f"```text\nflashlab start {slug}\nflashlab check {slug}\nflashlab hint {slug}\n```",
        ]
    )


def _where(exercise: Exercise) -> str:
    """Links to its lab; none while the lab is being written."""
    found = sorted((sources.course_dir() / "labs").glob(f"{exercise.chapter}_*.ipynb"))
    if not found:
        return f"lab {exercise.chapter}."
    address = colab_cells.colab_address("labs", found[0].name)
    return (
        f"[lab {exercise.chapter}](../labs/{found[0].stem}.md).\n"
        f"[▶ Open the lab in Google Colab]({address})"
    )


def _checked(exercise: Exercise) -> str:
    counts = Counter(case.group for case in exercise.cases)
    cases = ", ".join(f"{counts[group]} {group}" for group in GROUPS if counts[group])
    points = "\n".join(f"| {PARTS[part]} | {value} |" for part, value in exercise.points().items())
    lines = [f"{len(exercise.cases)} cases: {cases}."]
    if exercise.kind in ("triton", "gluon"):
        targets = ", ".join(f"sm_{arch}" for arch in exercise.archs)
        lines.append(f"The kernels are compiled offline for {targets}.")
    lines.append(f"{len(exercise.mistakes)} likely mistakes are known to the checker by name.")
    return f"{' '.join(lines)}\n\n| part | points |\n|---|---:|\n{points}"
