"""Building and calling bench/client.c."""
import os
import subprocess

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(HERE)
OUT = os.path.join(HERE, "out")
BUILD = os.path.join(TOP, os.environ.get("BUILD", "build"))
HOTCELL = os.path.join(BUILD, "hotcell")
PROGRAM = os.path.join(OUT, "client")


def is_built(*sources):
    return os.path.exists(PROGRAM) and all(
        os.path.getmtime(source) < os.path.getmtime(PROGRAM) for source in sources)


def build():
    source = os.path.join(HERE, "client.c")
    if is_built(source, os.path.join(TOP, "include", "hotcell.h")):
        return
    os.makedirs(OUT, exist_ok=True)
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-Wall", "-Wextra", "-Werror",
                    "-I" + os.path.join(TOP, "include"), source,
                    "-o", PROGRAM, "-L" + BUILD, "-lhotcell", "-Wl,-rpath," + BUILD], check=True)


def write_plan(path, lines):
    """Each line is a list of fields; client.c says which."""
    with open(path, "w") as file:
        for line in lines:
            file.write("\t".join(field.replace("\n", "\\n") for field in line) + "\n")
    return path


def command(plan, *mode):
    return [PROGRAM, os.path.join(BUILD, "hotcell-warden"), TOP, plan, *map(str, mode)]
