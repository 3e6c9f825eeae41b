"""From an instructor's notebook to the students': each stub cell by the course's own rule."""

from typing import Any

from nbgrader import utils
from nbgrader.preprocessors import NbGraderPreprocessor

from flashlab import sources
from flashlab.authoring import canonical


class StubCells(NbGraderPreprocessor):
    """In place of nbgrader's ClearSolutions: the same bytes as the lab's stub cell."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        """Refuse a solution that would go out in a cell that is not marked as one."""
        slug = canonical.fill_slug(cell)
        if utils.is_solution(cell) and slug:
            solution = cell.source.split("\n", 1)[1]
            cell.source = stub_cell(slug, solution)
        if "SOLUTION" in cell.source:
            raise ValueError(
                f"cell {cell_index + 1} ({cell.get('id')}) holds a solution's marker and is not a "
                "solution cell that starts with %%fill: nothing was released"
            )
        return cell, resources


def stub_cell(slug: str, solution: str) -> str:
    """A stub cell's text, the same bytes as in the course's lab, from a solution with markers."""
    return "".join(canonical.lines(f"%%fill {slug}\n{sources.derive_stub(solution, slug)}"))
