"""Hand a command line of Python over to a server of `tests.warm_ranks.program`; end as it ends."""

import json
import os
import signal
import socket
import sys

with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    job = {"argv": sys.argv[2:], "cwd": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109 - loads no more
    socket.send_fds(connection, [b"\n"], [0, 1, 2])
    connection.sendall(json.dumps(job).encode() + b"\n")
    status = int(connection.makefile("rb").readline() or -signal.SIGKILL)
if status < 0:
    os.kill(os.getpid(), -status)
os._exit(status)
