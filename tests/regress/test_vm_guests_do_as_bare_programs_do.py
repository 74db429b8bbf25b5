"""What CPython's own tests found to be different in a guest."""
import pytest

pytestmark = pytest.mark.needs_root("an ordinary user may not be in the group kvm")


def says(hotcell, code):
    object = hotcell.json("--isolation", "vm", "-l", "python", "-c", code)
    return object["stdout"], object["exit_code"]


def test_a_thread_that_computes_keeps_no_sleeper_asleep(hotcell):
    code = """
import os, threading
threading.Timer(0.1, lambda: os._exit(3)).start()
while True:
    pass
"""
    assert says(hotcell, code) == ("", 3)


def test_a_broken_pipe_that_was_ignored_ends_no_later_child(hotcell):
    code = """
import os, subprocess
r, w = os.pipe()
os.close(r)
try:
    os.write(w, b"x")
except BrokenPipeError:
    print(subprocess.run(["true"]).returncode)
"""
    assert says(hotcell, code) == ("0\n", 0)


def test_a_child_hears_at_once_that_nobody_reads(hotcell):
    code = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import os; input(); os.write(1, b'x')"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
child.stdout.close()
print(b"BrokenPipeError" in child.communicate(b"go\\n")[1])
"""
    assert says(hotcell, code) == ("True\n", 0)


def test_who_opens_a_fifo_to_read_waits_for_a_writer(hotcell):
    code = """
import os, time
os.mkfifo("f")
if os.fork() == 0:
    open("f").close()
    os._exit(0)
time.sleep(0.1)
open("f", "w").close()
print(os.wait()[1])
"""
    assert says(hotcell, code) == ("0\n", 0)


def test_a_shared_mapping_can_grow(hotcell):
    code = """
import mmap
f = open("f", "w+b")
f.truncate(5000)
m = mmap.mmap(f.fileno(), 0)
m.resize(3 << 20)
m[-1] = 65
print(f.seek(-1, 2), f.read())
"""
    assert says(hotcell, code) == ("%d b'A'\n" % ((3 << 20) - 1), 0)


def test_a_limit_of_address_space_is_heard_of_as_an_error(hotcell):
    code = """
import resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_AS, (300 << 20, resource.RLIM_INFINITY))
try:
    bytearray(400 << 20)
except MemoryError:
    print("told")
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
"""
    assert says(hotcell, code) == ("told\n", 0)


def test_a_file_cannot_be_given_to_somebody_else(hotcell):
    code = """
import errno, os
open("f", "w").close()
for user, group in ((0, -1), (-1, 0), (12345, 12345), (os.getuid(), os.getgid()), (-1, -1)):
    try:
        os.chown("f", user, group)
        os.fchown(os.open("f", os.O_RDONLY), user, group)
        print("done")
    except OSError as e:
        print(errno.errorcode[e.errno])
"""
    assert says(hotcell, code) == ("EPERM\nEPERM\nEPERM\ndone\ndone\n", 0)
