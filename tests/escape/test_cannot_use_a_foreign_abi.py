"""System calls by other numbers (32-bit, x32) go past a filter that thinks in ours: the process that
makes one is killed."""
import platform
import subprocess

ACROSS = r"""
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	long result;

	puts("before");
	fflush(stdout);
	%s
	printf("after: %%ld\n", result);
	return 0;
}
"""

# getpid, which is allowed by its own number; and mount, which is not by any.
CALLS = {
    "int 0x80": """__asm__ volatile("int $0x80" : "=a"(result) : "a"(20)
		: "memory", "r8", "r9", "r10", "r11");""",
    "int 0x80 mount": """__asm__ volatile("int $0x80" : "=a"(result) : "a"(21), "b"(0), "c"(0) : "memory",
		"r8", "r9", "r10", "r11");""",
    "x32": "result = syscall(0x40000000 + 39);",
    "x32 execve": "result = syscall(0x40000000 + 520, 0, 0, 0);",
}

if platform.machine() == "x86_64":
    def test_cannot_use_a_foreign_abi(attack):
        for name, code in CALLS.items():
            result = attack(ACROSS % code, language="c")
            assert result.compile["exit_code"] == 0, result
            if attack.in_vm and name.startswith("x32"):
                # A VMM has one table of calls, and no such number in it.
                assert (result.stdout, result.reason) == ("before\nafter: -1\n", "exited"), name
                continue
            assert result.stdout == "before\n", name
            # To a guest's processor int 0x80 is nothing that it knows, or nothing that it may.
            signals = {4, 11} if attack.in_vm else {31}
            assert result.reason == "signaled" and result.exit_code - 128 in signals, f"{name}: {result}"

    def test_outside_they_come_back(attack):
        """So that the test above can fail: the program survives its call, whatever the kernel says."""
        for name in ("int 0x80", "x32"):
            program = attack.new_directory() / "program"
            subprocess.run(["gcc", "-x", "c", "-o", program, "-"], input=ACROSS % CALLS[name], text=True,
                           check=True)
            done = subprocess.run([program], capture_output=True, text=True)
            # A kernel without 32-bit programs answers int 0x80 with a fault.
            assert "after" in done.stdout or done.returncode == -11, name


def test_a_foreign_program_does_not_start(attack):
    """A 32-bit program is an ELF file that the kernel would run by another table of calls."""
    # push 20; pop eax; int 0x80; mov ebx, eax; push 1; pop eax; int 0x80
    result = attack(r"""
import struct
code = b"\x6a\x14\x58\xcd\x80\x89\xc3\x6a\x01\x58\xcd\x80"
base, size = 0x8048000, 52 + 32 + len(code)
header = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\x01\x01\x01", 2, 3, 1, base + 84, 52, 0, 0, 52, 32,
                     1, 0, 0, 0)
segment = struct.pack("<IIIIIIII", 1, 0, base, base, size, size, 5, 4096)
with open("/tmp/old", "wb") as f:
    f.write(header + segment + code)
os.chmod("/tmp/old", 0o755)
print("before", flush=True)
pid = os.fork()
if pid == 0:
    try:
        os.execv("/tmp/old", ["old"])
    except OSError as e:
        os._exit(200)
_, status = os.waitpid(pid, 0)
tell({"signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, "exit": os.WEXITSTATUS(status)})""")
    assert result.said["signal"] in (31, 11) or result.said["exit"] == 200, result
