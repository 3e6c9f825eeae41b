"""Closed forms and references are out of reach of an answer that runs, however it asks."""

import json
import subprocess
import sys

import pytest

ASK = """
import json, sys
from flashlab import iocount
from flashlab.grader import audit, guard
watch = guard.Watch("answer.py", False, (), lambda t: None)
audit.Audit(watch)
said = []
for ask in json.loads(sys.argv[1]):
    code = compile(ask, "answer", "exec")
    watch.armed = True
    try:
        exec(code)
        said.append("let through")
    except audit.Breach as error:
        said.append(str(error))
    watch.armed = False
print(json.dumps(said))
"""
REFUSED = (
    "import flashlab.iocount.bounds",
    "from flashlab.iocount.bounds.forward import flash1_forward_bytes",
    "open(iocount.__path__[0] + '/bounds/forward.py').read()",
    "import flashlab.reference.cost",
    "open(iocount.__path__[0] + '/../../solutions/io_cost.py').read()",
)
ALLOWED = ("import flashlab.iocount.heat", "open(iocount.__path__[0] + '/heat.py').read()")


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """What each request got to hear, all in one process."""
    asks = [*REFUSED, *ALLOWED]
    command = [sys.executable, "-c", ASK, json.dumps(asks)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(zip(asks, json.loads(run.stdout), strict=True))


@pytest.mark.parametrize("ask", REFUSED)
def test_refused(said: dict[str, str], ask: str) -> None:
    assert "an answer may not do this during a check" in said[ask]


@pytest.mark.parametrize("ask", ALLOWED)
def test_allowed(said: dict[str, str], ask: str) -> None:
    assert said[ask] == "let through"
