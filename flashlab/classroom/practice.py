"""nbgrader's practice marks: the test cells of one submission, in a workspace of its own.

The kernel runs the set-up and test cells alone. Answers are put into the workspace as files, and
only ``flashlab.check`` runs them, in processes of its own: a notebook cannot change its verdict
by hooks of its kernel, and cannot take the kernel down.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

from jupyter_core.utils import run_sync
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat.v4 import new_output
from nbgrader import utils
from nbgrader.preprocessors import Execute

from flashlab.authoring import canonical

NOT_RUN = "Saved as {name}: the check below runs it, this notebook does not.\n"


class RunChecks(Execute):
    """In place of nbgrader's Execute."""

    def preprocess(self, nb: Any, resources: Any = None, km: Any = None) -> tuple[Any, Any]:
        with tempfile.TemporaryDirectory(prefix="flashlab-class-") as folder:
            self._home = Path(folder)
            (self._home / "kernels").mkdir()
            return super().preprocess(nb, resources, km)

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:
        slug = canonical.fill_slug(cell)
        if slug:
            cell.outputs = [self._save(slug, cell.source)]
        elif cell.cell_type == "code" and utils.is_locked(cell):
            self._run(cell, resources, index)
        return cell, self.resources

    def _save(self, slug: str, text: str) -> Any:
        path = self._home / "kernels" / f"{slug}.py"
        path.write_text(text.partition("\n")[2] + "\n", encoding="utf-8")
        said = NOT_RUN.format(name=path.relative_to(self._home))
        return new_output("stream", name="stdout", text=said)

    def _run(self, cell: Any, resources: Any, index: int) -> None:
        try:
            super().preprocess_cell(cell, resources, index)
        except (DeadKernelError, CellTimeoutError) as error:
            said = "this cell took its kernel down; the cells after it run in a new one"
            output = new_output("error", ename=type(error).__name__, evalue=said, traceback=[said])
            cell.outputs = [*cell.outputs, output]
            self._cleanup_kernel()
            self.km = self.create_kernel_manager()
            self.start_new_kernel()
            self.start_new_kernel_client()
            for number, before in enumerate(self.nb.cells[:index]):
                if utils.is_locked(before) and not utils.is_grade(before):
                    self.execute_cell(before, number)

    async def async_start_new_kernel(self, **kwargs: Any) -> None:
        """In the workspace, so that nothing beside the notebook is found by an import."""
        environment = {**os.environ, "FLASHLAB_WORK": str(self._home)}
        await super().async_start_new_kernel(cwd=str(self._home), env=environment, **kwargs)

    start_new_kernel = run_sync(async_start_new_kernel)
