"""The work that every contender does."""
import dataclasses
import os
import shutil


@dataclasses.dataclass
class Work:
    id: str
    title: str
    language: str  # as hotcell calls it
    code: str
    want: str
    argv: list  # as a bare process
    modules: list = None  # what a fork server has imported; None: it can have none
    walls: bool = True  # whether it says anything about walls that are built anew for each run

    @property
    def in_vm(self):
        """Whether it can be tried in vm isolation."""
        return self.language in ("python", "sh", "javascript") and os.access("/dev/kvm", os.R_OK | os.W_OK)


def _python(id, title, code, want, modules, walls=True):
    # Not the one on PATH, which may be a shim that starts a shell first.
    return Work(id, title, "python", code, want, ["/usr/bin/python3", "-c", code], modules, walls)


def all_works():
    node = "/usr/bin/node" if os.path.exists("/usr/bin/node") else shutil.which("node") or "node"
    return [
        _python("W1", "Python print(sum(range(1,101)))", "print(sum(range(1,101)))", "5050\n", []),
        Work("W2", "node console.log(2+2)", "javascript", "console.log(2+2)", "4\n",
             [node, "-e", "console.log(2+2)"]),
        Work("W3", "sh -c 'echo hi'", "sh", "echo hi", "hi\n", ["/bin/sh", "-c", "echo hi"]),
        _python("W4", "Python with numpy",
                "import numpy; print(int(numpy.arange(10).sum()))", "45\n", ["numpy"]),
        _python("W5", "numpy, 100 x 100 product",
                "import numpy; a = numpy.ones((100, 100)); print(int((a @ a)[0, 0]))", "100\n", ["numpy"], False),
        _python("W6", "pandas groupby",
                "import pandas; print(pandas.DataFrame({'a': [1, 1, 2], 'b': [3, 4, 5]}).groupby('a').sum().b[1])",
                "7\n", ["pandas"], False),
        _python("W7", "Python, a loop of 0.3 s",
                "n = 0\nfor i in range(4000000): n += i & 3\nprint(n)", "6000000\n", [], False),
    ]
