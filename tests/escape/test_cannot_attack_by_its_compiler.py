"""The compiler runs on hostile text, so it runs in the cell too: it reads nothing of the host's and it
ends."""
import re


def test_the_compiler_reads_nothing_of_the_hosts(attack, host_secret):
    path, text = host_secret
    for attempt in (f'#include "{path}"', f'__asm__(".incbin \\"{path}\\"");', '#include "/etc/shadow"',
                    '__asm__(".incbin \\"/proc/1/environ\\"");'):
        result = attack(attempt + "\nint main(void) { return 0; }", language="c")
        assert result.compile["exit_code"] != 0, attempt
        assert text not in result.compile["stderr"]
        assert re.search("No such file|ot found|ermission denied", result.compile["stderr"]), result


def test_what_it_includes_of_its_own_is_there(attack):
    """So that the test above can fail."""
    result = attack("""
#include <stdio.h>
__asm__(".section .rodata\\nmine: .incbin \\"/etc/passwd\\"\\n.byte 0\\n.text");
extern const char mine[];
int main(void) { return puts(mine) < 0; }""", language="c")
    assert "cell:x:1000" in result.stdout, result


def test_a_compiler_that_does_not_end_is_ended(attack):
    """It reads zeros until it has all the memory that compilers get."""
    result = attack('#include "/dev/zero"\nint main(void) { return 0; }', language="c")
    assert result.reason in ("timeout", "cpu_limit", "memory_limit", "exited", "signaled"), result
    assert result.stdout == "" and result.compile["exit_code"] != 0


def test_a_program_larger_than_it_may_be_is_not_written(attack):
    result = attack("char x[1 << 30] = { 1 };\nint main(void) { return x[5]; }", language="c", disk="16M",
                    file_size="16M")
    assert result.compile["exit_code"] != 0
    assert result.stdout == ""


def test_what_a_compiler_prints_is_kept_apart(attack):
    result = attack('#warning "forged"\n#include <stdio.h>\nint main(void) { return puts("output") < 0; }',
                    language="c")
    assert result.stdout == "output\n" and result.stderr == ""
    assert "forged" in result.compile["stderr"]
