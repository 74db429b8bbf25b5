"""Settings, arguments and libraries that the caller passes on reach the program, and nothing of
hotcell's own."""
import subprocess

import pytest

LIBRARY = r"""
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void)
{
	dprintf(open("/tmp/loaded", O_WRONLY | O_CREAT | O_APPEND, 0644), "%d\n", (int)getpid());
}
"""


def test_a_preloaded_library_is_not_loaded_into_the_keeper(attack):
    directory = attack.new_directory()
    directory.chmod(0o755)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", directory / "evil.so", "-x", "c", "-"], input=LIBRARY,
                   text=True, check=True)
    pids, me = attack("""
import subprocess
subprocess.run(["/bin/true"])
tell([open("/tmp/loaded").read().split(), os.getpid()])""", f=directory / "evil.so",
                      env="LD_PRELOAD=/workspace/evil.so").said
    assert str(me) in pids and len(pids) >= 2
    assert "1" not in pids


@pytest.mark.every_isolation
@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "PATH", "HOME", "TMPDIR",
                                  "GCONV_PATH", "MALLOC_CHECK_", "HOTCELL", "XDG_CONFIG_HOME", "BASH_ENV"])
def test_no_setting_of_the_program_is_one_of_hotcells(attack, name):
    result = attack(f"printf '%s\\n' \"${name}\"", language="sh", env=f"{name}=/nowhere/to/be/found")
    assert (result.stdout, result.status) == ("/nowhere/to/be/found\n", 0)


@pytest.mark.every_isolation
def test_an_environment_that_is_too_large_is_refused_in_words(attack):
    result = attack("print(1)", env=[f"A{i}={'x' * 10_000}" for i in range(12)])
    assert result.status == 125 and result.remarks.startswith("hotcell: "), result


@pytest.mark.every_isolation
def test_arguments_arrive_as_they_are(attack):
    words = ["", " ", "a b", "'\"", "$(id)", "`id`", "\n", "--help", "-", "%s%n", "\udcff", "x" * 10_000, "*"]
    said = attack("tell([os.fsencode(word).hex() for word in sys.argv[1:]])", arg=words).said
    assert said == [word.encode(errors="surrogateescape").hex() for word in words]


@pytest.mark.every_isolation
def test_too_many_arguments_are_refused_in_words(attack):
    result = attack("print(1)", arg=["x"] * 200)
    assert result.status == 0 or result.remarks.startswith("hotcell"), result


def test_a_program_cannot_start_with_more_than_the_kernel_takes(attack):
    said = attack(r"""
tell([attempt(os.execv, "/bin/true", words)
      for words in (["x" * 100_000] * 100, ["x" * 200_000])])""").said
    assert said == ["E2BIG", "E2BIG"]
