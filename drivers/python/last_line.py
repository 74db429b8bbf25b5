"""last_line: `python3 last_line.py FILE [ARGS]` runs FILE as `python3 FILE ARGS` would and then, if
its last statement is an expression, prints the value of that as the REPL does (sys.displayhook).

The program gets this very module as its __main__, emptied first: pickle, multiprocessing and the
order in which things are cleared at the end then behave as they always do. Whatever is still needed
here lives in the locals of run(). Frames of this file are taken out of an uncaught error's
traceback just before it is printed; everything else about an uncaught error (exit codes,
SystemExit, Ctrl-C, a sys.excepthook of the program's own) is left to the interpreter.
"""


def run(namespace):
    import ast
    import importlib.machinery
    import os
    import sys

    helper = namespace["__file__"]

    def read(path):
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError as error:
            print(f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] "
                  f"{error.strerror}", file=sys.stderr)
            sys.exit(2)

    def compile_parts(source, path):
        """All statements but a last expression, and that one or None. Both are compiled before
        any runs: a syntax error must come before the program does anything."""
        tree = compile(source, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Interactive([tree.body.pop()])
        code = compile(tree, path, "exec", dont_inherit=True)
        if last is None:
            return code, None
        # What `from __future__ import` switched on holds for the last statement as well.
        future = code.co_flags & future_flags()
        return code, compile(last, path, "single", flags=future, dont_inherit=True)

    def future_flags():
        import __future__
        flags = 0
        for name in __future__.all_feature_names:
            flags |= getattr(__future__, name).compiler_flag
        return flags

    def become_main(path):
        loader = importlib.machinery.SourceFileLoader("__main__", path)
        builtins = namespace["__builtins__"]
        namespace.clear()
        namespace.update(
            __name__="__main__", __doc__=None, __package__=None, __loader__=loader,
            __spec__=None, __annotations__={}, __builtins__=builtins, __file__=path,
            __cached__=None)

    def strip_helper_frames():
        hook = sys.excepthook

        def excepthook(kind, error, traceback):
            while traceback and traceback.tb_frame.f_code.co_filename == helper:
                traceback = traceback.tb_next
            sys.excepthook = hook
            sys.last_traceback = error.__traceback__ = traceback
            hook(kind, error, traceback)

        sys.excepthook = excepthook

    sys.argv[:] = sys.argv[1:]
    path = os.path.join(os.getcwd(), sys.argv[0])
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    source = read(path)
    become_main(path)
    try:
        statements, last = compile_parts(source, path)
        exec(statements, namespace)
        if last:
            exec(last, namespace)
    except BaseException:
        strip_helper_frames()
        raise


run(globals())
