"""What a rank says of the process that it is, as code of it."""

CODE = """
import json, os, pathlib, resource, signal, sys
limits = [getattr(resource, name) for name in sorted(dir(resource)) if name.startswith("RLIMIT_")]
state = dict(
    environ=dict(os.environ),
    path=sys.path,
    executable=sys.executable,
    affinity=sorted(os.sched_getaffinity(0)),
    nice=os.nice(0),
    limits=[resource.getrlimit(limit) for limit in limits],
    cwd=os.getcwd(),
    umask=os.umask(0),
    blocked=sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    descriptors=sorted(os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in range(3)),
    is_leader=os.getsid(0) == os.getpid(),
)

def write():
    pathlib.Path(f"state{os.environ['RANK']}.json").write_text(json.dumps(state))
"""

_CHOSEN = {"MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE"}
"""Variables that torchrun sets to something else each time."""


def of_user(state):
    """Return the state without what torchrun sets."""
    environ = {name: state["environ"][name] for name in state["environ"].keys() - _CHOSEN}
    return state | {"environ": environ}
