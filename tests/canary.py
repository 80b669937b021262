"""Values that a run must not write down, and all the places in a file where they could be."""

import gzip
import zipfile
from pathlib import Path

import pyarrow.parquet

CANARIES = {"MY_CANARY_SECRET": "canary-5f0b0c3e", "MY_CANARY": "canary-8a1d4d0e"}
"""Variables in the environment of a tree's runs: one under the name of a secret, one not."""


def _canary(number: int) -> str:
    return f"c4n4ry{number:02}f0b0"


_ARGUMENTS = (
    *("--password {}", "--api-key={}", "--wandb-key {}", "-u me:{}", "--user=me:{}"),
    *("--data https://me:{}@host/x", "--url https://host/x?token={}", "--proxy redis://:{}@h"),
    *("-DAPI_KEY={}", "--env MYSQL_PWD={}", "--header X-Api-Key:{}"),
    *("--run-key 5f0b0c3e-8a1d-4d0e-9f57-{}", "--hub.token {}", "logger.wandb.api_key={}"),
    *("--auth me:{}", "--sas https://host/x?sv=1&sig={}", "mysql -p{}", "sshpass -p {}"),
    *("redis-cli -a {}", "aws_secret_access_key {}"),
)
_VARIABLES = (
    "DB_PASSWORD",
    "MYSQL_PWD",
    "WANDB_API_KEY",
    "HF_TOKEN",
    "CLIENT_SECRET",
    "PGPASSWORD",
)
FORMS = tuple(map(_canary, range(len(_ARGUMENTS) + len(_VARIABLES))))
"""A value for each form in which people write a secret into a configuration."""


def of_every_form(script: str) -> list[str]:
    """Return overrides that profile `script` on one rank, with the values of `FORMS` in them.

    Two of its variables and arguments have those of `CANARIES`, by interpolation.
    """
    values = iter(FORMS)
    arguments = [form.format(next(values)) for form in _ARGUMENTS]
    variables = [f"{name}:{next(values)}" for name in _VARIABLES]
    interpolated = "${oc.env:MY_CANARY_SECRET}"
    return [
        *("workload=script", "world_size=1", "launcher=python", "tool=[]", "analysis=[steps]"),
        f"workload.command='{script} {' '.join(arguments)} --name {interpolated}'",
        f"+launcher.env={{{','.join(variables)},PLAIN:{interpolated}}}",
        f"report.title='of {interpolated}'",
    ]


def inside(path: Path) -> bytes:
    """Return the content of a file, unpacked where it is packed."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(content)
    if path.suffix == ".parquet":
        return content + repr(pyarrow.parquet.read_table(path).to_pylist()).encode()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return b"".join(map(archive.read, archive.namelist()))
    return content
