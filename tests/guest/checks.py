#!/usr/bin/python3
"""checks.py HOTCELL: run in the guest, as root, in a machine that is nobody's. See tools/guest."""
import os
import sys

import guest

# The order matters: each leaves the machine as the next one wants it.
import old_kernel  # noqa: F401  no cgroup yet
import on_cgroup2  # noqa: F401  mounts version 2
import delegated  # noqa: F401
import without_cgroup  # noqa: F401  unmounts it

for user in (guest.ROOT, guest.NOBODY):
    os.makedirs(f"/tmp/home-{user}")
    os.chown(f"/tmp/home-{user}", user, user)
sys.exit(1 if guest.run_checks() else 0)
