"""Makes a module from the text of an answer, with its lines where the recorder finds them. Floor: core."""

import linecache
import sys
import types


def load_module(text: str, filename: str, name: str = "answer") -> types.ModuleType:
    """Compile and run ``text`` as a fresh module, never from a cache.

    Triton and tracebacks read the source through ``linecache``, so ``filename`` need not exist; an
    entry without a modification time is never thrown away.

    Args:
        text: Python source.
        filename: Name shown in tracebacks and reports.
        name: Name of the module in ``sys.modules``; an older module of that name is replaced.

    Raises:
        SyntaxError: the text is no Python; whatever else the text raises while it runs.
    """
    lines = text.splitlines(keepends=True)
    linecache.cache[filename] = (len(text), None, lines, filename)
    module = types.ModuleType(name)
    module.__file__ = filename
    sys.modules[name] = module
    exec(compile(text, filename, "exec"), module.__dict__)
    return module
