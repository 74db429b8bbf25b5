"""The short form of bench/soak."""
import importlib.machinery
import importlib.util

import harness


def test_three_hundred_runs_of_every_kind_leave_nothing():
    loader = importlib.machinery.SourceFileLoader("soak", str(harness.ROOT / "bench" / "soak"))
    soak = importlib.util.module_from_spec(importlib.util.spec_from_loader("soak", loader))
    loader.exec_module(soak)
    before, after, grown = soak.soak(300)
    assert not [name for name in grown if name != "daemon's memory" or not harness.IS_SANITIZED], (before, after)
