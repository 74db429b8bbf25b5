"""Runs that keep their state share an interpreter, and a way to its keeper. One of them cannot end another one before
its time, nor keep it from ending, but by ending what it shares with it."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
import harness  # noqa: E402
from test_cannot_abuse_the_way_to_its_driver import programs  # noqa: E402, F401

WALLS = ["container", "vm"]
FLOOD = {
    "python": "import threading, os, time\ndef flood():\n    end = time.time() + 3\n    while time.time() < end:\n"
              "        for fd in (998, 999):\n            try: os.write(fd, b'\\0' + os.urandom(64))\n"
              "            except OSError: pass\n        time.sleep(0.001)\n"
              "threading.Thread(target=flood, daemon=True).start()",
    "javascript": "const fs0 = require('fs'); const flood = setInterval(() => { for (const fd of [998, 999]) try {"
                  " fs0.writeSync(fd, Buffer.alloc(65)) } catch {} }, 1); setTimeout(() => {}, 50); flood.unref()",
    "bash": "(for i in {1..2000}; do for fd in 10 11 998 999; do printf '%065d' 0 >&$fd; done; done) 2>/dev/null &",
}
SLOW = {"python": "import time; time.sleep(0.3); print('whole')",
        "javascript": "await new Promise((r) => setTimeout(r, 300)); console.log('whole')",
        "bash": "sleep 0.3; echo whole"}


@pytest.mark.parametrize("isolation", WALLS)
@pytest.mark.parametrize("language", FLOOD)
def test_garbage_ends_no_run(programs, isolation, language):  # noqa: F811
    with harness.Session(programs, isolation=isolation, language=language, keep=1) as session:
        session.make()
        assert session.run(FLOOD[language])["state"] == "kept"
        for _ in range(4):
            result = session.run(SLOW[language])
            assert (result["state"], result["reason"], result["code"], result["out"]) == ("kept", "exited", 0, "whole\n")


@pytest.mark.parametrize("isolation", WALLS)
def test_an_old_answer_ends_no_new_run(programs, isolation):  # noqa: F811
    """The seed of a run can be found in memory while it goes on. That of the next one is another."""
    find = """
import sys, threading, time, os
frame = sys._getframe()
while frame and "request" not in frame.f_locals: frame = frame.f_back
seed = frame.f_locals["request"][-64:]
def again():
    for i in range(300):
        for fd in (998, 999):
            try: os.write(fd, bytes([66]) + seed)
            except OSError: pass
        time.sleep(0.005)
"""
    with harness.Session(programs, isolation=isolation, language="python", keep=1) as session:
        session.make()
        assert session.run(find)["state"] == "kept"
        assert session.run("threading.Thread(target=again, daemon=True).start()")["state"] == "kept"
        for _ in range(3):
            result = session.run("time.sleep(0.2); print('whole')")
            assert (result["state"], result["code"], result["out"]) == ("kept", 0, "whole\n")


@pytest.mark.parametrize("isolation", WALLS)
@pytest.mark.parametrize("how", ["os.close(998)", "os.close(999)", "os.closerange(3, 1000)",
                                    "os.dup2(os.open('/dev/null', 2), 3); os.closerange(900, 1000)"])
def test_who_closes_the_way_ends_its_own_session_only(programs, isolation, how):  # noqa: F811
    with harness.Session(programs, isolation=isolation, language="python", keep=1, wall_ms=5000) as session:
        session.make()
        first = session.run(f"import os; {how}; x = 1")
        assert first["reason"] in ("exited", "timeout") or first["state"] == "kept"
        second = session.run("print('after')")
        assert second["out"] == "after\n" or second["state"] == "lost"
        assert session.run("print('after')")["out"] == "after\n"


@pytest.mark.parametrize("isolation", WALLS)
def test_a_fifo_for_input_leads_nowhere_else(programs, isolation):  # noqa: F811
    """It lies where programs can write: whatever they put there, a run has its input or fails."""
    with harness.Session(programs, isolation=isolation, language="bash", keep=1, wall_ms=5000) as session:
        session.make()
        for how in ("mkdir -p /tmp/.hotcell/stdin/x", "rm -rf /tmp/.hotcell; ln -s /etc /tmp/.hotcell",
                       "rm -rf /tmp/.hotcell; touch /tmp/.hotcell", "rm -rf /tmp/.hotcell"):
            session.run(how)
            result = session.run("cat", stdin="mine")
            assert result.get("out") == "mine" or "error" in result, result
        assert session.run("cat", stdin="mine")["out"] == "mine"
