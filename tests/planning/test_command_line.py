"""Commands as they were typed: as overrides, and the number of ranks that they name."""

import shlex

import pytest

from profkit.core import resources
from profkit.core.errors import ConfigError
from profkit.core.settings import checked
from profkit.planning.build import make
from profkit.planning.command_line import as_override, named_ranks, with_named_ranks
from profkit.planning.compose import compose_all
from profkit.planning.configuration import Configuration

NASTY = [
    *("a b", "a'b", 'a"b', "$HOME", "${HOME}", "${i}", "$", "${", "$$", "`id`", "$(id)", "a,b"),
    *("{x}", "{{x}}", "[1,2]", "x}", "]", "(a)", "choice(1,2)", "glob(*)", "~x", "+x", "k=v"),
    *("", "null", "1", "a:b", "#c", "a;b|c&", "*", "?", "!", "%(x)s", "-", "--", "é → \U0001f600"),
    *("a\nb", "a\n", "\t", "\r", "\x01", "\x7f", "\\", "\\\\", "a\\b", "a\\n", "\\'", '\\"', "'"),
    *('"', "'\"'", "\\${i}", "a\\\\${i}", "a ends in \\", "for i in 1; do echo ${i}; done"),
    *("${batch:-2}", "${model}", "${oc.env}", "${a${b}}", "${batch", "--x=${oc.env:HOME"),
]


def composed(words, *overrides):
    (one,) = compose_all(
        resources.CONF, ["workload=script", *overrides, as_override(words, overrides)]
    )
    return shlex.split(one.values["workload"]["command"])


def test_every_word_of_a_command_arrives_as_it_is():
    assert composed(["python", "x.py", *NASTY]) == ["python", "x.py", *NASTY]


def test_a_number_of_ranks_that_contradicts_the_command_is_refused():
    def ranks(text, *overrides):
        given = ["launcher=command", *overrides]
        (one,) = compose_all(
            resources.CONF, ["workload=script", *given, as_override(shlex.split(text), given)]
        )
        config = checked("", Configuration, dict(one.values))
        return with_named_ranks(config, one.overrides).world_size

    command = "torchrun --nproc-per-node 2 t.py"
    with pytest.raises(ConfigError, match="world_size=4, but the command starts 2 ranks"):
        ranks(command, "world_size=4")
    assert ranks(command) == ranks(command, "world_size=2") == 2
    assert (ranks("python t.py"), ranks("python t.py", "world_size=4")) == (1, 4)
    assert ranks(command.replace("2", "${world_size}"), "world_size=4") == 4


@pytest.mark.parametrize("command", ["[python,t.py]", "7"])
def test_a_command_that_is_no_text_is_refused(command):
    words = ["workload=script", "launcher=command", f"workload.command={command}"]
    with pytest.raises(ConfigError, match=r"workload\.command: Input should be a valid string"):
        make(resources.CONF, words)


@pytest.mark.parametrize("word", NASTY)
def test_a_word_may_be_the_last_one(word):
    override = as_override(["x.py", word], ())
    quoted = override.partition("=")[2]
    assert quoted[0] == quoted[-1] == '"'
    assert (len(quoted[:-1]) - len(quoted[:-1].rstrip("\\"))) % 2 == 0


def test_values_of_the_configuration_are_put_in():
    words = ["--b=${batch}", "${model.name}", "it's ${lr}", "${zero.stage}", "\\${batch}"]
    found = composed(words, "batch=4", "+lr=0.1")
    assert found == ["--b=4", "none", "it's 0.1", "0", "${batch}"]


@pytest.mark.parametrize(
    ("command", "ranks"),
    [
        ("python train.py --nproc-per-node 4", None),
        ("torchrun --nproc-per-node 4 train.py", 4),
        ("env X=1 /opt/bin/torchrun --nproc_per_node=2 --nnodes 2 train.py", 4),
        ("torchrun --nnodes 2 train.py", None),
        ("torchrun --nproc-per-node gpu train.py", None),
        ("torchrun train.py --nproc-per-node 8", None),
        ("python -m torch.distributed.run --nproc-per-node=3 -m train", 3),
        ("accelerate launch --num_processes 2 train.py", 2),
        ("deepspeed --num_gpus=2 --num_nodes=2 train.py", 4),
        ("mpirun -np 4 python train.py", 4),
        ("srun --ntasks=8 python train.py", 8),
        ("bash train.sh 4", None),
        ("torchrun --nproc-per-node", None),
        ("torchrun --nproc-per-node 0 train.py", None),
    ],
)
def test_ranks_are_read_from_the_command_line(command, ranks):
    assert named_ranks(command.split()) == ranks
