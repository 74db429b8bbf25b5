"""What a warden mounts to build its cells is not seen on the host, even where the host's mounts are
shared, as they are under systemd."""
import subprocess

from escape import AS_ROOT, as_whom

SCRIPT = r"""
set -e
cut -d' ' -f5- /proc/self/mountinfo | sort >"$1/before"
"$2" run --isolation="$3" -l sh -c 'echo up; read line' --stdin=- >"$1/out" <"$1/in" &
exec 9>"$1/in"
while ! grep -q up "$1/out"; do sleep 0.01; done
cut -d' ' -f5- /proc/self/mountinfo | sort >"$1/during"
exec 9>&-
wait
cut -d' ' -f5- /proc/self/mountinfo | sort >"$1/after"
"""


def test_mounts_do_not_reach_the_host(attack):
    directory = attack.new_directory()
    subprocess.run(["mkfifo", attack.own(directory) / "in"], check=True)
    attack.own(directory / "in")
    # In a mount namespace that is shared within itself, as if it were a systemd host's.
    words = ["unshare", "--mount", "--propagation", "shared"] if AS_ROOT else \
        ["unshare", "--user", "--map-current-user", "--mount"]
    done = subprocess.run([*words, *as_whom(attack.who), "sh", "-c", SCRIPT, "sh", directory, attack.hotcell,
                           attack.isolation], env=attack.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    before, during, after = ((directory / name).read_text() for name in ("before", "during", "after"))
    assert "shared:" in before or not AS_ROOT
    assert during == before
    assert after == before
