"""What is asked of vm cells besides time of a run: what an idle one weighs, and what a second process
takes in one."""
import os
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import client

CELLS = 1000
SPAWNS = 40
# Prints the median, in microseconds, of what one takes.
SPAWN = f"""import subprocess, time
times = []
for i in range({SPAWNS}):
    start = time.perf_counter_ns()
    subprocess.run(["true"])
    times.append(time.perf_counter_ns() - start)
print(sorted(times)[{SPAWNS // 2}] // 1000)
"""


def available_kb():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))


def settled_kb():
    """Once it has stopped to change much."""
    before = available_kb()
    for _ in range(60):
        time.sleep(1)
        now = available_kb()
        if abs(now - before) < 2048:
            return now
        before = now
    return before


def idle_mib(plan, cells):
    """MiB for each of so many warm Python machines that wait, everything included."""
    before = settled_kb()
    with subprocess.Popen(client.command(plan, "idle", cells), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        if process.stdout.readline() != "idle\n":
            sys.exit("bench: the cells could not be made")
        after = settled_kb()
        process.stdin.write("go\n")
        process.stdin.flush()
        if process.stdout.readline() != "done\n":
            sys.exit("bench: an idle machine did not work")
    return (before - after) / 1024 / cells


def spawn_us(command):
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def spawn_ratio(rounds):
    """How much longer a second process takes in a vm, and its time there."""
    ratios, inside = [], []
    for _ in range(rounds):
        bare = spawn_us(["/usr/bin/python3", "-c", SPAWN])
        inside.append(spawn_us([client.HOTCELL, "run", "--isolation", "vm", "-l", "python", "-c", SPAWN]))
        ratios.append(inside[-1] / bare)
    return statistics.median(ratios), statistics.median(inside) / 1000


def lines(work, quick, place_dir):
    """What is to be told, one sentence for each."""
    if not work.in_vm:
        return ["machines: left out: there is no /dev/kvm"]
    ratio, ms = spawn_ratio(3 if quick else 9)
    cells = 100 if quick else CELLS
    plan = client.write_plan(os.path.join(place_dir, "idle"),
                             [["idle", "1", work.want, "warm", "vm", work.language, work.code]])
    mib = idle_mib(plan, cells)
    return [
        f'subprocess.run(["true"]) in a vm: {ms:.1f} ms, {ratio:.1f} x the bare process (wanted: at most 8)',
        f"an idle warm Python vm: {mib:.1f} MiB of memory, {cells} at once (wanted: at most 4)",
    ]
