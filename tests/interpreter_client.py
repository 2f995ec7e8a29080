"""The client of tests/interpreter.py: hands over its files, and ends as the program ended.

It starts a thousand times in `make test`, so it takes no module that Python would have to read first.
"""

import posix
import sys
from _signal import SIG_DFL, signal
from _socket import AF_UNIX, SCM_RIGHTS, SOL_SOCKET, socket

DECLINED = 256  # no exit status


def run(address, arguments):
    plain = arguments[:1] and (not arguments[0].startswith("-") or arguments[0] in ("-m", "-c"))
    status = ask(address, arguments) if plain else DECLINED
    if status == DECLINED:
        posix.execv(sys.executable, [sys.executable, *arguments])
    if status < 0:
        end_by(-status)
    sys.exit(status)


def end_by(number):
    try:
        signal(number, SIG_DFL)
    except OSError:  # SIGKILL has no handler
        pass
    posix.kill(posix.getpid(), number)


def inherited():
    """The files that a program inherits: the standard ones, and those that its parent passed to it."""
    found = []
    for fd in map(int, posix.listdir("/proc/self/fd")):
        try:
            if fd < 3 or posix.get_inheritable(fd):
                found.append(fd)
        except OSError:  # the listing's own is closed by now
            pass
    return found


def ask(address, arguments):
    fds = inherited()
    request = repr((posix.getcwd(), dict(posix.environ), arguments, fds)).encode()
    server = socket(AF_UNIX)
    server.connect(address)
    numbers = b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds)
    server.sendmsg([len(request).to_bytes(4, "little")], [(SOL_SOCKET, SCM_RIGHTS, numbers)])
    server.sendall(request)
    answer = server.recv(16)
    return int(answer) if answer else sys.exit("the server of the tests' interpreters ended")


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2:])
