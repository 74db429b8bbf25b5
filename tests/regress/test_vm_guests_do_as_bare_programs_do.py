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


def test_a_shared_mapping_may_become_what_its_file_was_opened_for(hotcell):
    code = """
import ctypes, errno, fcntl, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
open("f", "wb").write(b"a" * 8192)
def protect(at, rights):
    return "done" if libc.mprotect(at, 4096, rights) == 0 else errno.errorcode[ctypes.get_errno()]
def try_it(fd, first, flags=mmap.MAP_SHARED):
    at = libc.mmap(None, 8192, first, flags, fd, 0)
    said = [protect(at, 3)]
    if said == ["done"]:
        ctypes.memset(at, 98, 4)
        said += [protect(at, 1), protect(at, 0), protect(at, 3)]
        ctypes.memset(at + 4, 99, 4)
        said.append(ctypes.string_at(at, 8).decode())
    print(*said)
for first in (0, 1, 3):
    try_it(os.open("f", os.O_RDWR), first)
    try_it(-1, first, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
    if first != 3:
        try_it(os.open("f", os.O_RDONLY), first)
print(open("f").read()[:9])
fd = os.memfd_create("m", os.MFD_ALLOW_SEALING)
os.truncate(fd, 8192)
fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
try_it(fd, 1)
"""
    done = "done done done done bbbbcccc"
    assert says(hotcell, code) == (
        "\n".join([done, done, "EACCES", done, done, "EACCES", done, done, "bbbbcccca", "EACCES"]) + "\n", 0)


def test_made_up_files_have_no_attributes(hotcell):
    code = """
import errno, os
def tell(call, *args, **more):
    try:
        print(call(*args, **more))
    except OSError as e:
        print(errno.errorcode[e.errno])
for path in ("/proc/self/status", "/dev/null", "/proc", "/proc/self/fd"):
    tell(os.listxattr, path)
    tell(os.getxattr, path, "user.a")
    tell(os.setxattr, path, "user.a", b"x")
    tell(os.removexattr, path, "user.a", follow_symlinks=False)
null = os.open("/dev/null", os.O_RDWR)
tell(os.listxattr, null)
tell(os.getxattr, null, "user.a")
tell(os.listxattr, "/proc/self/exe")
tell(os.listxattr, "/proc/nothing")
"""
    none = "[]\nENOTSUP\nENOTSUP\nENOTSUP\n"
    assert says(hotcell, code) == (none * 4 + "[]\nENOTSUP\n[]\nENOENT\n", 0)


def test_what_has_no_name_can_be_executed_by_its_descriptor(hotcell):
    code = """
import errno, os, shutil
def run(how, argv):
    print(flush=True, end="")
    pid = os.fork()
    if pid == 0:
        try:
            os.execve(how, argv, {"X": "1"})
        except OSError as e:
            print(errno.errorcode[e.errno], flush=True)
        os._exit(99)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
def memfd(content, flags=os.MFD_CLOEXEC):
    fd = os.memfd_create("mine", flags)
    os.write(fd, content)
    os.lseek(fd, 0, 0)
    return fd
tell = ["p", "-c", "import os, sys; print(sys.argv, os.environ['X'], os.readlink('/proc/self/exe')); sys.exit(7)", "one"]
fd = memfd(open("/usr/bin/python3", "rb").read())
run(fd, tell)                                     # execveat with AT_EMPTY_PATH
run(f"/proc/self/fd/{fd}", tell)
fd = memfd(open("/bin/sh", "rb").read())
run(f"/dev/fd/{fd}", ["sh", "-c", "sleep 0; exec true"])
shutil.copy("/bin/echo", "e")
gone = os.open("e", os.O_RDONLY)
run(gone, ["echo", "named"])
os.unlink("e")
run(gone, ["echo", "deleted"])
script = memfd(b"#!/bin/sh\\necho script $1\\n", 0)
run(script, ["s", "a"])
run(memfd(b"#!/bin/sh\\n"), ["s"])                # closed before its interpreter could read it
run(memfd(b"nothing"), ["s"])
run(memfd(b""), ["s"])
os.fchmod(script, 0o600)
run(script, ["s"])
run(os.pipe()[0], ["s"])
run(os.open("/dev/null", os.O_RDONLY), ["s"])
run(os.open("/", os.O_RDONLY), ["s"])
for number in (1000, 1001, 1002, 1005, 500):      # the VMM's own, and nobody's
    run(f"/proc/self/fd/{number}", ["s"])
    run(f"/dev/fd/{number}", ["s"])
run(memfd(b"#!/dev/fd/1001\\n", 0), ["s"])
print(len(os.listdir("/proc/self/fd")) < 40)
"""
    told = "['-c', 'one'] 1 /memfd:mine (deleted)\n7\n"
    out, status = says(hotcell, code)
    assert out == (
        told * 2 + "0\n" + "named\n0\n" + "deleted\n0\n" + "script a\n0\n" + "ENOENT\n99\n" + "ENOEXEC\n99\n" * 2
        + "EACCES\n99\n" * 4 + "ENOENT\n99\n" * 11 + "True\n")
    assert status == 0
