"""`%python` and `FileCheck` of the lit tests: interpreters that have imported everything, forked from one that did.

    interpreter.py serve SOCKET MODULE ...       imports the modules, then runs what clients ask for, until its
                                                 standard input ends
    interpreter.py run SOCKET PROGRAM ARG ...    stands for `python PROGRAM ARG ...` (or `-m MODULE ARG ...`): same
                                                 files, folder, environment, exit status or signal

Half of a lit test's time would go into imports otherwise, and a third of the rest into taking the modules apart again
when the program ends: a forked interpreter does at its end what a program can see, and no more. A program that needs
an interpreter of its own gets one: with options before its name, or with an environment that differs in what is read at
import.
"""

import contextlib
import os
import signal
import socket
import sys

FDS = (0, 1, 2)
DECLINED = 256  # no exit status


def read_at_import(environment):
    names = [k for k in environment if k.startswith(("PYTHON", "LD_")) or k == "NVDSL_MLIR"]
    return {k: environment[k] for k in names if k != "PYTHONPATH"}


def run(address, arguments):
    """The client: hands over its files, and ends as the program ended."""
    plain = arguments[:1] and (not arguments[0].startswith("-") or arguments[0] == "-m")
    status = ask(address, arguments) if plain else DECLINED
    if status == DECLINED:
        os.execv(sys.executable, [sys.executable, *arguments])
    if status < 0:
        end_by(-status)
    sys.exit(status)


def end_by(number):
    with contextlib.suppress(OSError):  # SIGKILL has no handler
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def ask(address, arguments):
    request = repr((os.getcwd(), dict(os.environ), arguments)).encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        socket.send_fds(server, [len(request).to_bytes(4, "little")], FDS)
        server.sendall(request)
        answer = server.recv(16)
    return int(answer) if answer else sys.exit("the server of the lit tests ended")


def serve(address, modules):
    """Returns in a forked child only: the arguments of the program that it has to run."""
    import gc
    import importlib
    import selectors

    for module in modules:
        importlib.import_module(module)
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
            if key.data is None:  # lit has ended
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
    import io
    import selectors

    size, fds, _, _ = socket.recv_fds(client, 4, len(FDS))
    request, left = b"", int.from_bytes(size, "little")
    while len(request) < left:
        request += client.recv(left - len(request))
    folder, environment, arguments = ast.literal_eval(request.decode())
    child = os.fork() if read_at_import(environment) == read_at_import(os.environ) else None
    if child == 0:
        for given, fd, name in zip(fds, FDS, ("stdin", "stdout", "stderr"), strict=True):
            os.dup2(given, fd)
            file = open(fd, "rb" if fd == 0 else "wb", 0, closefd=False)
            setattr(sys, name, io.TextIOWrapper(io.BufferedReader(file) if fd == 0 else file, write_through=True))
    for fd in fds:
        os.close(fd)
    if child == 0:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        return arguments
    if child is None:
        answer(client, DECLINED)
        client.close()
    else:
        clients.add(client)
        ready.register(client, selectors.EVENT_READ, (client, child))
        ready.register(os.pidfd_open(child), selectors.EVENT_READ, (client, child))
    return None


def execute(arguments):
    """The program as `python` runs it: `__main__`, its folder first in the path, a traceback of its frames only."""
    import types

    if arguments[0] == "-m":
        import runpy

        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    path = [os.path.dirname(os.path.abspath(arguments[0])), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    sys.path[:] = dict.fromkeys([*filter(None, path), *sys.path[1:]])
    main = types.ModuleType("__main__")
    main.__file__ = arguments[0]
    sys.modules["__main__"] = main
    with open(arguments[0], "rb") as file:
        source = file.read()
    exec(compile(source, arguments[0], "exec"), vars(main))


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
        end_by(signal.SIGINT)
    os._exit(status & 0xFF)


if __name__ == "__main__":
    command, address, *rest = sys.argv[1:]
    if command == "run":
        run(address, rest)
    else:
        end(serve(address, rest))
