"""A program that does, in its fourth step, what ``how`` says, unless a file ``well`` is there."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import profkit
from profkit.workloads.base import BaseWorkload


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload(BaseWorkload):
    how: str = ""


def fill():
    out = Path(json.loads(os.environ["PROFKIT_CAPTURE"])["out"])
    with (out / "rank0_dp0_tp0_pp0.half.json").open("wb", buffering=0) as file:
        while file.write(bytes(1 << 20)):
            pass


def gobble():
    kept = []
    for _ in range(40):
        # Touched, so that the pages are really there.
        kept.append(bytearray(os.urandom(1 << 20)) * 25)
        time.sleep(0.1)
    time.sleep(300)


def fail():
    raise ValueError("the loss is not a number\nsecond line")


def fail_late():
    # A profiler from outside needs some time on a busy machine before it sees the first stack.
    time.sleep(2)
    fail()


def tell():
    print(os.environ)


def tell_and_raise():
    tell()
    raise ValueError("bad token " + os.environ["MY_CANARY_SECRET"])


def hang():
    subprocess.Popen(["setsid", "--fork", "sleep", "86399"])
    time.sleep(300)


WAYS = {
    "fill": fill,
    "gobble": gobble,
    "raise": fail,
    "raise late": fail_late,
    "tell": tell,
    "tell and raise": tell_and_raise,
    "exit": lambda: sys.exit(7),
    "exhaust": lambda: bytearray(1 << 60),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "terminated": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "abort": os.abort,
    "leave": lambda: os._exit(0),
    "leave with 3": lambda: os._exit(3),
    "hang": hang,
}


if __name__ == "__main__":
    request = json.loads(sys.argv[2])
    how = "" if Path("well").exists() else request["workload"]["how"]
    if how == "early":
        sys.exit()
    for index in profkit.steps(request["steps"], samples=2):
        if index == 3:
            print("in the fourth step")
            WAYS.get(how, str)()
