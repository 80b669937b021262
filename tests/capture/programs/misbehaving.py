"""A program that does, in its fourth step, what ``how`` says."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import profkit
from profkit.workloads.base import Program


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload(Program):
    how: str = ""


def misbehave(how):
    if how == "raise":
        raise ValueError("the loss is not a number\nsecond line")
    if how.startswith("tell"):
        print(os.environ)
    if how == "tell and raise":
        raise ValueError("bad token " + os.environ["MY_CANARY_SECRET"])
    if how == "exit":
        sys.exit(7)
    if how == "exhaust":
        bytearray(1 << 60)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hang":
        subprocess.Popen(["setsid", "--fork", "sleep", "86399"])
        time.sleep(300)


if __name__ == "__main__":
    request = json.loads(sys.argv[2])
    for index in profkit.steps(request["steps"], samples=2):
        if index == 3:
            print("in the fourth step")
            misbehave(request["workload"]["how"])
