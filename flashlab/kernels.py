"""The learner's functions as importable names: ``from flashlab.kernels import flash_forward``.

Each name is an ``Entry``: at every call it reads the current workspace's text and, if that
changed, compiles it into a fresh module. Where the text lies is workspace/'s business, how kernels
run without a GPU is iocount/'s. Floor: core.
"""

import contextlib
import difflib
import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import triton

from flashlab import sources
from flashlab.calling import running
from flashlab.loading import fault, jit_function, kernels_of, load_module
from flashlab.workspace import Answer, Workspace, WorkspaceError

__all__ = [
    "AnswerError",
    "Entry",
    "Kernel",
    "course_function",
    "entry",
    "load_module",
    "passed_function",
    "passed_or_solution",
]


class AnswerError(WorkspaceError):
    """A learner's text does not load, or lacks its function; says where.

    Args:
        path: The file, as shown to the learner.
        line: Line of the file, from 1; None where there is none to name.
        problem: What is wrong there, with the source line.
    """

    def __init__(self, path: str, line: int | None, problem: str) -> None:
        self.path, self.line, self.problem = path, line, problem
        super().__init__(f"{path}{f', line {line}' if line else ''}: {problem}")


class Entry:
    """One exercise's answer: callable, and its attributes are the names of the loaded file.

    CPU tensors run under the recorder (the enclosing ``count_io``, else one of its own), whose
    tally is ``last_tally`` afterwards; CUDA tensors run compiled. A file without kernels runs as
    it is.
    """

    def __init__(self, slug: str) -> None:
        state = {"slug": slug, "last_tally": None, "_loaded": (None, None)}
        self.__dict__.update(state)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function named as the exercise.

        Raises:
            AnswerError: the file does not load or lacks the function.
            ValueError: the tensors lie on several devices.
        """
        module = self.module()
        function = vars(module).get(self.slug) or getattr(self, self.slug)
        if not callable(function) or isinstance(function, triton.KernelInterface):
            raise AnswerError(
                Workspace.current().show(Path(module.__file__ or "")),
                None,
                f"{self.slug} is a {type(function).__name__}, expected the function that launches",
            )
        return self.run(function, kernels_of(module).values(), function, args, kwargs)

    def run(
        self, call: Callable, kernels: Iterable, function: Callable, args: tuple, kwargs: dict
    ) -> Any:
        """``call(*args, **kwargs)`` where its tensors lie; ``function`` names the arguments."""
        with running(function, [jit_function(k) for k in kernels], args, kwargs) as tally:
            if tally is not None:
                self.__dict__["last_tally"] = tally
            return call(*args, **kwargs)

    def module(self) -> ModuleType:
        """The module of the current text; loaded anew where workspace or text changed.

        Raises:
            AnswerError: it does not load.
            WorkspaceError: the file cannot be read.
        """
        workspace = Workspace.current()
        answer = workspace.answer(self.slug)
        path = answer.path or sources.stub_path(self.slug)
        if self._loaded[0] != (path, answer.text):
            if answer.path:
                with contextlib.suppress(WorkspaceError):  # a full disk must not stop a call
                    workspace.keep(self.slug, answer.text)
            module = _load(answer.text, path, workspace.show(path))
            self.__dict__["_loaded"] = ((path, answer.text), module)
        return self._loaded[1]

    def kernels(self) -> dict[str, "Kernel"]:
        """Handles of the file's kernels, by name."""
        return {name: Kernel(self, name) for name in kernels_of(self.module())}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked for by copy, inspect and IPython: must not load a file
            raise AttributeError(name)
        module = self.module()
        if name in vars(module):
            value = vars(module)[name]
            return self._running(value) if isinstance(value, FunctionType) else value
        shown = Workspace.current().show(Path(module.__file__ or ""))
        if name == self.slug:
            raise AnswerError(shown, None, f"the function {name} is missing; keep its name")
        raise AttributeError(f"{shown} defines no {name!r}{_nearest(name, vars(module))}")

    def _running(self, function: Callable) -> Callable:
        """Another function of the file, such as a backward pass, run as the entry itself is."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self.run(function, kernels_of(self.module()).values(), function, args, kwargs)

        return call

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"{self.slug}.{name} cannot be set from outside: edit {name} in "
            f"{Workspace.current().kernel_path(self.slug)}"
        )

    def __dir__(self) -> list[str]:
        with contextlib.suppress(Exception):  # completion must work beside a broken file
            return [*super().__dir__(), *vars(self.module())]
        return [*super().__dir__()]

    def __repr__(self) -> str:
        try:
            answer = Workspace.current().answer(self.slug)
        except (WorkspaceError, KeyError) as error:
            return f"<{self.slug}: {error.args[0]}>"
        if answer.path is None:
            return f"<{self.slug}: the untouched stub>"
        return f"<{self.slug}: {answer.origin} {answer.path}, saved {answer.saved_at}>"


class Kernel:
    """A kernel of an answer for ``kernel[grid](...)``; always the one of the current text.

    With CPU tensors a launch runs under the recorder, with CUDA tensors compiled.
    """

    def __init__(self, owner: Entry, name: str) -> None:
        self._owner, self._name = owner, name

    def __getitem__(self, grid: Any) -> Callable:
        if isinstance(grid, int):
            raise TypeError(f"{self._name}[{grid}]: a grid is a tuple, such as ({grid},)")

        def launch(*args: Any, **kwargs: Any) -> Any:
            kernel = getattr(self._owner, self._name)
            names = jit_function(kernel).fn
            return self._owner.run(kernel[grid], [kernel], names, args, kwargs)

        return launch

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Only within another kernel; a launch needs a grid."""
        try:
            return getattr(self._owner, self._name)(*args, **kwargs)
        except RuntimeError as error:
            if "outside of the scope of a kernel" not in str(error):
                raise
            raise TypeError(f"a launch needs a grid: {self._name}[(4,)](...)") from None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(getattr(self._owner, self._name), name)

    def __repr__(self) -> str:
        return f"<kernel {self._name} of {self._owner!r}>"


@functools.cache
def entry(slug: str) -> Entry:
    """The entry of an exercise, the same one each time.

    Raises:
        AttributeError: there is no such exercise; the message suggests the nearest.
    """
    known = sources.slugs()
    if slug not in known:
        raise AttributeError(f"there is no exercise {slug!r}{_nearest(slug, known)}")
    return Entry(slug)


def passed_or_solution(slug: str, name: str = "") -> tuple[Callable, str]:
    """The learner's function if that text last passed its check, else the course's solution.

    Args:
        slug: Exercise.
        name: Which function of its file; empty is the one called as the exercise.

    Returns:
        The function (run recorded on CPU tensors, compiled on CUDA tensors) and a sentence that
        says whose it is.
    """
    answer = _passed(slug)
    if answer is not None:
        function = getattr(entry(slug), name) if name else entry(slug)
        return function, f"{slug}: your own, {Workspace.current().show(answer.path)}"
    return course_function(slug, name), (
        f"{slug}: the course's solution, since no text of yours has passed yet"
    )


def passed_function(slug: str, name: str = "") -> Callable | None:
    """The learner's function of the text that last passed its check, or None.

    Unlike an ``Entry`` it stays that text's, so a backward pass finds the kernels of its forward.
    """
    answer = _passed(slug)
    return None if answer is None else _fixed(entry(slug).module(), name or slug)


def course_function(slug: str, name: str = "") -> Callable:
    """The solution's function; empty ``name`` is the one called as the exercise.

    Raises:
        KeyError: this copy of the course has no such solution.
    """
    return _solution(slug, name or slug)


@functools.cache
def _solution(slug: str, name: str) -> Callable:
    return _fixed(_solution_module(slug), name)


@functools.cache
def _solution_module(slug: str) -> ModuleType:
    """Loaded once, so that its kernels are compiled once."""
    return load_module(sources.solution_text(slug), str(sources.solution_path(slug)))


def _passed(slug: str) -> Answer | None:
    workspace = Workspace.current()
    answer = workspace.answer(slug)
    if answer.origin == "stub" or workspace.last_pass(slug) != sources.text_hash(answer.text):
        return None
    return answer


def _fixed(module: ModuleType, name: str) -> Callable:
    """A module's function, recorded on CPU tensors and compiled on CUDA tensors."""
    function, kernels = vars(module)[name], [jit_function(k) for k in kernels_of(module).values()]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with running(function, kernels, args, kwargs):
            return function(*args, **kwargs)

    return call


def __getattr__(name: str) -> Entry:
    if name.startswith("__"):  # asked for by the import system
        raise AttributeError(name)
    return entry(name)


def __dir__() -> list[str]:
    return [*__all__, *sources.slugs()]


def _nearest(name: str, names: Iterable[str]) -> str:
    public = sorted(n for n in names if not n.startswith("_"))
    near = difflib.get_close_matches(name, public, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(public)}"


def _load(text: str, path: Path, shown: str) -> ModuleType:
    try:
        return load_module(text, str(path))
    except (Exception, SystemExit) as error:
        cause = None if isinstance(error, SyntaxError) else error
        raise AnswerError(shown, *fault(error, str(path))) from cause
