#!/usr/bin/python3
"""A warm interpreter that forks for every request: the fastest way to run Python with no wall at
all, and so the honest rival of a warm cell.

    fork_server.py SOCKET MODULE…

Imports the modules, says "ready", and then runs the code that comes through each connection in a
child; what it prints goes back, the end of the stream is the end of the run."""
import gc
import os
import signal
import socket
import sys

server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen(64)
for module in sys.argv[2:]:
    __import__(module)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
# Without this the collector would write to, and so copy, every page that has an object in it.
gc.collect()
gc.disable()
gc.freeze()
print("ready", flush=True)
while True:
    connection, _ = server.accept()
    if os.fork() == 0:
        gc.enable()
        os.dup2(connection.fileno(), 1)
        exec(compile(connection.recv(65536), "main.py", "exec"), {"__name__": "__main__"})
        sys.stdout.flush()
        os._exit(0)
    connection.close()
