"""A Python for tests that starts at once: interpreters that have imported nvdsl, forked from one that did.

    interpreter.py FOLDER MODULE ...             imports the modules, then runs what clients ask for, until its
                                                 standard input ends. FOLDER/python is the client
    FOLDER/python PROGRAM ARG ...                stands for `python PROGRAM ARG ...` (or `-m MODULE`, or `-c CODE`):
                                                 same files, folder, environment, exit status or signal

Half of a lit test's time, and most of the time of a test that starts a process, would go into imports otherwise, and a
third of the rest into taking the modules apart again when the program ends: a forked interpreter does at its end what a
program can see, and no more. A program that needs an interpreter of its own gets one: with options before its name, or
with an environment that differs in what is read at import.

A client that is killed takes its program with it. What the program started itself is not killed, and a signal that
the client is sent does not reach the program: a test of these starts a Python of its own.
"""

import contextlib
import os
import signal
import socket
import sys

import interpreter_client  # beside this file, which is run and never imported

APPLIED = "PYTHONPATH", "PYTHONFAULTHANDLER", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"  # by a fork, or always


def read_at_import(environment):
    names = [k for k in environment if k.startswith(("PYTHON", "LD_")) or k == "NVDSL_MLIR"]
    return {k: environment[k] for k in names if k not in APPLIED}


def serve(folder, modules):
    """Returns in a forked child only: the arguments of the program that it has to run."""
    import gc
    import importlib
    import selectors
    import shlex

    address, python = os.path.join(folder, "socket"), os.path.join(folder, "python")
    with open(python, "w") as file:
        command = shlex.join([sys.executable, "-IS", os.path.abspath(interpreter_client.__file__), address])
        file.write(f'#!/bin/sh\nexec {command} "$@"\n')
    os.chmod(python, 0o700)
    for module in modules:
        importlib.import_module(module)
    sys.executable = python  # of processes that programs start
    gc.freeze()  # a child's collector would otherwise write to, and so copy, all that was imported
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)
    print("ready", flush=True)
    ready, clients = selectors.DefaultSelector(), set()
    ready.register(0, selectors.EVENT_READ)
    ready.register(listening, selectors.EVENT_READ, "connect")
    while True:
        for key, _ in ready.select():
            if key.data is None:  # the tests have ended
                os._exit(0)
            if key.data == "connect":
                client = listening.accept()[0]
                if (arguments := start(client, ready, clients)) is not None:
                    return arguments
                continue
            client, child = key.data
            if key.fileobj is client:  # it is gone, killed at its deadline for example
                if client in clients:
                    os.kill(child, signal.SIGKILL)
                    ready.unregister(client)
                    clients.remove(client)
                continue
            ready.unregister(key.fileobj)
            os.close(key.fileobj)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if client in clients:
                ready.unregister(client)
                clients.remove(client)
                answer(client, status)
            client.close()


def answer(client, status):
    with contextlib.suppress(OSError):  # it may be gone
        client.sendall(str(status).encode())


def start(client, ready, clients):
    """Forks for what the client asks; in the child, the program's arguments."""
    import ast
    import selectors

    size, given, _, _ = socket.recv_fds(client, 4, 64)
    request, left = b"", int.from_bytes(size, "little")
    while len(request) < left:
        request += client.recv(left - len(request))
    folder, environment, arguments, fds = ast.literal_eval(request.decode())
    environment = {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}
    child = os.fork() if read_at_import(environment) == read_at_import(os.environ) else None
    if child == 0:
        for key in list(ready.get_map().values()):
            key.fileobj.close() if isinstance(key.fileobj, socket.socket) else os.close(key.fileobj)
        ready.close()
        client.close()
        take(dict(zip(fds, given, strict=True)))
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        return arguments
    for fd in given:
        os.close(fd)
    if child is None:
        answer(client, interpreter_client.DECLINED)
        client.close()
    else:
        clients.add(client)
        ready.register(client, selectors.EVENT_READ, (client, child))
        ready.register(os.pidfd_open(child), selectors.EVENT_READ, (client, child))
    return None


def take(files):
    """Give the client's files the numbers that they have there. ``files``: that number -> the number here."""
    import fcntl
    import io

    above = max(*files, *files.values()) + 1
    for number, fd in [(number, fcntl.fcntl(fd, fcntl.F_DUPFD, above)) for number, fd in files.items()]:
        os.dup2(fd, number)
        os.close(fd)
    for fd in set(files.values()) - set(files):
        os.close(fd)
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        file = open(fd, "rb" if fd == 0 else "wb", 0, closefd=False)
        setattr(sys, name, io.TextIOWrapper(io.BufferedReader(file) if fd == 0 else file, write_through=True))


def execute(arguments):
    """The program as `python` runs it: `__main__`, its folder first in the path, a traceback of its frames only."""
    import types

    name, rest = arguments[0], arguments[1:]
    folder = os.path.dirname(os.path.abspath(name)) if not name.startswith("-") else os.getcwd() if name == "-m" else ""
    given = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.path[:] = dict.fromkeys([folder, *given, *sys.path[1:]])
    if os.environ.get("PYTHONFAULTHANDLER"):
        import faulthandler

        faulthandler.enable()
    if name == "-m":
        import runpy

        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    if name == "-c":
        sys.argv, source, name = ["-c", *rest[1:]], rest[0], "<string>"
    else:
        sys.argv, main.__file__ = arguments, name
        with open(name, "rb") as file:
            source = file.read()
    exec(compile(source, name, "exec"), vars(main))


def end(arguments):
    """Runs the program, and ends the process as `python` does: it waits for threads, calls what is registered to be
    called at exit, and flushes. The memory goes with the process."""
    import atexit
    import threading

    status = 0
    try:
        execute(arguments)
    except SystemExit as ended:
        status = 0 if ended.code is None else ended.code
        if not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except BaseException as error:
        of_program = error.__traceback__
        while of_program and of_program.tb_frame.f_code.co_filename == __file__:
            of_program = of_program.tb_next
        sys.excepthook(type(error), error.with_traceback(of_program), of_program)
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for file in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            file.flush()
    if status == -signal.SIGINT:
        interpreter_client.end_by(signal.SIGINT)
    os._exit(status & 0xFF)


if __name__ == "__main__":
    end(serve(sys.argv[1], sys.argv[2:]))
