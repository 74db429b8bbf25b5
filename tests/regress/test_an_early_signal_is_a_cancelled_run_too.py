"""A signal before the program began ended with 125, or was lost until the time was over."""
import json
import random
import signal
import time

import harness


def test_the_object_says_cancelled_whenever_the_signal_comes(hotcell, isolation):
    choose = random.Random(isolation)
    for _ in range(20):
        process = hotcell.start("run", "--json", "-l", "sh", "-c", "sleep 1000", "--isolation", isolation)
        time.sleep(choose.uniform(0, 0.03))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=harness.PATIENCE_S)
        if process.returncode == -signal.SIGINT:
            continue  # it came before hotcell listened, as it would to any program
        assert process.returncode == 130
        assert json.loads(out)["reason"] == "cancelled"
        assert err == b""
