"""Which names have secrets for values, and which values under them are some."""

import pytest

from profkit.core.secret_names import is_secret, is_secret_name


@pytest.mark.parametrize(
    "name",
    [
        *("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "MY_PASSWORD", "PROFKIT_CANARY_SECRET"),
        *("WANDB_API_KEY", "GITHUB_PAT", "DOCKER_AUTH", "OPENAI_KEY", "PGPASSWORD"),
        *("MYSQL_PWD", "DB_PASS", "clientSecret", "apiKey", "SECRET_KEY_BASE"),
    ],
)
def test_names_of_secrets_are_known(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("PWD", "OLDPWD", "TOKENIZERS_PARALLELISM", "SSH_AUTH_SOCK", "HF_TOKEN_PATH", "KEYBOARD"),
        *("MAX_NEW_TOKENS", "PAD_TOKEN", "AUTH_TYPE", "KEY_DIM", "GDMSESSION", "PASSES"),
    ],
)
def test_names_of_other_things_are_not(name):
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("password", "1234"),
        ("DB_PASS", "123456"),
        ("hf_token", "abc"),
        ("wandb-key", "c0ffee0a1b2c"),
        ("wandb-key", "x7Ypq2Kz"),
        ("run_key_v2", "5f0b0c3e-8a1d-4d0e-9f57-0f2a1b3c4d5e"),
        ("tokens", "0a1b2c3d4e5f60718293"),
    ],
)
def test_what_was_drawn_or_stands_under_a_clear_name_is_a_secret(name, value):
    assert is_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sort_key", "name"),
        ("token", "131072"),
        ("key", "128x128x32"),
        ("key", "sm90_f32f32"),
        ("key", "layers.0.attention.wq.weight"),
        ("num_secrets", "12"),
        ("secret_weight", "0.5"),
        ("use_auth", "true"),
        ("eos_token", "<|endoftext|>"),
        ("partition_key", "customer_id"),
    ],
)
def test_what_was_written_under_a_doubtful_name_is_none(name, value):
    assert not is_secret(name, value)
