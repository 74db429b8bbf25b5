"""warm: `python3 warm.py [MODULE…]` imports the modules, warms itself, and waits for a program to run.

In a machine it is what a snapshot is made of: the machine is stopped while this waits in its first
read, and every run starts from there, once. In a container it waits for its one run as it is. So nothing
here is used twice, and what one run leaves in the interpreter the next one never sees. Unless it is asked to
keep that: then it goes on to read the next request, as a notebook does.

A request is made of fields that end with a NUL:

    flags         l: print the value of a last expression, as the REPL does
                  a: the program is alone, there are no other files in its workspace
                  n: its input is /dev/null, which is yet to be opened (by pipes only)
                  i: its input is a fifo, which is yet to be opened (likewise)
                  s: it has input of its own
                  k: all that it leaves is kept for the next request
    path          of the program
    N, N × field  its arguments
    N, N × field  environment variables, NAME=value
    text          the program itself; if there is none, it is read from path
    seed          the last 64 bytes, put there by the machine itself: random digits, and never the same

The exit status goes back as one byte, and the seed with it. Outside of a warm machine descriptor 999 is a pipe, from
which the length of the rest comes first; descriptor 998 is another, by which the driver says that it is ready,
and that it has opened a fifo, and takes the answer. Then it waits for the pipe's end, and ends with the same
status.
"""


def run(namespace, preload):
    import _random
    import ast
    import atexit
    import builtins
    import gc
    import importlib.machinery
    import io
    import linecache
    import os
    import re
    import signal
    import sys
    import threading
    import traceback as tracebacks
    import types

    REQUESTS = 999
    ANSWERS = 998
    PORTION = 8192  # more would come from mmap, and be given back to it: two calls
    SEED_SIZE = 64
    NUMPY = 1  # a word that only its seed has
    FIFO = "/tmp/.hotcell/stdin"
    WORKSPACE = "/workspace/"
    USUAL_PATH = "/workspace/main.py"
    USUAL = b"a\0/workspace/main.py\0000\0000\000"  # what most requests begin with
    # And those that come by a service, which shows the value of a last expression.
    SERVED_PATH = "/workspace/__main__.py"
    SERVED = b"la\0/workspace/__main__.py\0000\0000\000"
    INTERRUPTED = object()  # an exit status: killed by SIGINT, as the interpreter does it to itself
    DECLARES_ENCODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+").match
    LINES_TO_LOOK_AT = 200  # from the end
    BEGINS_STATEMENT = re.compile(rb"(?!(?:else|elif|except|finally)\b)[^\s#)\]}]").match
    IS_COMPOUND = re.compile(rb"(?:if|for|while|try|with|def|class|async)\b").match
    MAY_BE_COMPOUND = re.compile(rb"match\b").match
    ODD = re.compile(rb"[\r\f]|__future__").search  # lines that end otherwise, and what all parts must know
    own = namespace["__file__"]
    SourceFileLoader = importlib.machinery.SourceFileLoader
    seed_generator = _random.Random.seed

    for name in preload:
        try:
            __import__(name)
        except ImportError:
            pass  # what is not installed cannot be warm

    def take_list(data):
        count, _, data = data.partition(b"\0")
        if count == b"0":
            return [], data
        *fields, data = data.split(b"\0", int(count))
        return list(map(os.fsdecode, fields)), data

    def parse(data):
        flags, path, data = data.split(b"\0", 2)
        arguments, data = take_list(data)
        environment, source = take_list(data)
        return flags, os.fsdecode(path), arguments, environment, source

    def names_of_main(path):
        return dict(
            __name__="__main__", __doc__=None, __package__=None, __loader__=SourceFileLoader("__main__", path),
            __spec__=None, __annotations__={}, __builtins__=namespace["__builtins__"], __file__=path,
            __cached__=None)

    def check_encoding(source, path):
        """compile() minds bytes that are no UTF-8 less than the interpreter does in a file."""
        if source.isascii():
            return
        try:
            source.decode()
        except UnicodeDecodeError as error:
            if not any(map(DECLARES_ENCODING, source.split(b"\n", 2)[:2])):
                line = source.count(b"\n", 0, error.start) + 1
                raise SyntaxError(
                    f"Non-UTF-8 code starting with '\\x{source[error.start]:02x}' in file {path} on line"
                    f" {line}, but no encoding declared; see https://peps.python.org/pep-0263/ for"
                    " details") from None

    def find_last_statement(source):
        """Where it begins, most likely: the last line that is not indented, and does not go on with another one."""
        end = len(source)
        for _ in range(LINES_TO_LOOK_AT):
            start = source.rfind(b"\n", 0, end) + 1
            if BEGINS_STATEMENT(source, start):
                return start
            if not start:
                break
            end = start - 1
        return None

    def compile_split(source, path):
        """Both parts by themselves: if both are whole, they are what they would be together. A tree of the program
        would be sure, but takes half as long again. None if only that can tell."""
        start = find_last_statement(source)
        if start is None or ODD(source) or any(map(DECLARES_ENCODING, source.split(b"\n", 2)[:2])):
            return None
        statements, last = source[:start], source[start:]
        if b";" in last or MAY_BE_COMPOUND(last):
            return None
        mode = "exec" if IS_COMPOUND(last) else "single"  # which would show values within loops as well
        above = b"\n" * statements.count(b"\n")
        try:
            last = compile(above + last, path, mode, dont_inherit=True)
            return compile(statements, path, "exec", dont_inherit=True) if statements else None, last
        except (SyntaxError, ValueError):
            return None

    def compile_parts(source, path, shows_last):
        check_encoding(source, path)
        if not shows_last:
            return compile(source, path, "exec", dont_inherit=True), None
        parts = compile_split(source, path)
        if parts:
            return parts
        tree = compile(source, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Interactive([tree.body.pop()])
        code = compile(tree, path, "exec", dont_inherit=True)
        if last is None:
            return code, None
        future = code.co_flags & FUTURE_FLAGS
        return code, compile(last, path, "single", flags=future, dont_inherit=True)

    def future_flags():
        import __future__
        flags = 0
        for name in __future__.all_feature_names:
            flags |= getattr(__future__, name).compiler_flag
        return flags

    def fresh_randomness(seed):
        """Two runs must never draw the same numbers, though they start from the same memory. Nor must the two
        generators: they are of one kind, and from the same words they would make the same numbers."""
        random = sys.modules.get("random")
        if random:
            seed_generator(random._inst, int.from_bytes(seed, "little"))
            random._inst.gauss_next = None
        numpy_random = sys.modules.get("numpy.random")
        if numpy_random:
            numpy_random.seed([NUMPY, *(int.from_bytes(seed[i:i + 4], "little") for i in range(0, SEED_SIZE, 4))])

    def status_of(exit):
        code = exit.code
        if code is None:
            return 0
        if isinstance(code, int):
            return code & 0xff
        print(code, file=sys.stderr)
        return 1

    def without_driver(error):
        traceback = error.__traceback__
        while traceback and traceback.tb_frame.f_code.co_filename == own:
            traceback = traceback.tb_next
        error.__traceback__ = traceback
        return traceback

    def report(error):
        traceback = without_driver(error)
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, traceback
        try:
            sys.excepthook(type(error), error, traceback)
        except SystemExit as exit:
            return status_of(exit)
        except BaseException as hooks:
            print("Error in sys.excepthook:", file=sys.stderr)
            hooks.__context__ = None
            sys.__excepthook__(type(hooks), hooks, without_driver(hooks))
            print("\nOriginal exception was:", file=sys.stderr)
            sys.__excepthook__(type(error), error, traceback)
        return 1

    def execute(source, path, shows_last):
        try:
            if not source:
                with open(path, "rb") as file:
                    source = file.read()
            statements, last = compile_parts(source, path, shows_last)
            if statements:
                exec(statements, namespace)
            if last:
                exec(last, namespace)
        except SystemExit as exit:
            return status_of(exit)
        except KeyboardInterrupt as error:
            report(error)
            return INTERRUPTED
        except BaseException as error:
            return report(error)
        return 0

    def let_go():
        """The program's own objects end before it does, and may say so."""
        for name in "last_type", "last_value", "last_traceback":
            sys.__dict__.pop(name, None)
        if len(namespace) > NAMES_OF_MAIN:
            names = [name for name in namespace if name != "__builtins__"]
            for name in sorted(names, key=lambda name: not name.startswith("_")):
                namespace[name] = None
        # What is not old yet is found without a look at the rest.
        _, middle, old = gc.get_count()
        gc.collect(2 if old else 1 if middle else 0)

    def is_alone():
        """Nobody is to be waited for, and nobody asked to be told of the end."""
        return (len(threading._active) == 1 and not threading._limbo and not atexit._ncallbacks()
                and len(threading._threading_atexits) == exit_hooks)

    def finish(status):
        """What the interpreter does at its end, as far as a program can tell."""
        if not is_warming and not is_alone():
            try:
                threading._shutdown()
            except BaseException as error:
                report(error)
            atexit._run_exitfuncs()
        if len(threading._active) == 1:  # daemons would be surprised
            let_go()
        for stream in sys.stdout, sys.stderr:
            try:
                stream.flush()
            except (AttributeError, ValueError):
                pass  # the program has closed or replaced it
            except OSError:
                status = status or 120
        return status

    def is_open(fd):
        try:
            os.fstat(fd)
        except OSError:
            return False
        return True

    def set_input(fd):
        os.dup2(fd, 0)  # which other programs inherit
        os.close(fd)

    def open_input(flags):
        nonlocal no_input
        ahead, no_input = no_input, None
        if b"n" in flags:
            set_input(os.open("/dev/null", os.O_RDONLY) if ahead is None else ahead)
            return
        if ahead is not None:
            os.close(ahead)
        if b"i" in flags:
            set_input(os.open(FIFO, os.O_RDONLY))
            os.write(ANSWERS, b"o")

    def flags_of(request):
        return request[:request.index(b"\0")]

    def receive_by_pipes():
        length, _, data = os.read(REQUESTS, 65536).partition(b"\0")
        if not length:
            os._exit(0)  # there will be none
        while len(data) < int(length):
            data += os.read(REQUESTS, 65536)
        flags = flags_of(data)
        open_input(flags)
        return flags.translate(None, b"ni") + data[len(flags):]

    def receive():
        if by_pipes:
            return receive_by_pipes()
        data = os.read(REQUESTS, PORTION)
        if len(data) < PORTION:
            return data
        parts = [data]
        while len(parts[-1]) == PORTION:
            parts.append(os.read(REQUESTS, PORTION))
        return b"".join(parts)

    def put_on(path, arguments):
        sys.argv[:] = [path.removeprefix(WORKSPACE), *arguments]
        sys.orig_argv[1:] = sys.argv
        sys.path[0] = path.rpartition("/")[0]

    def serve_usual(data):
        """What is already so in the snapshot is not done again."""
        fresh_randomness(data[-SEED_SIZE:])
        namespace.clear()
        namespace.update(usual_names)
        return finish(execute(data[len(USUAL):-SEED_SIZE], USUAL_PATH, False))

    def serve_served(data):
        put_on(SERVED_PATH, [])
        fresh_randomness(data[-SEED_SIZE:])
        namespace.clear()
        namespace.update(served_names)
        return finish(execute(data[len(SERVED):-SEED_SIZE], SERVED_PATH, True))

    def serve(data):
        if data.startswith(USUAL):
            return serve_usual(data)
        if data.startswith(SERVED):
            return serve_served(data)
        flags, path, arguments, environment, source = parse(data[:-SEED_SIZE])
        for variable in environment:
            name, _, value = variable.partition("=")
            os.environ[name] = value
        put_on(path, arguments)
        fresh_randomness(data[-SEED_SIZE:])
        names = names_of_main(path)
        namespace.clear()
        namespace.update(names)
        return finish(execute(source, path, b"l" in flags))

    # ---- what is kept ----

    def on_interrupt(number, frame):
        """Between programs there is nothing to interrupt."""
        if in_program:
            raise KeyboardInterrupt

    def become_session(path, seed):
        names = names_of_main(path)
        namespace.clear()
        namespace.update(names)
        fresh_randomness(seed)
        if not is_warming:
            signal.signal(signal.SIGINT, on_interrupt)

    def renew_input(flags):
        """Of what another run was given to read, nothing is left."""
        nonlocal had_input
        if (b"s" in flags or had_input) and sys.stdin is sys.__stdin__ and sys.stdin:
            old = sys.stdin
            sys.stdin = sys.__stdin__ = open(0, encoding=old.encoding, errors=old.errors, closefd=False)
        had_input = b"s" in flags

    def name_source(source):
        """A name by which tracebacks find the text, whatever comes after it: it is in no file any more then."""
        nonlocal runs
        runs += 1
        name = f"<run {runs}>"
        text = source.decode(errors="replace")
        linecache.cache[name] = len(text), None, [line + "\n" for line in text.splitlines()], name
        return name

    def without_interruption(error):
        """The handler is not where the program was."""
        at = error.__traceback__
        while at and at.tb_next:
            if at.tb_next.tb_frame.f_code is on_interrupt.__code__:
                at.tb_next = None
            at = at.tb_next

    def report_kept(error):
        if sys.excepthook is not sys.__excepthook__:
            return report(error)
        without_driver(error)
        without_interruption(error)
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
        tracebacks.print_exception(error)
        return 1

    def execute_kept(source, path, shows_last):
        nonlocal in_program
        try:
            in_program = True
            if not source:
                with open(path, "rb") as file:
                    source = file.read()
            statements, last = compile_parts(source, name_source(source), shows_last)
            if statements:
                exec(statements, namespace)
            if last:
                exec(last, namespace)
            in_program = False
        except SystemExit as exit:
            in_program = False
            return status_of(exit)
        except KeyboardInterrupt as error:
            in_program = False
            report_kept(error)
            return 128 + signal.SIGINT
        except BaseException as error:
            in_program = False
            return report_kept(error)
        return 0

    def flush():
        for stream in sys.stdout, sys.stderr:
            try:
                stream.flush()
            except (AttributeError, ValueError, OSError):
                pass  # the program has closed or replaced it

    def serve_kept(data):
        flags, path, arguments, environment, source = parse(data[:-SEED_SIZE])
        if not runs:
            become_session(path, data[-SEED_SIZE:])
        for variable in environment:
            name, _, value = variable.partition("=")
            os.environ[name] = value
        namespace["__file__"] = path
        put_on(path, arguments)
        renew_input(flags)
        status = execute_kept(source, path, b"l" in flags)
        flush()
        return status

    def answer(request, status):
        os.write(ANSWERS if by_pipes else REQUESTS, bytes([status]) + request[-SEED_SIZE:])

    def keep_on(request):
        """One program after the other, as long as they are to be kept. Returns what is not."""
        own_pid = os.getpid()
        while b"k" in flags_of(request):
            status = serve_kept(request)
            if os.getpid() != own_pid:
                os._exit(finish(status))  # a child that the program has forked
            try:
                answer(request, status)
            except OSError:
                os._exit(status)  # the program has closed it: nobody else can ask
            request = receive()
        return request

    def warm_up():
        """The first use of many things is slow; here nobody waits for it."""
        nonlocal runs
        program = (b"la\0/workspace/main.py\0001\0a\0001\0A=1\0def f(x):\n    return [i * 2 for i in range(x)]\n"
                   b"class C:\n    pass\nprint(sum(range(101)), f(3), f'{1 + 1:>5}')\nC()\n")
        failure = USUAL + b"1/0"
        kept = dict(namespace), sys.stdout, sys.stderr, sys.argv[:], sys.orig_argv[:], sys.path[0], dict(os.environ)
        for _ in range(2 if by_pipes else 20):
            sys.stdout = sys.stderr = io.TextIOWrapper(io.BytesIO(), write_through=True)
            serve(program + bytes(SEED_SIZE))
            serve(USUAL + b"print(sum(range(101)))" + bytes(SEED_SIZE))
            serve(SERVED + b"print(sum(range(101)))" + bytes(SEED_SIZE))
            serve(failure + bytes(SEED_SIZE))
            serve_kept(b"k" + USUAL + b"x = 1\nprint(x)" + bytes(SEED_SIZE))
            serve_kept(b"k" + USUAL + b"1/0" + bytes(SEED_SIZE))
        runs = 0
        namespace.clear()
        namespace.update(kept[0])
        sys.stdout, sys.stderr, sys.argv[:], sys.orig_argv[:], sys.path[0] = kept[1:6]
        os.environ.clear()
        os.environ.update(kept[6])
        del builtins._
        linecache.clearcache()
        gc.collect()
        gc.freeze()  # nothing of this goes before the end: no need to look at it again

    by_pipes = is_open(REQUESTS)
    FUTURE_FLAGS = future_flags()
    NAMES_OF_MAIN = 9
    exit_hooks = len(threading._threading_atexits)
    is_warming = True  # the modules' own exit hooks are the program's: they are for its end
    usual_names = names_of_main(USUAL_PATH)
    served_names = names_of_main(SERVED_PATH)
    runs = 0
    in_program = had_input = False
    no_input = None  # /dev/null, opened ahead: to find a path takes longer
    warm_up()
    is_warming = False
    put_on(USUAL_PATH, [])
    if by_pipes:
        os.set_inheritable(REQUESTS, False)
        os.set_inheritable(ANSWERS, False)
        no_input = os.open("/dev/null", os.O_RDONLY)
        os.write(ANSWERS, b"r")
    request = receive()
    if not request.startswith((USUAL, SERVED)):
        request = keep_on(request)
    own_pid = os.getpid()
    status = serve(request)
    if status is INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    if os.getpid() == own_pid or not by_pipes:
        try:
            answer(request, status)
            os.read(REQUESTS, 1)
        except OSError:
            pass
    os._exit(status)  # a child that the program has forked comes by here too



import sys  # noqa: E402
run(globals(), sys.argv[1:])
