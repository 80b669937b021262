"""Hand a command line of Python over to a server of `tests.warm_ranks.program`; end as it ends."""

import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120 - loads no more
from profkit.process import job_client

status = job_client.handed_over(sys.argv[1], sys.argv[2:])
if status is None:
    status = -signal.SIGKILL
if status < 0:
    os.kill(os.getpid(), -status)
os._exit(status)
